// Shape `rows`: ours, all that a row knows. Position i of mask and log-probs belongs to token i; nothing is shifted.
// Token ids are unsigned 32-bit, mask uint8, log-probs float32; spans and weight versions are lists of structs.
// The same fields as a line of `coppice rows` (docs/trace-format.md).
import {
  BOOL,
  column,
  FLOAT32,
  FLOAT64,
  INT32,
  listOf,
  nullable,
  STRING,
  structOf,
  UINT32,
  UINT8,
  type Shape,
  type ShapedRecord,
} from "./shape.ts";
import type { Row } from "../../rows/row.ts";

const span = structOf(
  column("call_id", STRING),
  column("start", INT32),
  column("carried", INT32),
  column("generated", INT32),
  column("trained", BOOL),
  nullable("temperature", FLOAT64),
);

const weightVersion = structOf(column("version", STRING), column("start", INT32), column("end", INT32));

export const rowsShape: Shape = {
  name: "rows",
  alignment: "own_token",
  columns: [
    column("row_id", STRING),
    column("rollout_id", STRING),
    column("group_id", STRING),
    column("generation_index", INT32),
    column("segment_index", INT32),
    column("segment_count", INT32),
    nullable("reward", FLOAT64),
    nullable("advantage", FLOAT64),
    column("row_trainable_tokens", INT32),
    column("rollout_trainable_tokens", INT32),
    column("trees_not_walked", INT32),
    column("prompt_length", INT32),
    nullable("finish_reason", STRING),
    nullable("temperature", FLOAT64),
    nullable("logprobs_mode", STRING),
    nullable("token_weight", FLOAT64),
    column("call_ids", listOf(STRING)),
    column("spans", listOf(span)),
    column("weight_versions", listOf(weightVersion)),
    column("token_ids", listOf(UINT32)),
    column("loss_mask", listOf(UINT8)),
    column("logprobs", listOf(FLOAT32)),
  ],
  records: (rows) => rows.map(recordOf),
};

function recordOf(row: Row): ShapedRecord {
  return {
    row_id: row.rowId,
    rollout_id: row.rolloutId,
    group_id: row.groupId,
    generation_index: row.generationIndex,
    segment_index: row.segmentIndex,
    segment_count: row.segmentCount,
    reward: row.reward,
    advantage: row.advantage,
    row_trainable_tokens: row.rowTrainableTokens,
    rollout_trainable_tokens: row.rolloutTrainableTokens,
    trees_not_walked: row.treesNotWalked,
    prompt_length: row.promptLength,
    finish_reason: row.finishReason,
    temperature: row.temperature,
    logprobs_mode: row.logprobsMode,
    token_weight: row.tokenWeight,
    call_ids: row.callIds,
    spans: row.spans.map(({ callId, ...rest }) => ({ call_id: callId, ...rest })),
    weight_versions: row.weightVersions.map((span) => ({ ...span })),
    token_ids: row.tokenIds,
    loss_mask: row.lossMask,
    logprobs: row.logprobs,
  };
}
