// What stands in the metadata of an Arrow or Parquet file: which schema, which convention, who made it of what.
import { readFileSync } from "node:fs";
import type { AdvantageKind, WeightKind } from "../rows/group.ts";
import type { Failure } from "../rows/row.ts";
import type { SamplingConvention } from "./convention.ts";
import { failureLine, formatDouble } from "./json-lines.ts";
import type { Shape } from "./shapes/shape.ts";

/** Raised when a column of a shape changes its name, type or meaning; not for a column more. */
export const SCHEMA_VERSION = "1";

export interface Provenance {
  readonly advantage: AdvantageKind;
  readonly weights: WeightKind | null;
  /** Of the first row; null where there is no row, or where mixing was forced. */
  readonly convention: SamplingConvention | null;
  readonly mixingForced: boolean;
  /** Refused rollouts, where all are known before the first row is written. */
  readonly failures?: readonly Failure[];
  /** Where the rows are delivered under a claim. */
  readonly claimId?: string;
}

/** Keys start with `coppice.`; values are text, floats as in JSON Lines, `null` for what nobody told. */
export function metadataOf(shape: Shape, provenance: Provenance): ReadonlyMap<string, string> {
  const { advantage, weights, convention, mixingForced, failures, claimId } = provenance;
  const entries: [string, string][] = [
    ["coppice.schema_version", SCHEMA_VERSION],
    ["coppice.version", packageVersion()],
    ["coppice.shape", shape.name],
    ["coppice.alignment", shape.alignment],
    ["coppice.advantage", advantage],
    ["coppice.weights", weights ?? "null"],
    ["coppice.temperature", formatDouble(convention?.temperature ?? null)],
    ["coppice.logprobs_mode", convention?.logprobsMode ?? "null"],
    ["coppice.mixing_forced", String(mixingForced)],
  ];
  if (failures !== undefined) entries.push(["coppice.failures", `[${failures.map(failureLine).join(",")}]`]);
  if (claimId !== undefined) entries.push(["coppice.claim_id", claimId]);
  return new Map(entries);
}

function packageVersion(): string {
  const file = new URL("../../package.json", import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}
