// Claims in PostgreSQL, and what is deleted by age. A group is claimed under the locks of its attempts, so that two consumers
// who want the same one stand in a line; the index of held claims is the last word on who holds it.
import type { RolloutId } from "../lineage/call.ts";
import { rolloutOfRow } from "./attempt-row.ts";
import { CLAIM_COLUMNS, candidatesSql, claimOfRow, rowOfClaim, type ClaimRow } from "./claim-row.ts";
import { claimAt, isClaimable, isOverdue, leaseOver, noOutcome, unknownClaim } from "./claim-rules.ts";
import type { Claim, ClaimRequest, Rollout, SweepPolicy, SweepReport } from "./ledger.ts";
import { listAttempts, lockAttempts } from "./postgres-attempts.ts";
import { deleteCalls } from "./postgres-calls.ts";
import type { PostgresConnection, Transaction } from "./postgres-connection.ts";
import { isHeld } from "./postgres-held.ts";
import { sealRollout, sweepAttempt, sweepLocked } from "./postgres-verbs.ts";

/** Candidates that are looked at before a claim gives up; those before it may be incomplete or in another's hands. */
const CANDIDATES = 64;

const CANDIDATES_SQL = candidatesSql((name) => `coppice_${name}`, "$1::float8", "newest");

export async function claimGroup(tx: Transaction, request: ClaimRequest): Promise<Claim | null> {
  const before = await readClaim(tx, request.claimId, request.claimedAt);
  if (before !== null) return before;
  for (let offset = 0; ; offset += CANDIDATES) {
    const { rows } = await tx.query<{ group_id: string }>(`${CANDIDATES_SQL} LIMIT $2 OFFSET $3`, [
      request.claimedAt,
      CANDIDATES,
      offset,
    ]);
    for (const { group_id: groupId } of rows) {
      const claim = await claimThis(tx, groupId, request);
      if (claim !== null) return claim;
    }
    if (rows.length < CANDIDATES) return null;
  }
}

async function claimThis(tx: Transaction, groupId: string, request: ClaimRequest): Promise<Claim | null> {
  const { claimId, consumer, claimedAt, leaseMs } = request;
  if (!isClaimable(await membersOf(tx, groupId), claimedAt)) return null;
  const { rows } = await tx.query<{ mine: boolean }>(
    "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS mine",
    [groupId],
  );
  if (rows[0]?.mine !== true) return null;
  await lockAttempts(
    tx,
    (await membersOf(tx, groupId)).map(({ rolloutId }) => rolloutId),
  );
  const members = await membersOf(tx, groupId);
  if (!isClaimable(members, claimedAt)) return null;
  if (await isHeld(tx, groupId, claimedAt)) return null;
  for (const one of members) {
    if (isOverdue(one, claimedAt)) await sealRollout(tx, noOutcome(one.rolloutId), claimedAt);
  }
  await tx.query("UPDATE coppice_claim SET state = 'expired' WHERE group_id = $1 AND state = 'held'", [
    groupId,
  ]);
  const claim: Claim = {
    claimId,
    groupId,
    consumer,
    state: "held",
    claimedAt,
    expiresAt: claimedAt + leaseMs,
    acknowledgedAt: null,
    members: members
      .filter(({ state }) => state !== "swept")
      .map(({ rolloutId, attempt }) => ({ rolloutId, attempt })),
  };
  const row = rowOfClaim(claim);
  await tx.query(
    `INSERT INTO coppice_claim (${CLAIM_COLUMNS.join(", ")})
     VALUES (${CLAIM_COLUMNS.map((_, index) => `$${index + 1}`).join(", ")})`,
    CLAIM_COLUMNS.map((name) => row[name]),
  );
  return claim;
}

/** Newest attempts that were not published. */
async function membersOf(tx: Transaction, groupId: string): Promise<readonly Rollout[]> {
  const rows = await listAttempts(tx, { groupId });
  return rows.filter((row) => row.published_at === null).map((row) => rolloutOfRow(row, false));
}

export async function readClaim(tx: Transaction, claimId: string, now: number): Promise<Claim | null> {
  const { rows } = await tx.query<ClaimRow>("SELECT * FROM coppice_claim WHERE claim_id = $1", [claimId]);
  return rows[0] === undefined ? null : claimAt(claimOfRow(rows[0]), now);
}

