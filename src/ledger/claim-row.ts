// A claim as the ledgers' tables keep it: SQLite and PostgreSQL have the same columns.
import type { Claim, ClaimMember, ClaimState } from "./ledger.ts";

export interface ClaimRow {
  readonly claim_id: string;
  readonly group_id: string;
  readonly consumer: string;
  readonly state: ClaimState;
  readonly claimed_at: number;
  readonly expires_at: number;
  readonly acknowledged_at: number | null;
  /** JSON: `[rollout, attempt]` each. Consumers' names are JSON too: any text may be one. */
  readonly members: string;
}

export const CLAIM_COLUMNS: readonly (keyof ClaimRow)[] = [
  "claim_id",
  "group_id",
  "consumer",
  "state",
  "claimed_at",
  "expires_at",
  "acknowledged_at",
  "members",
];

export function claimOfRow(row: ClaimRow): Claim {
  const members = JSON.parse(row.members) as readonly (readonly [ClaimMember["rolloutId"], number])[];
  return {
    claimId: row.claim_id,
    groupId: row.group_id,
    consumer: JSON.parse(row.consumer) as string,
    state: row.state,
    claimedAt: row.claimed_at,
    expiresAt: row.expires_at,
    acknowledgedAt: row.acknowledged_at,
    members: members.map(([rolloutId, attempt]) => ({ rolloutId, attempt })),
  };
}

export function rowOfClaim(claim: Claim): ClaimRow {
  return {
    claim_id: claim.claimId,
    group_id: claim.groupId,
    consumer: JSON.stringify(claim.consumer),
    state: claim.state,
    claimed_at: claim.claimedAt,
    expires_at: claim.expiresAt,
    acknowledged_at: claim.acknowledgedAt,
    members: JSON.stringify(claim.members.map(({ rolloutId, attempt }) => [rolloutId, attempt])),
  };
}

/**
 * SQL for groups that may be claimable, longest opened first,: nothing of them is running, and
 * nobody holds them. Whether they are complete is claim-rules.ts.
 */
export function candidatesSql(table: (name: string) => string, now: string, newest: string): string {
  return `SELECT group_id FROM (
      SELECT coalesce(group_id, rollout_id) AS group_id, min(opened_at) AS opened, min(attempt_key) AS first,
        sum(CASE WHEN state = 'open' AND (deadline_at IS NULL OR deadline_at >= ${now}) THEN 1 ELSE 0 END) AS running,
        sum(CASE WHEN state = 'swept' THEN 0 ELSE 1 END) AS kept
      FROM ${table("attempt")} WHERE ${newest} AND published_at IS NULL GROUP BY coalesce(group_id, rollout_id)
    ) AS member_groups
    WHERE running = 0 AND kept > 0 AND NOT EXISTS (SELECT 1 FROM ${table("claim")} c
      WHERE c.group_id = member_groups.group_id AND c.state = 'held' AND c.expires_at > ${now})
    ORDER BY opened, first`;
}
