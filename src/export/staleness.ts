// Leaves out rows whose oldest trained token is too many weight versions behind, and says which. Advantages stay as
// they are: they were final before.
import { CoppiceError } from "../errors.ts";
import type { Row } from "../rows/row.ts";
import { object } from "./json-lines.ts";
import { versionRange } from "./shapes/needs.ts";

export interface Staleness {
  /** Weight versions a row may be behind, 0 or more. */
  readonly maxStaleness: number;
  /** The trainer's weight version now. */
  readonly currentVersion: number;
}

export interface LeftOut {
  readonly row: Row;
  readonly staleness: number;
  readonly maxStaleness: number;
}

/** Null where the row may stay. Throws `invalid_request` where a weight version of its trained tokens is no integer. */
export function tooStale(row: Row, { maxStaleness, currentVersion }: Staleness): LeftOut | null {
  const versions = versionRange(row);
  if (versions === null) {
    const told = JSON.stringify([...new Set(row.weightVersions.map(({ version }) => version))]);
    throw new CoppiceError(
      "invalid_request",
      `row ${row.rowId}: weight versions are ${told}; staleness needs integers such as "12"`,
      { param: "max_staleness" },
    );
  }
  const staleness = currentVersion - versions.oldest;
  return staleness > maxStaleness ? { row, staleness, maxStaleness } : null;
}

/** One JSON line, beside the failures. */
export function leftOutLine({ row, staleness, maxStaleness }: LeftOut): string {
  return object([
    ["type", '"left_out"'],
    ["row_id", JSON.stringify(row.rowId)],
    ["rollout_id", JSON.stringify(row.rolloutId)],
    ["group_id", JSON.stringify(row.groupId)],
    ["generation_index", String(row.generationIndex)],
    ["segment_index", String(row.segmentIndex)],
    ["row_trainable_tokens", String(row.rowTrainableTokens)],
    ["reason", '"stale"'],
    ["detail", JSON.stringify(`${staleness} weight versions behind, ${maxStaleness} allowed`)],
  ]);
}
