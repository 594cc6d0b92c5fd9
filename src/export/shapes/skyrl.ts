// Shape `skyrl`: SkyRL's `GeneratorOutput` (skyrl/train/generators/base.py, SkyRL 0.4.0), transposed: a record is one
// entry of each of its lists, so the columns read as dictionary of lists are that object. Position i belongs to token i;
// SkyRL pads the sequence on the left and aligns response tensors on the right itself.
// - prompt_token_ids, response_ids, loss_masks int64; rollout_logprobs float32, all of the response's length
// - rewards float32 a token: the rollout's reward on the last token of its last row, 0.0 elsewhere
// - is_last_step marks that row; rows of a rollout and of a group must stay adjacent (step_wise_trajectories=true)
// - trajectory_ids: instance_id is the group, repetition_id the generation index
import { neededReward, responseStart } from "./needs.ts";
import {
  BOOL,
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

export const skyrlShape: Shape = {
  name: "skyrl",
  alignment: "own_token",
  columns: [
    column("prompt_token_ids", listOf(INT64)),
    column("response_ids", listOf(INT64)),
    column("rewards", listOf(FLOAT32)),
    column("loss_masks", listOf(INT64)),
    nullable("stop_reasons", STRING),
    column("rollout_logprobs", listOf(FLOAT32)),
    column("trajectory_ids", structOf(column("instance_id", STRING), column("repetition_id", INT32))),
    column("is_last_step", BOOL),
    nullable("advantage", FLOAT64),
  ],
  records: (rows) =>
    rows.map((row, index) => {
      const start = responseStart(row, "skyrl");
      const isLast = index + 1 === rows.length;
      const rewards = new Float32Array(row.tokenIds.length - start);
      if (isLast) rewards[rewards.length - 1] = neededReward(row, "skyrl");
      return {
        prompt_token_ids: row.tokenIds.subarray(0, start),
        response_ids: row.tokenIds.subarray(start),
        rewards,
        loss_masks: row.lossMask.subarray(start),
        stop_reasons: row.finishReason,
        rollout_logprobs: row.logprobs.subarray(start),
        trajectory_ids: { instance_id: row.groupId, repetition_id: row.generationIndex },
        is_last_step: isLast,
        advantage: row.advantage,
      };
    }),
};
