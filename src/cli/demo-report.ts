// What the demo shows comes from where anyone else would get it: the gateway's management API. Rollouts with their
// calls for the drawing, and the group's rows as JSON Lines, which are also what is written to the file.
import { z } from "zod";
import { CoppiceError, messageOf } from "../errors.ts";
import { callId, type RootReason } from "../lineage/call.ts";
import { REFUSAL_REASONS, type RefusalReason } from "../selection/outcome.ts";
import type { DrawnCall } from "./draw-forest.ts";

const callSchema = z.object({
  call_id: z.string(),
  parent_call_id: z.string().nullable(),
  root_reason: z.enum(["rewrite", "asked_again", "other_agent", "unknown", "drift"]).nullable(),
  drift: z
    .object({
      followed_call_id: z.string(),
      index: z.number(),
      expected_id: z.number().nullable(),
      actual_id: z.number().nullable(),
      expected_text: z.string().nullable(),
      actual_text: z.string().nullable(),
    })
    .nullable(),
  asked_again_call_id: z.string().nullable(),
  status: z.enum(["admitted", "committed", "aborted", "failed", "unknown"]),
  status_detail: z.string().nullable(),
  agent: z.string().nullable(),
  class: z.enum(["main", "sub_agent", "compaction", "title", "auxiliary"]).nullable(),
  carried_tokens: z.number(),
  generated_tokens: z.number(),
  untrainable: z.string().nullable(),
});

const rolloutSchema = z.object({ rollout_id: z.string(), state: z.string(), calls: z.array(callSchema) });

/** Fields that are not named here are kept as they came. */
export interface DemoRow {
  readonly type: "row";
  readonly row_id: string;
  readonly rollout_id: string;
  readonly reward: number | null;
  readonly advantage: number | null;
  readonly row_trainable_tokens: number;
  readonly token_ids: readonly number[];
  readonly loss_mask: readonly number[];
  readonly spans: readonly { readonly call_id: string; readonly trained: boolean }[];
}

export interface DemoFailure {
  readonly type: "failure";
  readonly rollout_id: string;
  readonly reason: RefusalReason;
  readonly detail: string;
}

const rowSchema: z.ZodType<DemoRow> = z.looseObject({
  type: z.literal("row"),
  row_id: z.string(),
  rollout_id: z.string(),
  reward: z.number().nullable(),
  advantage: z.number().nullable(),
  row_trainable_tokens: z.number(),
  token_ids: z.array(z.number()),
  loss_mask: z.array(z.number()),
  spans: z.array(z.looseObject({ call_id: z.string(), trained: z.boolean() })),
});

const failureSchema: z.ZodType<DemoFailure> = z.looseObject({
  type: z.literal("failure"),
  rollout_id: z.string(),
  reason: z.enum(REFUSAL_REASONS),
  detail: z.string(),
});

const rowsSchema = z.array(z.union([rowSchema, failureSchema]));

export interface DemoRows {
  /** As the gateway sent them. */
  readonly jsonLines: string;
  readonly rows: readonly DemoRow[];
  readonly failures: readonly DemoFailure[];
}

/** Calls of a rollout in order of admission. Throws `unavailable` where the gateway does not answer as it should. */
export async function readCalls(
  gatewayUrl: string,
  rolloutId: string,
  signal: AbortSignal,
): Promise<readonly DrawnCall[]> {
  const text = await get(`${gatewayUrl}/rollouts/${rolloutId}`, signal);
  const rollout = parse(rolloutSchema, JSON.parse(text), "rollout");
  return rollout.calls.map((call) => ({
    callId: call.call_id,
    parentCallId: call.parent_call_id,
    rootReason: rootReason(call),
    status: call.status,
    statusDetail: call.status_detail,
    agent: call.agent,
    class: call.class,
    carriedLength: call.carried_tokens,
    generatedLength: call.generated_tokens,
    untrainable: call.untrainable,
  }));
}

export async function readRows(gatewayUrl: string, groupId: string, signal: AbortSignal): Promise<DemoRows> {
  const jsonLines = await get(`${gatewayUrl}/groups/${groupId}/rows?format=jsonl`, signal);
  const values = jsonLines
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as unknown);
  const lines = parse(rowsSchema, values, "rows");
  return {
    jsonLines,
    rows: lines.filter((line) => line.type === "row"),
    failures: lines.filter((line) => line.type === "failure"),
  };
}

function rootReason(call: z.infer<typeof callSchema>): RootReason | null {
  switch (call.root_reason) {
    case "drift": {
      const { drift } = call;
      if (drift === null) return { kind: "unknown" };
      return {
        kind: "drift",
        followedCallId: callId(drift.followed_call_id),
        index: drift.index,
        expectedId: drift.expected_id,
        actualId: drift.actual_id,
        expectedText: drift.expected_text,
        actualText: drift.actual_text,
      };
    }
    case "asked_again":
      return call.asked_again_call_id === null
        ? { kind: "unknown" }
        : { kind: "asked_again", rootCallId: callId(call.asked_again_call_id) };
    case "rewrite":
    case "other_agent":
    case "unknown":
      return { kind: call.root_reason };
    case null:
      return null;
  }
}

async function get(url: string, signal: AbortSignal): Promise<string> {
  const response = await fetch(url, { signal });
  const text = await response.text();
  if (response.ok) return text;
  throw new CoppiceError(
    "unavailable",
    `GET ${url} was answered with ${response.status}: ${text.slice(0, 300)}`,
  );
}

function parse<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new CoppiceError("unavailable", `the gateway's ${what} cannot be read: ${messageOf(parsed.error)}`, {
    cause: parsed.error,
  });
}
