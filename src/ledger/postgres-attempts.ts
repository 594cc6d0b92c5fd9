// The `coppice_attempt` table: what sqlite-attempts.ts is to an embedded ledger. Whoever changes an attempt or its calls
// holds the lock of its row, so its counts are read, changed and written without anybody between.
import type { CallStatus, RolloutId } from "../lineage/call.ts";
import type { Outcome } from "../selection/outcome.ts";
import { json, type AttemptRow } from "./attempt-row.ts";
import type { AttemptKey, RolloutFilter } from "./ledger.ts";
import type { Transaction } from "./postgres-connection.ts";
import type { RolloutFields } from "./rollout-rules.ts";

/** The row as PostgreSQL tells it. Weight versions are JSON: any text may be one, and a column cannot hold any. */
interface Told extends AttemptRow {
  readonly newest: boolean;
}

function rowOf(told: Told): AttemptRow {
  const { weight_version: version } = told;
  return { ...told, weight_version: version === null ? null : (JSON.parse(version) as string) };
}

/**
 * All attempts of the rollouts, oldest first, locked until the transaction ends. Locks are taken in one order, so that
 * transactions that need several wait for one another in a line.
 */
export async function lockAttempts(
  tx: Transaction,
  rolloutIds: readonly string[],
): Promise<ReadonlyMap<string, readonly AttemptRow[]>> {
  for (;;) {
    const locked = await tryLockAttempts(tx, rolloutIds);
    if (locked !== null) return locked;
  }
}

/** Null where it must be asked again: a newer attempt was begun while this waited for a lock, and its elder says so. */
export async function tryLockAttempts(
  tx: Transaction,
  rolloutIds: readonly string[],
): Promise<ReadonlyMap<string, readonly AttemptRow[]> | null> {
  const { rows } = await tx.query<Told>(
    "SELECT * FROM coppice_attempt WHERE rollout_id = ANY($1::text[]) ORDER BY rollout_id, attempt FOR UPDATE",
    [rolloutIds],
  );
  const byRollout = new Map<string, Told[]>();
  for (const row of rows) byRollout.set(row.rollout_id, [...(byRollout.get(row.rollout_id) ?? []), row]);
  if ([...byRollout.values()].some((attempts) => attempts.at(-1)?.newest !== true)) return null;
  return new Map([...byRollout].map(([id, attempts]) => [id, attempts.map(rowOf)]));
}

export async function lockNewest(tx: Transaction, rolloutId: RolloutId): Promise<AttemptRow | undefined> {
  return (await lockAttempts(tx, [rolloutId])).get(rolloutId)?.at(-1);
}

export async function findAttempt(
  tx: Transaction,
  { rolloutId, attempt }: AttemptKey,
): Promise<AttemptRow | undefined> {
  const { rows } = await tx.query<Told>(
    `SELECT * FROM coppice_attempt WHERE rollout_id = $1 AND (attempt = $2 OR $2 IS NULL)
     ORDER BY attempt DESC LIMIT 1`,
    [rolloutId, attempt],
  );
  return rows[0] === undefined ? undefined : rowOf(rows[0]);
}

export async function attemptsByKey(
  tx: Transaction,
  keys: readonly number[],
): Promise<ReadonlyMap<number, AttemptRow>> {
  const { rows } = await tx.query<Told>(
    "SELECT * FROM coppice_attempt WHERE attempt_key = ANY($1::bigint[])",
    [keys],
  );
  return new Map(rows.map((row) => [row.attempt_key, rowOf(row)]));
}

/** The rollout whose newest attempt has that place in the group. */
export async function holderOf(
  tx: Transaction,
  groupId: string,
  generationIndex: number,
): Promise<RolloutId | undefined> {
  const { rows } = await tx.query<{ rollout_id: RolloutId }>(
    "SELECT rollout_id FROM coppice_attempt WHERE group_id = $1 AND generation_index = $2 AND newest",
    [groupId, generationIndex],
  );
  return rows[0]?.rollout_id;
}

/** Newest attempts, oldest opened first. A rollout without a group is a group of its own, named like it. */
export async function listAttempts(tx: Transaction, filter: RolloutFilter): Promise<readonly AttemptRow[]> {
  const where = ["newest"];
  const values: unknown[] = [];
  const given = (value: unknown): string => `$${values.push(value)}`;
  if (filter.groupId !== undefined) {
    const group = given(filter.groupId);
    where.push(
      `attempt_key IN (SELECT attempt_key FROM coppice_attempt WHERE newest AND group_id = ${group} UNION ALL
       SELECT attempt_key FROM coppice_attempt WHERE newest AND rollout_id = ${group} AND group_id IS NULL)`,
    );
  }
  if (filter.state !== undefined) where.push(`state = ${given(filter.state)}`);
  const limit = filter.limit === undefined ? "" : `LIMIT ${given(filter.limit)}`;
  const { rows } = await tx.query<Told>(
    `SELECT * FROM coppice_attempt WHERE ${where.join(" AND ")} ORDER BY opened_at, attempt_key ${limit}`,
    values,
  );
  return rows.map(rowOf);
}

