// What every reader of a foreign log gives: trace lines, and the rollouts that cannot be imported, with the reason. A
// rollout is taken whole or not at all: one call short, its rows would train what the agent may have thrown away.
import type { CallLine } from "../trace-format.ts";

export interface LoggedOutcome {
  readonly type: "outcome";
  readonly rollout_id: string;
  readonly group_id?: string;
  readonly generation_index?: number;
  readonly reward?: number | null;
  readonly accepted?: readonly unknown[];
  readonly final?: unknown;
  readonly failed?: string;
  readonly infer?: boolean;
}

export interface RefusedRollout {
  readonly rolloutId: string;
  /** Line of the log, from 1. */
  readonly line: number;
  readonly reason: string;
}

export interface Logged {
  readonly calls: readonly CallLine[];
  readonly outcomes: readonly LoggedOutcome[];
  readonly refused: readonly RefusedRollout[];
}

/** One line of a log, parsed. */
export interface LogLine {
  readonly line: number;
  readonly value: unknown;
}

export interface ImportOptions {
  /** Of log lines that name no rollout. */
  readonly rolloutId?: string;
  /** `raw` or `processed`, where the log does not tell how its engine gives log-probs. */
  readonly logprobsMode?: string;
}

/** Of a call that stands in a log; the reason why it cannot be imported is thrown as this. */
export class NotImportable extends Error {
  override readonly name = "NotImportable";
}

/** Collects calls and refusals while a log is read. */
export function startLogged(): {
  readonly logged: { calls: CallLine[]; outcomes: LoggedOutcome[]; refused: RefusedRollout[] };
  /** Adds what `read` gives, or refuses the rollout with what it throws. */
  readonly take: (rolloutId: string, line: number, read: () => readonly CallLine[]) => void;
} {
  const logged = {
    calls: [] as CallLine[],
    outcomes: [] as LoggedOutcome[],
    refused: [] as RefusedRollout[],
  };
  return {
    logged,
    take: (rolloutId, line, read) => {
      try {
        logged.calls.push(...read());
      } catch (error) {
        if (!(error instanceof NotImportable)) throw error;
        logged.refused.push({ rolloutId, line, reason: error.message });
      }
    },
  };
}
