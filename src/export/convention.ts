// One sampling convention an export: log-probs taken at another temperature, or before and after filters, cannot stand
// in one importance ratio. The first row says the convention; a row that says another, or nothing where the first said
// something, is refused unless mixing is forced.
import { CoppiceError } from "../errors.ts";
import type { Row } from "../rows/row.ts";

export interface SamplingConvention {
  /** Null where no call said it. */
  readonly temperature: number | null;
  readonly logprobsMode: string | null;
}

/** The convention of a row's trained calls. Context does not count: its log-probs are not there. Throws where they differ. */
export function conventionOf(row: Row): SamplingConvention {
  const told = [...new Set(row.spans.filter(({ trained }) => trained).map(({ temperature }) => temperature))];
  if (told.length > 1) {
    throw mixed(`row ${row.rowId} has calls of temperature ${told.map(show).join(" and ")}`, "temperature");
  }
  return { temperature: told[0] ?? row.temperature, logprobsMode: row.logprobsMode };
}

/** A check that is fed every row in turn, and throws `invalid_request` at the first that differs from the first row. */
export function conventionCheck(): (row: Row) => void {
  let first: { readonly convention: SamplingConvention; readonly rowId: string } | null = null;
  return (row) => {
    const convention = conventionOf(row);
    first ??= { convention, rowId: row.rowId };
    for (const field of ["temperature", "logprobsMode"] as const) {
      const [one, other] = [first.convention[field], convention[field]];
      if (one === other) continue;
      const name = field === "temperature" ? "temperature" : "logprobs_mode";
      throw mixed(`row ${first.rowId} has ${name} ${show(one)}, row ${row.rowId} has ${show(other)}`, name);
    }
  };
}

function show(value: string | number | null): string {
  return value === null ? "unknown" : JSON.stringify(value);
}

function mixed(problem: string, param: string): CoppiceError {
  return new CoppiceError(
    "invalid_request",
    `${problem}: one export must have one sampling convention, or be forced to mix (--force-mixed)`,
    { param },
  );
}
