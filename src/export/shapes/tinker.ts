// Shape `tinker`: one record a `Datum` (tinker/types/datum.py, Tinker SDK 0.38.0) as JSON tells it. The one shifted
// shape: everything stands at the position that predicts the token, so all arrays have T - 1 entries.
// - model_input: all tokens but the last, int32 on the wire
// - target_tokens int64 = token_ids[1:]; logprobs float32 = logprobs[1:]; advantages float32 = advantage * loss_mask[1:]
// There is no mask: advantage 0 means no loss. The SDK does not check lengths; here they are equal by construction.
import { int32Tokens, neededAdvantage, onTrained } from "./needs.ts";
import {
  column,
  FLOAT32,
  INT32,
  INT64,
  listOf,
  STRING,
  structOf,
  type ColumnType,
  type NumberArray,
  type Shape,
  type ShapedRecord,
} from "./shape.ts";

function tensorType(item: ColumnType): ColumnType {
  return structOf(column("data", listOf(item)), column("dtype", STRING), column("shape", listOf(INT32)));
}

function tensor(dtype: string, data: NumberArray): ShapedRecord {
  return { data, dtype, shape: Uint32Array.of(data.length) };
}

export const tinkerShape: Shape = {
  name: "tinker",
  alignment: "predicting_position",
  columns: [
    column(
      "model_input",
      structOf(column("chunks", listOf(structOf(column("type", STRING), column("tokens", listOf(INT32)))))),
    ),
    column(
      "loss_fn_inputs",
      structOf(
        column("target_tokens", tensorType(INT64)),
        column("logprobs", tensorType(FLOAT32)),
        column("advantages", tensorType(FLOAT32)),
      ),
    ),
  ],
  records: (rows) =>
    rows.map((row) => {
      const tokens = int32Tokens(row, "tinker");
      const advantage = neededAdvantage(row, "tinker");
      return {
        model_input: { chunks: [{ type: "encoded_text", tokens: tokens.subarray(0, -1) }] },
        loss_fn_inputs: {
          target_tokens: tensor("int64", tokens.subarray(1)),
          logprobs: tensor("float32", row.logprobs.subarray(1)),
          advantages: tensor("float32", onTrained(row, advantage, 1)),
        },
      };
    }),
};
