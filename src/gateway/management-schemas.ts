// The management API's bodies and answers as schemas: requests are checked with them, and the OpenAPI document is made
// of them. Times on the wire are seconds, since the epoch where they name a moment.
import { z } from "zod";
import { FILE_FORMATS, type FileFormat } from "../export/export-rows.ts";
import { SHAPE_NAMES } from "../export/shapes.ts";
import { ADVANTAGES, WEIGHTS } from "../rows/group.ts";

const id = z
  .string()
  .regex(/^[A-Za-z0-9._:@+-]{1,200}$/, "it must be 1 to 200 letters, digits or . _ : @ + -");
const reference = z
  .union([z.string().min(1).max(400), z.record(z.string(), z.unknown())])
  .describe(
    "a response id, a call id, or a whole response item (an answer without an id is matched by content)",
  );

const groupId = id.nullish().describe("without one the rollout is a group of its own");
const generationIndex = z
  .number()
  .int()
  .min(0)
  .max(1_000_000_000)
  .nullish()
  .describe("the rollout's place in its group");

export interface OpenBody {
  readonly rollout_id?: string | null | undefined;
  readonly group_id?: string | null | undefined;
  readonly group_size?: number | null | undefined;
  readonly generation_index?: number | null | undefined;
  readonly attempt?: number | null | undefined;
  readonly sampling?: Record<string, unknown> | null | undefined;
  readonly deadline_s?: number | null | undefined;
  readonly tags?: Record<string, string> | null | undefined;
}

export const openBody: z.ZodType<OpenBody> = z.strictObject({
  rollout_id: id.nullish().describe("the same as in the path"),
  group_id: groupId,
  group_size: z
    .number()
    .int()
    .min(1)
    .nullish()
    .describe("rollouts in the group; its rows are complete once so many are sealed"),
  generation_index: generationIndex,
  attempt: z.number().int().min(1).nullish().describe("a number above the newest begins a new attempt"),
  sampling: z
    .record(z.string(), z.unknown())
    .nullish()
    .describe("settings that win over what the agent sends; null takes a setting out"),
  deadline_s: z
    .number()
    .positive()
    .max(1e9)
    .nullish()
    .describe("seconds after opening at which a rollout without an outcome is refused"),
  tags: z.record(z.string().max(200), z.string().max(2000)).nullish(),
});

export interface OutcomeBody {
  readonly type?: "outcome" | null | undefined;
  readonly rollout_id?: string | null | undefined;
  readonly reward?: number | null | undefined;
  readonly accepted?: (string | Record<string, unknown>)[] | null | undefined;
  readonly final?: string | Record<string, unknown> | null | undefined;
  readonly failed?: string | null | undefined;
  readonly infer?: boolean | null | undefined;
  readonly group_id?: string | null | undefined;
  readonly group_size?: number | null | undefined;
  readonly generation_index?: number | null | undefined;
}

export const outcomeBody: z.ZodType<OutcomeBody> = z.strictObject({
  type: z.literal("outcome").nullish().describe("so that an outcome line of a trace can be posted as it is"),
  rollout_id: id.nullish().describe("the same as in the path"),
  reward: z.number().nullish().describe("may be added once, later"),
  accepted: z.array(reference).nullish().describe("what the agent kept, in order"),
  final: reference.nullish().describe("the response that the agent ended on, or the one that was scored"),
  failed: z.string().min(1).max(10_000).nullish().describe("the agent failed, in its own words"),
  infer: z.boolean().nullish().describe("with neither form: find the kept leaf strictly, or refuse"),
  group_id: groupId,
  group_size: z.number().int().min(1).nullish(),
  generation_index: generationIndex,
});

export interface WeightsBody {
  readonly version: string | number;
}

export const weightsBody: z.ZodType<WeightsBody> = z.strictObject({
  version: z
    .union([z.string().min(1).max(200), z.number().int()])
    .describe("which weights generate from now on; a whole number is kept as its digits"),
});

export interface ListQuery {
  readonly group_id?: string | undefined;
  readonly state?: "open" | "sealed" | "swept" | undefined;
  readonly limit?: number | undefined;
}

export const listQuery: z.ZodType<ListQuery> = z.strictObject({
  group_id: id.optional(),
  state: z.enum(["open", "sealed", "swept"]).optional(),
  limit: z.coerce.number().int().min(1).max(100_000).optional(),
});

