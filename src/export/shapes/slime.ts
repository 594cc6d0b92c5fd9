// Shape `slime`: one record a `Sample` (slime/utils/types.py at 624b824a). `tokens` is the whole row, mask and log-probs
// cover the response alone, which is all after the root's carried tokens. Position i belongs to token i.
// - rollout_id int: rows of one rollout share it, so that slime's default reducer divides by the rollout's mask sum
// - rollout_id and group_index are integers there, so ours are hashed (SHA-256, 48 bits); the names stand in metadata
// - status: `truncated` where the last call ended by length, `aborted`, else `completed`
import { integerOf, responseStart } from "./needs.ts";
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

export const slimeShape: Shape = {
  name: "slime",
  alignment: "own_token",
  columns: [
    column("tokens", listOf(INT64)),
    column("response_length", INT32),
    column("loss_mask", listOf(INT64)),
    column("rollout_log_probs", listOf(FLOAT32)),
    nullable("reward", FLOAT64),
    column("rollout_id", INT64),
    column("group_index", INT64),
    column("weight_versions", listOf(STRING)),
    column("status", STRING),
    column(
      "metadata",
      structOf(
        column("row_id", STRING),
        column("rollout_id", STRING),
        column("group_id", STRING),
        nullable("advantage", FLOAT64),
      ),
    ),
  ],
  records: (rows) =>
    rows.map((row) => {
      const start = responseStart(row, "slime");
      return {
        tokens: row.tokenIds,
        response_length: row.tokenIds.length - start,
        loss_mask: row.lossMask.subarray(start),
        rollout_log_probs: row.logprobs.subarray(start),
        reward: row.reward,
        rollout_id: integerOf(row.rolloutId),
        group_index: integerOf(row.groupId),
        weight_versions: [...new Set(row.weightVersions.map(({ version }) => version))],
        status: statusOf(row.finishReason),
        metadata: {
          row_id: row.rowId,
          rollout_id: row.rolloutId,
          group_id: row.groupId,
          advantage: row.advantage,
        },
      };
    }),
};

function statusOf(finishReason: string | null): string {
  if (finishReason === "length") return "truncated";
  return finishReason === "abort" || finishReason === "aborted" ? "aborted" : "completed";
}
