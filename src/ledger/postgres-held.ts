// Whether a consumer holds a group, asked by claims and by whoever would correct one of its rollouts.
import type { AttemptRow } from "./attempt-row.ts";
import { claimed } from "./claim-rules.ts";
import type { Transaction } from "./postgres-connection.ts";

export async function isHeld(tx: Transaction, groupId: string, now: number): Promise<boolean> {
  const { rows } = await tx.query(
    "SELECT 1 FROM coppice_claim WHERE group_id = $1 AND state = 'held' AND expires_at > $2",
    [groupId, now],
  );
  return rows.length > 0;
}

/** Throws `conflict` where a consumer holds the attempt's group. */
export async function checkUnclaimed(
  tx: Transaction,
  { rollout_id: rolloutId, group_id: group }: AttemptRow,
  now: number,
): Promise<void> {
  const groupId = group ?? rolloutId;
  if (await isHeld(tx, groupId, now)) throw claimed(rolloutId, groupId);
}