export async function insertAttempt(
  tx: Transaction,
  opened: { readonly rolloutId: RolloutId; readonly attempt: number; readonly openedAt: number },
): Promise<AttemptRow> {
  const { rows } = await tx.query<Told>(
    `INSERT INTO coppice_attempt (rollout_id, attempt, newest, state, opened_at, weight_version)
     VALUES ($1, $2, true, 'open', $3, (SELECT value FROM coppice_setting WHERE name = 'weight_version'))
     RETURNING *`,
    [opened.rolloutId, opened.attempt, opened.openedAt],
  );
  return rowOf(rows[0] as Told);
}

export async function fillAttempt(
  tx: Transaction,
  attemptKey: number,
  fields: RolloutFields,
): Promise<AttemptRow> {
  const { rows } = await tx.query<Told>(
    `UPDATE coppice_attempt SET group_id = $2, group_size = $3, generation_index = $4, sampling = $5,
     deadline_at = $6, deadline_ms = $7, tags = $8 WHERE attempt_key = $1 RETURNING *`,
    [
      attemptKey,
      fields.groupId,
      fields.groupSize,
      fields.generationIndex,
      json(fields.sampling),
      fields.deadlineAt,
      fields.deadlineMs,
      json(fields.tags),
    ],
  );
  return rowOf(rows[0] as Told);
}

export async function setOutcome(tx: Transaction, attemptKey: number, outcome: Outcome): Promise<AttemptRow> {
  const { accepted, final, failed, infer, reward, groupId, generationIndex } = outcome;
  const { rows } = await tx.query<Told>(
    `UPDATE coppice_attempt SET outcome = $2, reward = $3, group_id = $4, generation_index = $5
     WHERE attempt_key = $1 RETURNING *`,
    [attemptKey, JSON.stringify({ accepted, final, failed, infer }), reward, groupId, generationIndex],
  );
  return rowOf(rows[0] as Told);
}

export async function setOlder(tx: Transaction, attemptKey: number): Promise<void> {
  await tx.query("UPDATE coppice_attempt SET newest = false WHERE attempt_key = $1", [attemptKey]);
}

export async function setSealed(tx: Transaction, attemptKey: number, sealedAt: number): Promise<void> {
  await tx.query("UPDATE coppice_attempt SET state = 'sealed', sealed_at = $2 WHERE attempt_key = $1", [
    attemptKey,
    sealedAt,
  ]);
}

const COUNTS = ["admitted", "committed", "aborted", "failed", "unknown", "late"] as const;

/** The counts of a locked attempt as they change within a transaction. */
export class AttemptCount {
  readonly attempt: AttemptRow;
  usualSampling: string | null;
  #lastOrder: number;
  #lastLateOrder: number;
  readonly #counts: Record<(typeof COUNTS)[number], number>;

  constructor(attempt: AttemptRow) {
    this.attempt = attempt;
    this.usualSampling = attempt.usual_sampling;
    this.#lastOrder = attempt.last_order;
    this.#lastLateOrder = attempt.last_late_order;
    const { admitted, committed, aborted, failed, unknown, late } = attempt;
    this.#counts = { admitted, committed, aborted, failed, unknown, late };
  }

  /** The next place in the attempt's one count, which it also counts by what happened there. */
  nextOrder(happened: CallStatus): number {
    this.#counts[happened] += 1;
    return ++this.#lastOrder;
  }

  /** The next place in the late bin's own count, which goes on from where the attempt's count stands. */
  nextLateOrder(newRecord: boolean): number {
    if (newRecord) this.#counts.late += 1;
    this.#lastLateOrder = Math.max(this.#lastLateOrder, this.#lastOrder) + 1;
    return this.#lastLateOrder;
  }

  get columns(): readonly (number | string | null)[] {
    return [
      this.attempt.attempt_key,
      this.#lastOrder,
      this.#lastLateOrder,
      ...COUNTS.map((name) => this.#counts[name]),
      this.usualSampling,
    ];
  }
}

/** SQL that writes counts, their columns as arrays in parameters from `first` on. */
export function updateCounts(first: number): string {
  const columns = ["attempt_key", "last_order", "last_late_order", ...COUNTS];
  const arrays = columns.map((_, index) => `$${first + index}::bigint[]`);
  return `UPDATE coppice_attempt SET ${columns
    .slice(1)
    .map((name) => `${name} = told.${name}`)
    .join(", ")}, usual_sampling = told.usual_sampling
    FROM unnest(${arrays.join(", ")}, $${first + columns.length}::text[])
      AS told (${columns.join(", ")}, usual_sampling)
    WHERE coppice_attempt.attempt_key = told.attempt_key`;
}

/** Parameters of `updateCounts`. */
export function countArrays(counts: readonly AttemptCount[]): readonly unknown[] {
  const rows = counts.map((count) => count.columns);
  return Array.from({ length: COUNTS.length + 4 }, (_, column) => rows.map((row) => row[column]));
}
