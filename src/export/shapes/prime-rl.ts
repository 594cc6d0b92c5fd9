// Shape `prime-rl`: one record a `TrainingSample` (src/prime_rl/transports/rollouts/types.py at 559b4477). There the
// order of fields is the wire, so build it by name: `TrainingSample(**record)`. Position i belongs to token i.
// - token_ids, mask (bool), logprobs, temperatures, advantages: all of length T
// - temperatures on context tokens too: prime-rl divides the logits at position i by temperatures[i] to predict i + 1
// - advantages a token: the rollout's on trained tokens, 0.0 elsewhere
// - env_name: prime-rl only groups metrics by it; the rollout's group stands there
import { neededAdvantage, onTrained, temperatures } from "./needs.ts";
import { BOOL, column, FLOAT32, FLOAT64, INT64, listOf, STRING, type Shape } from "./shape.ts";

export const primeRlShape: Shape = {
  name: "prime-rl",
  alignment: "own_token",
  columns: [
    column("token_ids", listOf(INT64)),
    column("mask", listOf(BOOL)),
    column("logprobs", listOf(FLOAT32)),
    column("temperatures", listOf(FLOAT64)),
    column("env_name", STRING),
    column("advantages", listOf(FLOAT32)),
  ],
  records: (rows) =>
    rows.map((row) => ({
      token_ids: row.tokenIds,
      mask: row.lossMask,
      logprobs: row.logprobs,
      temperatures: temperatures(row, "prime-rl"),
      env_name: row.groupId,
      advantages: onTrained(row, neededAdvantage(row, "prime-rl"), 0),
    })),
};