export interface RowsQuery {
  readonly format?: FileFormat | undefined;
  readonly shape?: string | undefined;
  readonly force_mixed?: boolean | undefined;
  readonly advantage?: string | undefined;
  readonly weights?: string | undefined;
}

export const rowsQuery: z.ZodType<RowsQuery> = z.strictObject({
  format: z.enum(FILE_FORMATS).optional(),
  shape: z.enum(SHAPE_NAMES).optional(),
  force_mixed: z.stringbool().optional(),
  advantage: z.enum(ADVANTAGES).optional(),
  weights: z.enum(WEIGHTS).optional(),
});

const text = z.string().nullable();
const count = z.number().int();
const moment = z.number().nullable();

const callView = z.object({
  call_id: z.string(),
  response_id: text,
  parent_call_id: text,
  root_reason: z.enum(["rewrite", "drift", "asked_again", "other_agent", "unknown"]).nullable(),
  drift: z
    .object({
      followed_call_id: z.string(),
      index: count,
      expected_id: count.nullable(),
      actual_id: count.nullable(),
      expected_text: text,
      actual_text: text,
    })
    .nullable(),
  asked_again_call_id: text,
  status: z.enum(["admitted", "committed", "aborted", "failed", "unknown"]),
  status_detail: text,
  way: z.enum(["text", "token-in"]),
  agent: text,
  class: z.enum(["main", "sub_agent", "compaction", "title", "auxiliary"]).nullable(),
  carried_tokens: count,
  generated_tokens: count,
  sequence_length: count,
  finish_reason: text,
  untrainable: text,
  named_parent: text,
  named_parent_misfit: z.boolean(),
  weight_versions: z.array(z.object({ version: z.string(), start: count })),
  sampling: z.object({ asked: z.record(z.string(), z.unknown()), used: z.record(z.string(), z.unknown()) }),
  notes: z.array(z.string()),
  admitted_order: count,
  settled_order: count.nullable(),
  admitted_at: moment,
  settled_at: moment,
});

const rolloutView = z.object({
  rollout_id: z.string(),
  attempt: count,
  state: z.enum(["open", "sealed", "swept"]),
  group_id: z.string(),
  group_size: count.nullable(),
  generation_index: count.nullable(),
  sampling: z.record(z.string(), z.unknown()).nullable(),
  deadline_at: moment,
  tags: z.record(z.string(), z.string()),
  opened_at: moment,
  sealed_at: moment,
  weight_version: text,
  outcome: z
    .object({
      reward: z.number().nullable(),
      accepted: z.array(reference).nullable(),
      final: reference.nullable(),
      failed: text,
      infer: z.boolean(),
    })
    .nullable(),
  counts: z.object({
    admitted: count,
    committed: count,
    failed: count,
    aborted: count,
    unknown: count,
    late: count,
  }),
});

const refusal = z.object({ reason: z.string(), detail: z.string() }).nullable();

export type AnswerName =
  | "rollout"
  | "openedRollout"
  | "sealedRollout"
  | "rolloutWithCalls"
  | "rollouts"
  | "call"
  | "swept"
  | "weights";

/** Of each answer; tests hold the real ones against them. */
export const answers: Readonly<Record<AnswerName, z.ZodType>> = {
  rollout: rolloutView,
  openedRollout: rolloutView.extend({
    client_key: text.describe("a key that may call for this rollout alone; null where no keys are set"),
  }),
  sealedRollout: rolloutView.extend({ refusal: refusal.describe("why the rollout gives no rows") }),
  rolloutWithCalls: rolloutView.extend({
    alarms: z.array(z.enum(["n_calls_n_roots"])),
    changing_line: z
      .object({ message: count, line: count, before: z.string(), after: z.string() })
      .nullable()
      .describe("under the alarm: the first line that differs between the first messages of two roots"),
    drifts: count,
    calls: z.array(callView),
  }),
  rollouts: z.object({ rollouts: z.array(rolloutView) }),
  call: callView.extend({
    rollout_id: z.string(),
    attempt: count,
    prompt_token_ids: z.array(count).nullable(),
    carried_token_ids: z.array(count),
    generated_token_ids: z.array(count),
    generated_logprobs: z.array(z.number().nullable()),
    logprobs_mode: text,
    media_digests: z.array(z.string()),
    messages_from: count,
    messages: z.array(z.record(z.string(), z.unknown())).nullable(),
    answer: z.record(z.string(), z.unknown()).nullable(),
    digest: z.string(),
  }),
  swept: z.object({ rollout_id: z.string(), state: z.literal("swept") }),
  weights: z.object({ version: text }),
};
