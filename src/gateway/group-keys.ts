// A key that is bound to a group may call, open and end the group's rollouts. Which those are the ledger knows, and it is
// asked each time: another gateway may have opened the rollout, and a new attempt may stand in another group.
import { CoppiceError } from "../errors.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { rolloutId } from "../lineage/call.ts";
import type { Caller } from "./keys.ts";

/** Throws `forbidden` where the caller's key is bound to a group and the rollout is not known to be one of it. */
export async function checkGroupOfRollout(
  caller: Caller | null,
  rollout: string,
  ledger: Pick<Ledger, "rollout">,
): Promise<void> {
  if (caller?.kind !== "group") return;
  const known = await ledger.rollout({ rolloutId: rolloutId(rollout), attempt: null });
  if (known?.groupId !== caller.groupId) throw notInGroup(caller.groupId, rollout);
}

/** The same for opening: a rollout that nobody opened yet may be opened into the key's own group. */
export async function checkGroupOfOpening(
  caller: Caller | null,
  opening: { readonly rollout: string; readonly groupId: string | null },
  ledger: Pick<Ledger, "rollout">,
): Promise<void> {
  if (caller?.kind !== "group") return;
  const { rollout, groupId } = opening;
  if (groupId !== null && groupId !== caller.groupId) throw notInGroup(caller.groupId, rollout);
  const known = await ledger.rollout({ rolloutId: rolloutId(rollout), attempt: null });
  if (known !== null && known.groupId !== caller.groupId) throw notInGroup(caller.groupId, rollout);
  if (known === null && groupId === null) {
    throw new CoppiceError(
      "forbidden",
      `this key is bound to group ${caller.groupId}: open the rollout with group_id ${caller.groupId}`,
      { param: "group_id" },
    );
  }
}

/** Says the same of a rollout of another group and of one that is not there, so that nobody can find ids out. */
function notInGroup(groupId: string, rollout: string): CoppiceError {
  return new CoppiceError(
    "forbidden",
    `this key is bound to group ${groupId}, and rollout ${rollout} was not opened in it`,
  );
}
