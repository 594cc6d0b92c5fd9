// Shape `art`: what ART's tokenizer gives its packer, one record a `TokenizedResult` (art/preprocessing/tokenize.py,
// openpipe-art 0.5.23). Position i belongs to token i.
// - token_ids, assistant_mask int64[T]; logprobs float32[T] with NaN outside the mask, as ART has it (null in JSON Lines)
// - advantage; weight = 1 / the rollout's trained tokens. ART rescales both over a batch
// - choices: the trained runs as [start, end). prompt = token_ids[:start], answer = token_ids[start:end] gives the
//   Choice objects of ART's public Trajectory, from which ART builds this row again
import { neededAdvantage, neededReward, versionRange } from "./needs.ts";
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
import type { Row } from "../../rows/row.ts";

export const artShape: Shape = {
  name: "art",
  alignment: "own_token",
  columns: [
    column("row_id", STRING),
    column("group_id", STRING),
    column("rollout_id", STRING),
    column("reward", FLOAT64),
    column("advantage", FLOAT64),
    column("weight", FLOAT64),
    column("prompt_length", INT32),
    column("token_ids", listOf(INT64)),
    column("assistant_mask", listOf(INT64)),
    column("logprobs", listOf(FLOAT32)),
    column("choices", listOf(structOf(column("start", INT32), column("end", INT32)))),
    nullable("initial_policy_version", INT64),
    nullable("final_policy_version", INT64),
  ],
  records: (rows) =>
    rows.map((row) => {
      const versions = versionRange(row);
      return {
        row_id: row.rowId,
        group_id: row.groupId,
        rollout_id: row.rolloutId,
        reward: neededReward(row, "art"),
        advantage: neededAdvantage(row, "art"),
        weight: row.rolloutTrainableTokens === 0 ? 0 : 1 / row.rolloutTrainableTokens,
        prompt_length: row.promptLength,
        token_ids: row.tokenIds,
        assistant_mask: row.lossMask,
        logprobs: nanOutside(row),
        choices: trainedRuns(row),
        initial_policy_version: versions?.oldest ?? null,
        final_policy_version: versions?.newest ?? null,
      };
    }),
};

function nanOutside({ logprobs, lossMask }: Row): Float32Array {
  return logprobs.map((value, index) => (lossMask[index] === 1 ? value : Number.NaN));
}

function trainedRuns({ spans }: Row): { readonly start: number; readonly end: number }[] {
  return spans
    .filter(({ trained, generated }) => trained && generated > 0)
    .map(({ start, carried, generated }) => ({ start: start + carried, end: start + carried + generated }));
}
