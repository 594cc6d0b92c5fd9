// One attempt of a rollout as the ledgers' tables keep it, and what it tells: SQLite and PostgreSQL have the same columns.
import type { RolloutId } from "../lineage/call.ts";
import type { Outcome } from "../selection/outcome.ts";
import type { Rollout, RolloutState } from "./ledger.ts";
import type { RolloutFields } from "./rollout-rules.ts";

export interface AttemptRow {
  readonly attempt_key: number;
  readonly rollout_id: RolloutId;
  readonly attempt: number;
  readonly state: RolloutState;
  readonly group_id: string | null;
  readonly group_size: number | null;
  readonly generation_index: number | null;
  readonly sampling: string | null;
  readonly deadline_at: number | null;
  readonly deadline_ms: number | null;
  readonly tags: string | null;
  readonly opened_at: number;
  readonly sealed_at: number | null;
  /** What an outcome says beyond reward and group, in JSON. */
  readonly outcome: string | null;
  readonly reward: number | null;
  readonly weight_version: string | null;
  readonly usual_sampling: string | null;
  readonly last_order: number;
  readonly last_late_order: number;
  readonly admitted: number;
  readonly committed: number;
  readonly aborted: number;
  readonly failed: number;
  readonly unknown: number;
  readonly late: number;
  /** When a claim of it was acknowledged; null: never. */
  readonly published_at: number | null;
}

/** JSON for a column; null stays null. */
export function json(value: unknown): string | null {
  return value === null ? null : JSON.stringify(value);
}

export function fieldsOfRow(row: AttemptRow): RolloutFields {
  return {
    groupId: row.group_id,
    groupSize: row.group_size,
    generationIndex: row.generation_index,
    sampling: row.sampling === null ? null : (JSON.parse(row.sampling) as RolloutFields["sampling"]),
    deadlineAt: row.deadline_at,
    deadlineMs: row.deadline_ms,
    tags: row.tags === null ? null : (JSON.parse(row.tags) as RolloutFields["tags"]),
  };
}

/** Null before the rollout is sealed. Group and index are the rollout's, whoever told them. */
export function outcomeOfRow(row: AttemptRow): Outcome | null {
  if (row.outcome === null) return null;
  const said = JSON.parse(row.outcome) as Pick<Outcome, "accepted" | "final" | "failed" | "infer">;
  return {
    rolloutId: row.rollout_id,
    groupId: row.group_id,
    generationIndex: row.generation_index,
    reward: row.reward,
    ...said,
  };
}

/** `abandoned`: the process that serves the ledger is dead, so calls in flight are unknown. */
export function rolloutOfRow(row: AttemptRow, abandoned: boolean): Rollout {
  const { tags, sampling, groupId, groupSize, generationIndex, deadlineAt } = fieldsOfRow(row);
  const { admitted, committed, failed, aborted, unknown, late } = row;
  const inFlight = admitted - committed - failed - aborted - unknown;
  return {
    rolloutId: row.rollout_id,
    attempt: row.attempt,
    state: row.state,
    groupId,
    groupSize,
    generationIndex,
    sampling,
    deadlineAt,
    tags: tags ?? {},
    openedAt: row.opened_at,
    sealedAt: row.sealed_at,
    outcome: outcomeOfRow(row),
    weightVersion: row.weight_version,
    counts: { admitted, committed, failed, aborted, unknown: unknown + (abandoned ? inFlight : 0), late },
  };
}
