// The trace format's lines, parsed once: `unknown` in, trusted values out. Errors name the line, the field, the value
// and what would be right. The format is written down in docs/trace-format.md.
import { z } from "zod";
import { CoppiceError } from "../errors.ts";
import {
  rolloutId,
  type CallClass,
  type CallStatus,
  type Message,
  type RolloutId,
  type Sampling,
  type Way,
} from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";
import type { Outcome, Reference } from "../selection/outcome.ts";

/** One call as a trace tells it; prompt and generated ids are whole, times are seconds. */
export interface CallLine {
  readonly type: "call";
  readonly rollout_id: string;
  readonly call_id: string;
  readonly response_id?: Maybe<string>;
  readonly prompt_token_ids?: Maybe<number[]>;
  readonly generated_token_ids?: Maybe<number[]>;
  /** null stands for what JSON cannot hold (NaN, -Infinity): the call is then untrainable. */
  readonly generated_logprobs?: Maybe<(number | null)[]>;
  readonly weight_version?: Maybe<string>;
  readonly weight_versions?: Maybe<{ version: string; start: number }[]>;
  readonly finish_reason?: Maybe<string>;
  readonly admitted_at?: Maybe<number>;
  readonly committed_at?: Maybe<number>;
  readonly status?: Maybe<CallStatus>;
  readonly status_detail?: Maybe<string>;
  readonly untrainable?: Maybe<string>;
  /** As the client named it: a call id or a response id. */
  readonly parent_call_id?: Maybe<string>;
  readonly media_digests?: Maybe<string[]>;
  readonly agent?: Maybe<string>;
  readonly class?: Maybe<CallClass>;
  readonly way?: Maybe<Way>;
  readonly notes?: Maybe<string[]>;
  readonly sampling?: Maybe<Sampling>;
  readonly temperature?: Maybe<number>;
  readonly logprobs_mode?: Maybe<string>;
  readonly messages?: Maybe<Message[]>;
  readonly answer?: Maybe<Message>;
}

type Maybe<T> = T | null | undefined;

interface OutcomeLine {
  readonly type: "outcome";
  readonly rollout_id: string;
  readonly group_id?: Maybe<string>;
  readonly generation_index?: Maybe<number>;
  readonly reward?: Maybe<number>;
  readonly accepted?: Maybe<(string | Record<string, unknown>)[]>;
  readonly final?: Maybe<string | Record<string, unknown>>;
  readonly failed?: Maybe<string>;
  readonly infer?: Maybe<boolean>;
}

const name = z.string().min(1).max(400);
const tokenId = z.number().int().min(0).max(0xffff_ffff);
const message = z.record(z.string(), z.unknown());
const weightVersion = z.object({ version: z.string(), start: z.number().int().min(0) });

const callLine: z.ZodType<CallLine> = z.object({
  type: z.literal("call"),
  rollout_id: name,
  call_id: name,
  response_id: name.nullish(),
  prompt_token_ids: z.array(tokenId).nullish(),
  generated_token_ids: z.array(tokenId).nullish(),
  generated_logprobs: z.array(z.number().nullable()).nullish(),
  weight_version: z.string().nullish(),
  weight_versions: z.array(weightVersion).nullish(),
  finish_reason: z.string().nullish(),
  admitted_at: z.number().nullish(),
  committed_at: z.number().nullish(),
  status: z.enum(["admitted", "committed", "aborted", "failed", "unknown"]).nullish(),
  status_detail: z.string().nullish(),
  untrainable: z.string().nullish(),
  parent_call_id: name.nullish(),
  media_digests: z.array(z.string()).nullish(),
  agent: z.string().nullish(),
  class: z.enum(["main", "sub_agent", "compaction", "title", "auxiliary"]).nullish(),
  way: z.enum(["text", "token-in"]).nullish(),
  notes: z.array(z.string()).nullish(),
  sampling: z.object({ asked: message, used: message }).nullish(),
  temperature: z.number().nullish(),
  logprobs_mode: z.string().nullish(),
  messages: z.array(message).nullish(),
  answer: message.nullish(),
});

const reference = z.union([name, message]);

const outcomeLine: z.ZodType<OutcomeLine> = z.object({
  type: z.literal("outcome"),
  rollout_id: name,
  group_id: name.nullish(),
  generation_index: z.number().int().min(0).nullish(),
  reward: z.number().nullish(),
  accepted: z.array(reference).nullish(),
  final: reference.nullish(),
  failed: z.string().nullish(),
  infer: z.boolean().nullish(),
});

export type TraceLine =
  | { readonly type: "call"; readonly rolloutId: RolloutId; readonly call: CallLine }
  | { readonly type: "outcome"; readonly rolloutId: RolloutId; readonly outcome: Outcome };

/** Parses one line's JSON value. `where` stands in front of the error, e.g. `run.jsonl:12`. */
export function parseTraceLine(value: unknown, where: string): TraceLine {
  const type = isRecord(value) ? value["type"] : undefined;
  if (type === "call") {
    const call = check(callLine, value, where);
    return { type, rolloutId: rolloutId(call.rollout_id, `${where}: rollout_id`), call };
  }
  if (type === "outcome") {
    const outcome = parseOutcome(check(outcomeLine, value, where), where);
    return { type, rolloutId: outcome.rolloutId, outcome };
  }
  const given = JSON.stringify(type) ?? "missing";
  throw new CoppiceError("invalid_request", `${where}: type is ${given}; it must be "call" or "outcome"`, {
    param: "type",
  });
}

function parseOutcome(line: OutcomeLine, where: string): Outcome {
  return {
    rolloutId: rolloutId(line.rollout_id, `${where}: rollout_id`),
    groupId: line.group_id ?? null,
    generationIndex: line.generation_index ?? null,
    reward: line.reward ?? null,
    accepted: line.accepted?.map(toReference) ?? null,
    final: line.final === null || line.final === undefined ? null : toReference(line.final),
    failed: line.failed ?? null,
    infer: line.infer ?? false,
  };
}

export function toReference(given: string | Record<string, unknown>): Reference {
  return typeof given === "string" ? given : { item: given };
}

function check<T>(schema: z.ZodType<T>, value: unknown, where: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0] as z.core.$ZodIssue;
  const field = issue.path.map(String).join(".");
  const given = issue.path.reduce<unknown>(
    (at, key) =>
      typeof at === "object" && at !== null ? (at as Record<PropertyKey, unknown>)[key] : undefined,
    value,
  );
  const shown = given === undefined ? "missing" : shorten(JSON.stringify(given));
  throw new CoppiceError("invalid_request", `${where}: ${field} is ${shown}; ${issue.message}`, {
    param: field,
  });
}

function shorten(json: string): string {
  return json.length > 60 ? `${json.slice(0, 57)}...` : json;
}