export async function acknowledgeClaim(tx: Transaction, claimId: string, now: number): Promise<Claim> {
  const seen = await readClaim(tx, claimId, now);
  if (seen === null) throw unknownClaim(claimId);
  const locked = await lockAttempts(
    tx,
    seen.members.map(({ rolloutId }) => rolloutId),
  );
  // What it is by now: another claim may have come between, or this one may have been acknowledged.
  const claim = (await readClaim(tx, claimId, now)) ?? seen;
  if (claim.state === "acknowledged") return claim;
  if (claim.state === "expired") throw leaseOver(claim);
  for (const { rolloutId, attempt } of claim.members) {
    const row = locked.get(rolloutId)?.find((one) => one.attempt === attempt);
    if (row === undefined) continue;
    await sweepLocked(tx, row);
    await tx.query("UPDATE coppice_attempt SET published_at = $2 WHERE attempt_key = $1", [
      row.attempt_key,
      now,
    ]);
  }
  await tx.query(
    "UPDATE coppice_claim SET state = 'acknowledged', acknowledged_at = $2 WHERE claim_id = $1",
    [claimId, now],
  );
  return { ...claim, state: "acknowledged", acknowledgedAt: now };
}

/** Each rollout is a transaction of its own: nobody waits for the whole sweep. */
export async function sweepOld(connection: PostgresConnection, policy: SweepPolicy): Promise<SweepReport> {
  const { openBefore, publishedBefore, lateBefore, dryRun } = policy;
  return {
    openRollouts: openBefore === null ? 0 : await sweepOpen(connection, openBefore, dryRun),
    publishedAttempts:
      publishedBefore === null ? 0 : await forgetPublished(connection, publishedBefore, dryRun),
    lateCalls: lateBefore === null ? 0 : await deleteLate(connection, lateBefore, dryRun),
  };
}

async function sweepOpen(connection: PostgresConnection, before: number, dryRun: boolean): Promise<number> {
  const { rows } = await connection.read((tx) =>
    tx.query<{ rollout_id: RolloutId; attempt: number }>(
      "SELECT rollout_id, attempt FROM coppice_attempt WHERE newest AND state = 'open' AND opened_at < $1",
      [before],
    ),
  );
  if (dryRun) return rows.length;
  let swept = 0;
  for (const { rollout_id: rolloutId, attempt } of rows) {
    if (await connection.write((tx) => sweepAttempt(tx, { rolloutId, attempt }))) swept += 1;
  }
  return swept;
}

async function forgetPublished(
  connection: PostgresConnection,
  before: number,
  dryRun: boolean,
): Promise<number> {
  const { rows } = await connection.read((tx) =>
    tx.query<{ rollout_id: RolloutId; attempt: number }>(
      "SELECT rollout_id, attempt FROM coppice_attempt WHERE published_at < $1",
      [before],
    ),
  );
  if (dryRun) return rows.length;
  for (const { rollout_id: rolloutId, attempt } of rows) {
    await connection.write(async (tx) => {
      const attempts = (await lockAttempts(tx, [rolloutId])).get(rolloutId) ?? [];
      // An older attempt of the rollout must not come back to life as the newest.
      const isNewest = attempts.at(-1)?.attempt === attempt;
      for (const row of attempts.filter((one) => isNewest || one.attempt === attempt)) {
        await deleteCalls(tx, row.attempt_key);
        await tx.query("DELETE FROM coppice_attempt WHERE attempt_key = $1", [row.attempt_key]);
      }
    });
  }
  await connection.write((tx) =>
    tx.query(
      "DELETE FROM coppice_claim WHERE state <> 'held' AND coalesce(acknowledged_at, expires_at) < $1",
      [before],
    ),
  );
  return rows.length;
}

async function deleteLate(connection: PostgresConnection, before: number, dryRun: boolean): Promise<number> {
  const old = "FROM coppice_call WHERE late AND coalesce(settled_at, admitted_at) < $1";
  return connection.write(async (tx) => {
    const { rows } = await tx.query<{ count: number }>(`SELECT count(*) AS count ${old}`, [before]);
    if (!dryRun) await tx.query(`DELETE ${old}`, [before]);
    return rows[0]?.count ?? 0;
  });
}
