// Logs that people already have, as a Coppice trace. Each reader gives trace lines; here rollouts that one of their calls
// refuses are left out whole, outcomes are joined, everything goes through the trace's own reader, and comes out as a
// ledger would have written it.
import { CoppiceError } from "../errors.ts";
import { readAgentLightningLog } from "./import/agent-lightning.ts";
import { readNemoGymLog } from "./import/nemo-gym.ts";
import { readOpenAiLog } from "./import/openai.ts";
import { isRecord } from "../lineage/message.ts";
import type { ImportOptions, Logged, LogLine, RefusedRollout } from "./import/logged.ts";
import { readTrace, recordsOf, traceLines, type Trace } from "./trace.ts";

export const LOG_KINDS = ["coppice", "nemo-gym", "agent-lightning", "openai"] as const;
export type LogKind = (typeof LOG_KINDS)[number];

const READERS: Readonly<
  Record<Exclude<LogKind, "coppice">, (lines: Iterable<LogLine>, options: ImportOptions) => Logged>
> = {
  "nemo-gym": readNemoGymLog,
  "agent-lightning": readAgentLightningLog,
  openai: readOpenAiLog,
};

export interface ImportSource extends ImportOptions {
  readonly kind: LogKind;
  /** Parsed lines of the log, undefined for an empty one. */
  readonly values: Iterable<unknown>;
  /** Outcome lines of a trace, which count before the log's own. */
  readonly outcomes?: Iterable<unknown>;
  /** Gives each rollout without an outcome one that says `infer`. */
  readonly infer?: boolean;
  /** Stands in front of errors. */
  readonly source?: string;
}

export interface Imported {
  readonly trace: Trace;
  readonly refused: readonly RefusedRollout[];
  /** Rollouts whose rows will be refused as `no_outcome`. */
  readonly withoutOutcome: readonly string[];
}

/** Throws `invalid_request` for what even a refusal cannot name, such as two calls of one id. */
export function importLog(given: ImportSource): Imported {
  const { kind, values, outcomes = [], infer = false, source = kind, ...options } = given;
  // A trace of ours is whole: its lines keep their numbers in errors.
  if (kind === "coppice") return withOutcomes([...values], outcomes, { infer, source, refused: [] });
  const { calls, outcomes: told, refused } = READERS[kind](numbered(values), options);
  const left = new Set(refused.map(({ rolloutId }) => rolloutId));
  const overridden = new Set([...outcomes].map(rolloutOf));
  const lines = [
    ...calls.filter((call) => !left.has(call.rollout_id)),
    ...told.filter((outcome) => !left.has(outcome.rollout_id) && !overridden.has(outcome.rollout_id)),
  ];
  const wanted = [...outcomes].filter((outcome) => !left.has(rolloutOf(outcome) ?? ""));
  return withOutcomes(lines, wanted, { infer, source: `${source}, as a trace`, refused });
}

/** The lines, then outcomes for rollouts that are there, then those that say `infer`. */
function withOutcomes(
  lines: readonly unknown[],
  outcomes: Iterable<unknown>,
  { infer, source, refused }: { infer: boolean; source: string; refused: readonly RefusedRollout[] },
): Imported {
  const names = new Set(lines.map(rolloutOf));
  const extra = [...outcomes].filter((outcome) => names.has(rolloutOf(outcome)));
  const all = [...lines, ...extra];
  const withOne = new Set(all.filter((line) => isRecord(line) && line["type"] === "outcome").map(rolloutOf));
  const without = [...names].filter((name) => name !== null && !withOne.has(name)) as string[];
  const inferred = infer ? without.map((name) => ({ type: "outcome", rollout_id: name, infer: true })) : [];
  const trace = readTrace([...all, ...inferred], source);
  return { trace, refused, withoutOutcome: infer ? [] : without };
}

function rolloutOf(line: unknown): string | null {
  return isRecord(line) && typeof line["rollout_id"] === "string" ? line["rollout_id"] : null;
}

function* numbered(values: Iterable<unknown>): Generator<LogLine> {
  let line = 0;
  for (const value of values) {
    line += 1;
    if (value !== undefined) yield { line, value };
  }
}

/** The trace's lines, as a ledger writes them. */
export function* importedLines({ trace }: Imported): Generator<string> {
  for (const rollout of trace.rollouts) {
    yield* traceLines({ rolloutId: rollout.rolloutId, calls: recordsOf(rollout), outcome: rollout.outcome });
  }
}

/** The first refusal as an error, for a caller that wants all or nothing. */
export function refusalError({ refused }: Imported, source: string): CoppiceError {
  const [first] = refused;
  const others = refused.length > 1 ? ` (and ${refused.length - 1} more calls)` : "";
  return new CoppiceError(
    "invalid_request",
    `${source}:${first?.line}: rollout ${first?.rolloutId} can't be imported: ${first?.reason}${others}; ` +
      "--skip-refused imports the others",
  );
}
