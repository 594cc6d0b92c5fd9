// Shape `trl`: TRL's asynchronous GRPO, one record a `RolloutSample` (trl/experimental/async_grpo/
// async_rollout_worker.py, TRL 1.16.0). Position i belongs to token i; TRL shifts inside and ignores position 0.
// - input_ids int64[T], completion_mask int64[T], old_log_probs float32[T], advantage float
// - model_version int: the oldest weights that sampled a trained token, so that TRL's max_staleness never keeps too much
// - group_id int: TRL's is an integer, so ours is hashed (SHA-256, 48 bits); the names stand beside it
// - metrics.reward: TRL logs its mean over rows, not rollouts
// `prompt` and `completion` (messages, only printed) are for the loader to leave empty.
import { integerOf, neededAdvantage, neededVersions } from "./needs.ts";
import { column, FLOAT32, FLOAT64, INT64, listOf, nullable, STRING, structOf, type Shape } from "./shape.ts";

export const trlShape: Shape = {
  name: "trl",
  alignment: "own_token",
  columns: [
    column("row_id", STRING),
    column("rollout_id", STRING),
    column("group_name", STRING),
    column("prompt_length", INT64),
    column("input_ids", listOf(INT64)),
    column("completion_mask", listOf(INT64)),
    column("old_log_probs", listOf(FLOAT32)),
    column("advantage", FLOAT64),
    column("model_version", INT64),
    column("group_id", INT64),
    column("metrics", structOf(nullable("reward", FLOAT64))),
  ],
  records: (rows) =>
    rows.map((row) => ({
      row_id: row.rowId,
      rollout_id: row.rolloutId,
      group_name: row.groupId,
      prompt_length: row.promptLength,
      input_ids: row.tokenIds,
      completion_mask: row.lossMask,
      old_log_probs: row.logprobs,
      advantage: neededAdvantage(row, "trl"),
      model_version: neededVersions(row, "trl").oldest,
      group_id: integerOf(row.groupId),
      metrics: { reward: row.reward },
    })),
};
