// Shape `nemo-rl`: one record a sample of NeMo RL's training dictionary (nemo_rl/experience/payload.py and
// algorithms/loss/loss_functions.py at 7ea279ab), ragged: pad each list on the right to [N, S], ids with the pad token,
// the rest with 0. Position i belongs to token i; the loss drops column 0.
// - input_ids int64[T], input_lengths int64, generation_logprobs, token_mask, advantages float32[T]
// - sample_mask float32: 0.0 for a padding row; total_reward float32
// - prompt_ids_for_adv int64: NeMo takes equal prompts for one group. Its own group advantage counts a rollout once a
//   row; the advantages here are the rollout's
import { neededAdvantage, neededReward, onTrained, versionRange } from "./needs.ts";
import { column, FLOAT32, INT64, listOf, nullable, STRING, type Shape } from "./shape.ts";

export const nemoRlShape: Shape = {
  name: "nemo-rl",
  alignment: "own_token",
  columns: [
    column("sample_ids", STRING),
    column("input_ids", listOf(INT64)),
    column("input_lengths", INT64),
    column("generation_logprobs", listOf(FLOAT32)),
    column("token_mask", listOf(FLOAT32)),
    column("sample_mask", FLOAT32),
    column("prompt_ids_for_adv", listOf(INT64)),
    column("total_reward", FLOAT32),
    column("advantages", listOf(FLOAT32)),
    nullable("weight_version", INT64),
  ],
  records: (rows) =>
    rows.map((row) => ({
      sample_ids: row.rowId,
      input_ids: row.tokenIds,
      input_lengths: row.tokenIds.length,
      generation_logprobs: row.logprobs,
      token_mask: row.lossMask,
      sample_mask: row.rowTrainableTokens === 0 ? 0 : 1,
      prompt_ids_for_adv: row.tokenIds.subarray(0, row.promptLength),
      total_reward: neededReward(row, "nemo-rl"),
      advantages: onTrained(row, neededAdvantage(row, "nemo-rl"), 0),
      weight_version: versionRange(row)?.oldest ?? null,
    })),
};
