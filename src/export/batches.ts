// Cuts a run of records into batches of bounded size: what is in memory is one batch, however long the export.
import type { Shape, ShapedRecord } from "./shapes/shape.ts";
import type { Row } from "../rows/row.ts";

export interface Batch {
  readonly records: readonly ShapedRecord[];
  readonly tokens: number;
}

/** About 9 MB of token ids, mask and log-probs: wide enough that per-batch work does not show. */
export const BATCH_TOKENS: number = 1 << 20;

const BATCH_ROWS = 65_536;

/** Each element of `rollouts` is one rollout's rows. A batch ends at the first rollout that fills it. */
export async function* batchesOf(
  shape: Shape,
  rollouts: Iterable<readonly Row[]> | AsyncIterable<readonly Row[]>,
  batchTokens: number = BATCH_TOKENS,
): AsyncGenerator<Batch> {
  let records: ShapedRecord[] = [];
  let tokens = 0;
  for await (const rows of rollouts) {
    for (const record of shape.records(rows)) records.push(record);
    for (const row of rows) tokens += row.tokenIds.length;
    if (tokens < batchTokens && records.length < BATCH_ROWS) continue;
    yield { records, tokens };
    records = [];
    tokens = 0;
  }
  if (records.length > 0) yield { records, tokens };
}
