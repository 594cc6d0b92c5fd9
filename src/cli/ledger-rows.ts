// Rows of a ledger, group by group: memory for one group, whatever the ledger holds.
import { rowLines } from "../export/json-lines.ts";
import { ownerOf, placeOf, rowsOfGroup } from "../gateway/group-rows.ts";
import type { Ledger, Rollout } from "../ledger/ledger.ts";
import { rolloutId } from "../lineage/call.ts";
import { CoppiceError } from "../errors.ts";
import type { GroupOptions } from "../rows/group.ts";
import type { RolloutRows } from "../rows/row.ts";
import { openForReading } from "./open-ledger.ts";

export interface RolloutChoice {
  readonly group?: string;
  readonly rollout?: string;
}

export function choiceOf({ group, rollout }: RolloutChoice): RolloutChoice {
  return { ...(group === undefined ? {} : { group }), ...(rollout === undefined ? {} : { rollout }) };
}

/** The chosen rollouts of a ledger, oldest first. Throws `not_found` for a group or rollout that is not there. */
export async function chosenRollouts(ledger: Ledger, choice: RolloutChoice): Promise<readonly Rollout[]> {
  const filter = choice.group === undefined ? {} : { groupId: choice.group };
  const rollouts = await ledger.rollouts(filter);
  const chosen =
    choice.rollout === undefined
      ? rollouts
      : rollouts.filter((rollout) => rollout.rolloutId === rolloutId(choice.rollout, "--rollout"));
  if (chosen.length === 0 && (choice.group ?? choice.rollout) !== undefined) {
    const asked = choice.rollout === undefined ? `group ${choice.group}` : `rollout ${choice.rollout}`;
    throw new CoppiceError("not_found", `no ${asked} in ${ledger.location}`);
  }
  return chosen;
}

/** Row lines of sealed rollouts, failures after all rows. An advantage is null where its group is not complete. */
export async function* ledgerRows(
  path: string | undefined,
  options: RolloutChoice & GroupOptions,
  onProgress: (text: string) => void,
): AsyncGenerator<string> {
  const failures: RolloutRows[] = [];
  for await (const rollout of ledgerRollouts(path, options, onProgress)) {
    if (rollout.kind === "failure") failures.push(rollout);
    else yield* rowLines([rollout]);
  }
  yield* rowLines(failures);
}

/** Rows or the failure of each sealed rollout, group by group. */
export async function* ledgerRollouts(
  path: string | undefined,
  options: RolloutChoice & GroupOptions,
  onProgress: (text: string) => void,
): AsyncGenerator<RolloutRows> {
  const ledger = await openForReading(path);
  try {
    for await (const rollouts of groupsOf(ledger, options, onProgress)) {
      const built = await rowsOfGroup(ledger, rollouts, options);
      yield* built.filter((one) => options.rollout === undefined || ownerOf(one) === options.rollout);
    }
  } finally {
    await ledger.close();
  }
}

/** Whole groups, also where one rollout is asked for: its advantage needs the others. */
export async function* groupsOf(
  ledger: Ledger,
  choice: RolloutChoice,
  onProgress: (text: string) => void,
): AsyncGenerator<readonly Rollout[]> {
  const wanted = new Set((await chosenRollouts(ledger, choice)).map((rollout) => placeOf(rollout).groupId));
  const groups = new Map<string, Rollout[]>();
  for (const rollout of await ledger.rollouts({})) {
    const { groupId } = placeOf(rollout);
    if (wanted.has(groupId)) groups.set(groupId, [...(groups.get(groupId) ?? []), rollout]);
  }
  let done = 0;
  for (const rollouts of groups.values()) {
    onProgress(`${done} of ${groups.size} groups`);
    done += 1;
    yield rollouts.sort((one, other) => placeOf(one).generationIndex - placeOf(other).generationIndex);
  }
}
