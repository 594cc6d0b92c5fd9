// The `attempt` table of an embedded ledger: one row an attempt of a rollout, with its counts and the last place given
// in its two counts (one of admissions and settles; one of its late bin, which changes nothing in the first). Rules about what may be said twice are in
// rollout-rules.ts; the calls are in sqlite-calls.ts.
import type Database from "better-sqlite3";
import type { CallStatus, RolloutId } from "../lineage/call.ts";
import type { Outcome } from "../selection/outcome.ts";
import { json, type AttemptRow } from "./attempt-row.ts";
import type { AttemptKey, RolloutFilter } from "./ledger.ts";
import type { RolloutFields } from "./rollout-rules.ts";

type Row = Readonly<Record<string, string | number | null>>;

export class AttemptTable {
  readonly #db: Database.Database;
  readonly #newest;
  readonly #exact;
  readonly #byKey;
  readonly #holder;
  readonly #insert;
  readonly #fill;
  readonly #count: Readonly<Record<CallStatus, Database.Statement<[number], number>>>;
  readonly #countLate;

  constructor(db: Database.Database) {
    this.#db = db;
    this.#newest = db.prepare<[RolloutId], AttemptRow>(
      "SELECT * FROM attempt WHERE rollout_id = ? ORDER BY attempt DESC LIMIT 1",
    );
    this.#exact = db.prepare<[RolloutId, number], AttemptRow>(
      "SELECT * FROM attempt WHERE rollout_id = ? AND attempt = ?",
    );
    this.#byKey = db.prepare<[number], AttemptRow>("SELECT * FROM attempt WHERE attempt_key = ?");
    this.#holder = db
      .prepare<[string, number], RolloutId>(
        "SELECT rollout_id FROM attempt WHERE group_id = ? AND generation_index = ? AND newest = 1",
      )
      .pluck();
    this.#insert = db.prepare<[Row]>(
      `INSERT INTO attempt (rollout_id, attempt, newest, state, opened_at, weight_version)
       VALUES (@rollout_id, @attempt, 1, 'open', @opened_at, @weight_version)`,
    );
    this.#fill = db.prepare<[Row]>(
      `UPDATE attempt SET group_id = @group_id, group_size = @group_size, generation_index = @generation_index,
       sampling = @sampling, deadline_at = @deadline_at, deadline_ms = @deadline_ms, tags = @tags
       WHERE attempt_key = @attempt_key`,
    );
    const count = (status: CallStatus): Database.Statement<[number], number> =>
      db
        .prepare<[number], number>(
          `UPDATE attempt SET last_order = last_order + 1, ${status} = ${status} + 1
           WHERE attempt_key = ? RETURNING last_order`,
        )
        .pluck();
    this.#count = {
      admitted: count("admitted"),
      committed: count("committed"),
      aborted: count("aborted"),
      failed: count("failed"),
      unknown: count("unknown"),
    };
    this.#countLate = db
      .prepare<[number, number], number>(
        `UPDATE attempt SET last_late_order = max(last_late_order, last_order) + 1, late = late + ?
         WHERE attempt_key = ? RETURNING last_late_order`,
      )
      .pluck();
  }

  newest(rolloutId: RolloutId): AttemptRow | undefined {
    return this.#newest.get(rolloutId);
  }

  find({ rolloutId, attempt }: AttemptKey): AttemptRow | undefined {
    return attempt === null ? this.#newest.get(rolloutId) : this.#exact.get(rolloutId, attempt);
  }

  byKey(attemptKey: number): AttemptRow {
    return this.#byKey.get(attemptKey) as AttemptRow;
  }

  /** The rollout whose newest attempt has that place in the group. */
  holderOf(groupId: string, generationIndex: number): RolloutId | undefined {
    return this.#holder.get(groupId, generationIndex);
  }

  /** Newest attempts, oldest opened first. A rollout without a group is a group of its own, named like it. */
  list(filter: RolloutFilter): readonly AttemptRow[] {
    const where = ["newest = 1"];
    const values: (string | number)[] = [];
    if (filter.groupId !== undefined) {
      where.push(
        `attempt_key IN (SELECT attempt_key FROM attempt WHERE newest = 1 AND group_id = ? UNION ALL
         SELECT attempt_key FROM attempt WHERE rollout_id = ? AND group_id IS NULL)`,
      );
      values.push(filter.groupId, filter.groupId);
    }
    if (filter.state !== undefined) {
      where.push("state = ?");
      values.push(filter.state);
    }
    if (filter.limit !== undefined) values.push(filter.limit);
    return this.#db
      .prepare<unknown[], AttemptRow>(
        `SELECT * FROM attempt WHERE ${where.join(" AND ")} ORDER BY opened_at, attempt_key
         ${filter.limit === undefined ? "" : "LIMIT ?"}`,
      )
      .all(...values);
  }

  insert(opened: {
    readonly rolloutId: RolloutId;
    readonly attempt: number;
    readonly openedAt: number;
    readonly weightVersion: string | null;
  }): AttemptRow {
    const { lastInsertRowid } = this.#insert.run({
      rollout_id: opened.rolloutId,
      attempt: opened.attempt,
      opened_at: opened.openedAt,
      weight_version: opened.weightVersion,
    });
    return this.byKey(Number(lastInsertRowid));
  }

  fill(attemptKey: number, fields: RolloutFields): AttemptRow {
    this.#fill.run({
      attempt_key: attemptKey,
      group_id: fields.groupId,
      group_size: fields.groupSize,
      generation_index: fields.generationIndex,
      sampling: json(fields.sampling),
      deadline_at: fields.deadlineAt,
      deadline_ms: fields.deadlineMs,
      tags: json(fields.tags),
    });
    return this.byKey(attemptKey);
  }

  /** The next place in the attempt's one count, which it also counts by what happened there. */
  nextOrder(attemptKey: number, happened: CallStatus): number {
    return this.#count[happened].get(attemptKey) as number;
  }

  /** The next place in the late bin's own count, which goes on from where the attempt's count stands. */
  nextLateOrder(attemptKey: number, newRecord: boolean): number {
    return this.#countLate.get(newRecord ? 1 : 0, attemptKey) as number;
  }

  setUsualSampling(attemptKey: number, text: string): void {
    this.#db.prepare("UPDATE attempt SET usual_sampling = ? WHERE attempt_key = ?").run(text, attemptKey);
  }

  setSealed(attemptKey: number, sealedAt: number): void {
    this.#db
      .prepare("UPDATE attempt SET state = 'sealed', sealed_at = ? WHERE attempt_key = ?")
      .run(sealedAt, attemptKey);
  }

  setOutcome(attemptKey: number, outcome: Outcome): AttemptRow {
    const { accepted, final, failed, infer, reward, groupId, generationIndex } = outcome;
    this.#db
      .prepare(
        "UPDATE attempt SET outcome = ?, reward = ?, group_id = ?, generation_index = ? WHERE attempt_key = ?",
      )
      .run(JSON.stringify({ accepted, final, failed, infer }), reward, groupId, generationIndex, attemptKey);
    return this.byKey(attemptKey);
  }

  setSwept(attemptKey: number): void {
    this.#db.prepare("UPDATE attempt SET state = 'swept' WHERE attempt_key = ?").run(attemptKey);
  }

  setPublished(attemptKey: number, publishedAt: number): void {
    this.#db
      .prepare("UPDATE attempt SET published_at = ? WHERE attempt_key = ?")
      .run(publishedAt, attemptKey);
  }

  setOlder(attemptKey: number): void {
    this.#db.prepare("UPDATE attempt SET newest = 0 WHERE attempt_key = ?").run(attemptKey);
  }
}
