// Shape `verl`: one record an `AgentLoopOutput` (verl/experimental/agent_loop/agent_loop.py, verl 0.9.1), cut after the
// root's carried tokens. Position i belongs to token i; verl shifts in `no_padding_2_padding`.
// - prompt_ids, response_ids, response_mask int64; response_logprobs float32; reward_score float on every row of a rollout
// - num_turns: two a call, the one that asks and the one that answers
// - extra_fields.min_global_steps and max_global_steps: weight versions, null where they are not integers
// - uid is the group; key is `{uid}_{session}_{index}`, by which verl's multi-trajectory GRPO advantage counts a rollout
//   once. The plain GRPO advantage over rows counts a rollout once a row: use the key, or the advantage given here.
import { responseStart, versionRange } from "./needs.ts";
import {
  column,
  FLOAT32,
  FLOAT64,
  INT32,
  INT64,
  listOf,
  nullable,
  STRING,
  structOf,
  type Shape,
} from "./shape.ts";

export const verlShape: Shape = {
  name: "verl",
  alignment: "own_token",
  columns: [
    column("uid", STRING),
    column("key", STRING),
    column("prompt_ids", listOf(INT64)),
    column("response_ids", listOf(INT64)),
    column("response_mask", listOf(INT64)),
    column("response_logprobs", listOf(FLOAT32)),
    nullable("reward_score", FLOAT64),
    nullable("advantage", FLOAT64),
    column("num_turns", INT32),
    column(
      "extra_fields",
      structOf(
        nullable("min_global_steps", INT64),
        nullable("max_global_steps", INT64),
        column("row_id", STRING),
        column("rollout_id", STRING),
      ),
    ),
  ],
  records: (rows) =>
    rows.map((row) => {
      const start = responseStart(row, "verl");
      const versions = versionRange(row);
      return {
        uid: row.groupId,
        key: `${row.groupId}_${row.generationIndex}_${row.segmentIndex}`,
        prompt_ids: row.tokenIds.subarray(0, start),
        response_ids: row.tokenIds.subarray(start),
        response_mask: row.lossMask.subarray(start),
        response_logprobs: row.logprobs.subarray(start),
        reward_score: row.reward,
        advantage: row.advantage,
        num_turns: 2 * row.callIds.length,
        extra_fields: {
          min_global_steps: versions?.oldest ?? null,
          max_global_steps: versions?.newest ?? null,
          row_id: row.rowId,
          rollout_id: row.rolloutId,
        },
      };
    }),
};
