// Claims of an embedded ledger, and what is deleted by age. Within the caller's transaction, like sqlite-verbs.ts.
import type Database from "better-sqlite3";
import type { RolloutId } from "../lineage/call.ts";
import type { Outcome } from "../selection/outcome.ts";
import { rolloutOfRow, type AttemptRow } from "./attempt-row.ts";
import { CLAIM_COLUMNS, candidatesSql, claimOfRow, rowOfClaim, type ClaimRow } from "./claim-row.ts";
import {
  claimAt,
  claimed,
  isClaimable,
  isOverdue,
  leaseOver,
  noOutcome,
  unknownClaim,
} from "./claim-rules.ts";
import type { AttemptKey, Claim, ClaimRequest, Rollout, SweepPolicy, SweepReport } from "./ledger.ts";
import type { AttemptTable } from "./sqlite-attempts.ts";
import { PayloadTable } from "./sqlite-payload.ts";

interface Verbs {
  seal(outcome: Outcome, sealedAt: number): Rollout;
  sweep(key: AttemptKey): boolean;
}

const LATE_AND_OLD = "FROM call WHERE late = 1 AND coalesce(settled_at, admitted_at) < ?";

export class SqliteClaims {
  readonly #db: Database.Database;
  readonly #attempts: AttemptTable;
  readonly #verbs: Verbs;
  readonly #byId;
  readonly #held;
  readonly #candidates;

  constructor(db: Database.Database, attempts: AttemptTable, verbs: Verbs) {
    this.#db = db;
    this.#attempts = attempts;
    this.#verbs = verbs;
    this.#byId = db.prepare<[string], ClaimRow>("SELECT * FROM claim WHERE claim_id = ?");
    this.#held = db.prepare<[string, number], ClaimRow>(
      "SELECT * FROM claim WHERE group_id = ? AND state = 'held' AND expires_at > ?",
    );
    this.#candidates = db
      .prepare<[{ readonly now: number }], string>(candidatesSql((name) => name, "@now", "newest = 1"))
      .pluck();
  }

  claim(request: ClaimRequest): Claim | null {
    const { claimId, consumer, claimedAt, leaseMs } = request;
    const before = this.claimOf(claimId, claimedAt);
    if (before !== null) return before;
    for (const groupId of this.#candidates.all({ now: claimedAt })) {
      const rows = this.#attempts.list({ groupId }).filter((row) => row.published_at === null);
      const rollouts = rows.map((row) => rolloutOfRow(row, false));
      if (!isClaimable(rollouts, claimedAt)) continue;
      for (const one of rollouts) {
        if (isOverdue(one, claimedAt)) this.#verbs.seal(noOutcome(one.rolloutId), claimedAt);
      }
      this.#db
        .prepare("UPDATE claim SET state = 'expired' WHERE group_id = ? AND state = 'held'")
        .run(groupId);
      const claim: Claim = {
        claimId,
        groupId,
        consumer,
        state: "held",
        claimedAt,
        expiresAt: claimedAt + leaseMs,
        acknowledgedAt: null,
        members: rollouts
          .filter(({ state }) => state !== "swept")
          .map(({ rolloutId, attempt }) => ({ rolloutId, attempt })),
      };
      this.#db
        .prepare(`INSERT INTO claim VALUES (${CLAIM_COLUMNS.map((name) => `@${name}`).join(", ")})`)
        .run(rowOfClaim(claim));
      return claim;
    }
    return null;
  }

  claimOf(claimId: string, now: number): Claim | null {
    const row = this.#byId.get(claimId);
    return row === undefined ? null : claimAt(claimOfRow(row), now);
  }

  acknowledge(claimId: string, now: number): Claim {
    const claim = this.claimOf(claimId, now);
    if (claim === null) throw unknownClaim(claimId);
    if (claim.state === "acknowledged") return claim;
    if (claim.state === "expired") throw leaseOver(claim);
    for (const member of claim.members) {
      this.#verbs.sweep(member);
      const row = this.#attempts.find(member);
      if (row !== undefined) this.#attempts.setPublished(row.attempt_key, now);
    }
    this.#db
      .prepare("UPDATE claim SET state = 'acknowledged', acknowledged_at = ? WHERE claim_id = ?")
      .run(now, claimId);
    return { ...claim, state: "acknowledged", acknowledgedAt: now };
  }

  /** Throws `conflict` where a consumer holds the attempt's group. */
  checkUnclaimed({ rollout_id: rolloutId, group_id: group }: AttemptRow, now: number): void {
    const groupId = group ?? rolloutId;
    if (this.#held.get(groupId, now) !== undefined) throw claimed(rolloutId, groupId);
  }

  sweepOld(policy: SweepPolicy): SweepReport {
    const { openBefore, publishedBefore, lateBefore, dryRun } = policy;
    const report = {
      openRollouts: openBefore === null ? 0 : this.#sweepOpen(openBefore, dryRun),
      publishedAttempts: publishedBefore === null ? 0 : this.#forgetPublished(publishedBefore, dryRun),
      lateCalls: lateBefore === null ? 0 : this.#deleteLate(lateBefore, dryRun),
    };
    return report;
  }

  #sweepOpen(before: number, dryRun: boolean): number {
    const old = this.#db
      .prepare<[number], RolloutId>(
        "SELECT rollout_id FROM attempt WHERE newest = 1 AND state = 'open' AND opened_at < ?",
      )
      .pluck()
      .all(before);
    if (!dryRun) for (const rolloutId of old) this.#verbs.sweep({ rolloutId, attempt: null });
    return old.length;
  }

  #forgetPublished(before: number, dryRun: boolean): number {
    const old = this.#db
      .prepare<[number], AttemptRow & { readonly newest: number }>(
        "SELECT * FROM attempt WHERE published_at < ?",
      )
      .all(before);
    if (dryRun) return old.length;
    for (const row of old) {
      this.#verbs.sweep({ rolloutId: row.rollout_id, attempt: row.attempt });
      this.#db.prepare("DELETE FROM attempt WHERE attempt_key = ?").run(row.attempt_key);
      // An older attempt of the rollout must not come back to life as the newest.
      if (row.newest === 1) {
        for (const { attempt } of this.#olderOf(row.rollout_id)) {
          this.#verbs.sweep({ rolloutId: row.rollout_id, attempt });
        }
        this.#db.prepare("DELETE FROM attempt WHERE rollout_id = ?").run(row.rollout_id);
      }
    }
    this.#db
      .prepare("DELETE FROM claim WHERE state <> 'held' AND coalesce(acknowledged_at, expires_at) < ?")
      .run(before);
    return old.length;
  }

  #olderOf(rolloutId: RolloutId): readonly Pick<AttemptRow, "attempt">[] {
    return this.#db
      .prepare<[string], Pick<AttemptRow, "attempt">>("SELECT attempt FROM attempt WHERE rollout_id = ?")
      .all(rolloutId);
  }

  #deleteLate(before: number, dryRun: boolean): number {
    const keys = this.#db.prepare<[number], number>(`SELECT call_key ${LATE_AND_OLD}`).pluck().all(before);
    if (dryRun) return keys.length;
    const payloads = new PayloadTable(this.#db);
    for (const key of keys) payloads.delete(key);
    this.#db.prepare(`DELETE ${LATE_AND_OLD}`).run(before);
    return keys.length;
  }
}
