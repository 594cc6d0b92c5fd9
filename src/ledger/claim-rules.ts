// Which groups can be claimed, and what is wrong with a claim, for ledgers of every kind. Pure: times are told.
import { CoppiceError } from "../errors.ts";
import type { RolloutId } from "../lineage/call.ts";
import type { Outcome } from "../selection/outcome.ts";
import type { Claim, Rollout } from "./ledger.ts";

type Member = Pick<Rollout, "state" | "groupId" | "groupSize" | "deadlineAt">;

/**
 * True where nothing more is to be waited for: all rollouts that are there have an outcome, were deleted, or are past
 * their deadline; and as many are there as the group should have, or all their deadlines have passed. A named group whose
 * size nobody told is complete by its deadline alone. `members` are the newest attempts that were not published.
 */
export function isClaimable(members: readonly Member[], now: number): boolean {
  if (!members.some((member) => member.state !== "swept")) return false;
  if (members.some((member) => member.state === "open" && !isOverdue(member, now))) return false;
  const size = members.reduce<number | null>(
    (most, { groupId, groupSize }) =>
      groupSize === null && groupId !== null ? most : Math.max(most ?? 0, groupSize ?? 1),
    null,
  );
  if (size !== null && members.length >= size) return true;
  return members.every(({ deadlineAt }) => deadlineAt !== null && deadlineAt < now);
}

/** True where the deadline of an open rollout has passed. */
export function isOverdue({ state, deadlineAt }: Pick<Member, "state" | "deadlineAt">, now: number): boolean {
  return state === "open" && deadlineAt !== null && deadlineAt < now;
}

/** What a rollout is sealed with that has none of its own. */
export function noOutcome(rolloutId: RolloutId): Outcome {
  return {
    rolloutId,
    groupId: null,
    generationIndex: null,
    reward: null,
    accepted: null,
    final: null,
    failed: null,
    infer: false,
  };
}

/** As it is at that time: a lease that ran out is no lease, whoever noted it. */
export function claimAt(claim: Claim, now: number): Claim {
  return claim.state === "held" && claim.expiresAt <= now ? { ...claim, state: "expired" } : claim;
}

export function unknownClaim(claimId: string): CoppiceError {
  return new CoppiceError("not_found", `there is no claim ${claimId}`, { param: "claim_id" });
}

export function leaseOver({ claimId, groupId, expiresAt }: Claim): CoppiceError {
  return new CoppiceError(
    "conflict",
    `the lease of claim ${claimId} ran out at ${new Date(expiresAt).toISOString()}: group ${groupId} is given out again`,
    { param: "claim_id", detail: { claim_id: claimId, state: "expired" } },
  );
}

export function claimed(rolloutId: RolloutId, groupId: string): CoppiceError {
  return new CoppiceError(
    "conflict",
    `rollout ${rolloutId} cannot be corrected: its group ${groupId} is claimed`,
    { detail: { rollout_id: rolloutId, group_id: groupId, state: "claimed" } },
  );
}
