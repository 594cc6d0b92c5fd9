// Rows of what a ledger holds: one rollout, or all rollouts of a group with their advantages. Read by the management
// API, by claims and by the CLI; it reads and writes nothing itself but through the ledger.
import { CoppiceError } from "../errors.ts";
import type { AttemptKey, Ledger, Rollout } from "../ledger/ledger.ts";
import type { Call, RolloutId } from "../lineage/call.ts";
import { finishGroup, openGroup, type GroupOptions } from "../rows/group.ts";
import { rowsOfRollout } from "../rows/rollout-rows.ts";
import type { RolloutRows } from "../rows/row.ts";

export interface GroupPlace {
  readonly groupId: string;
  readonly generationIndex: number;
}

/** Where a rollout's rows belong: without a group it is one of its own, named like it. */
export function placeOf(rollout: Rollout): GroupPlace {
  return {
    groupId: rollout.groupId ?? rollout.rolloutId,
    generationIndex: rollout.generationIndex ?? 0,
  };
}

/**
 * The places of a whole group. A rollout that nobody gave an index takes the lowest free one, in the order given, so
 * that no two have the same rows' ids; these may change until the group is complete.
 */
export function placesOf(rollouts: readonly Rollout[]): ReadonlyMap<RolloutId, GroupPlace> {
  const taken = new Set(rollouts.map((rollout) => rollout.generationIndex));
  let free = 0;
  const places = new Map<RolloutId, GroupPlace>();
  for (const rollout of rollouts) {
    let { generationIndex } = rollout;
    if (generationIndex === null) {
      while (taken.has(free)) free += 1;
      taken.add(free);
      generationIndex = free;
    }
    places.set(rollout.rolloutId, { groupId: rollout.groupId ?? rollout.rolloutId, generationIndex });
  }
  return places;
}

/** One rollout's rows without an advantage, or its failure. `calls` are all of its attempt's. */
export function buildRollout(
  rollout: Rollout,
  calls: readonly Call[],
  place: GroupPlace = placeOf(rollout),
): RolloutRows {
  return rowsOfRollout({
    rolloutId: rollout.rolloutId,
    calls,
    outcome: rollout.outcome,
    ...place,
    ...refusalOf(rollout),
  });
}

/** An outcome that came after the deadline, or never, refuses the rollout whatever its calls say. */
function refusalOf({ deadlineAt, sealedAt }: Rollout): {
  readonly refusal?: { readonly reason: "deadline"; readonly detail: string };
} {
  if (deadlineAt === null || sealedAt === null || sealedAt <= deadlineAt) return {};
  const detail = `the rollout had no outcome at its deadline, ${new Date(deadlineAt).toISOString()}`;
  return { refusal: { reason: "deadline", detail } };
}

/** True where the deadline of an open rollout has passed. */
export function isOverdue({ state, deadlineAt }: Rollout, now: number): boolean {
  return state === "open" && deadlineAt !== null && deadlineAt < now;
}

/** The group's rollouts, oldest opened first; a rollout without a group is the only one of its own. */
export async function rolloutsOfGroup(ledger: Ledger, groupId: string): Promise<readonly Rollout[]> {
  const members = await ledger.rollouts({ groupId });
  if (members.length > 0) return members;
  const alone = await ledger.rollout({ rolloutId: groupId as RolloutId, attempt: null });
  return alone === null || alone.groupId !== null ? [] : [alone];
}

/**
 * True once every rollout that the group should have is sealed: as many as its size says, or, where nobody told a
 * size, all that are known.
 */
export function isGroupComplete(rollouts: readonly Rollout[]): boolean {
  const size = rollouts.find((rollout) => rollout.groupSize !== null)?.groupSize ?? rollouts.length;
  return rollouts.length >= size && rollouts.every((rollout) => rollout.state === "sealed");
}

/**
 * Rows and failures of sealed rollouts by generation index; advantages are null until the group is complete. `rollouts`
 * are all of the group's, oldest opened first. Swept ones are left out.
 */
export async function rowsOfGroup(
  ledger: Ledger,
  rollouts: readonly Rollout[],
  options: GroupOptions,
): Promise<readonly RolloutRows[]> {
  const places = placesOf(rollouts);
  const placed = rollouts
    .map((rollout) => ({ rollout, place: places.get(rollout.rolloutId) as GroupPlace }))
    .sort((one, other) => one.place.generationIndex - other.place.generationIndex);
  const built: RolloutRows[] = [];
  for (const { rollout, place } of placed) {
    if (rollout.state === "sealed")
      built.push(buildRollout(rollout, await ledger.calls(keyOf(rollout)), place));
  }
  return isGroupComplete(rollouts) ? finishGroup(built, options) : openGroup(built, options);
}

/** One rollout's rows with the advantage that its group gives it. */
export async function rowsOfOneRollout(
  ledger: Ledger,
  rollout: Rollout,
  options: GroupOptions,
): Promise<readonly RolloutRows[]> {
  const members = rollout.groupId === null ? [rollout] : await rolloutsOfGroup(ledger, rollout.groupId);
  const built = await rowsOfGroup(ledger, members, options);
  return built.filter((rows) => ownerOf(rows) === rollout.rolloutId);
}

/** The rollout that rows or a failure belong to. */
export function ownerOf(rows: RolloutRows): string | undefined {
  return rows.kind === "failure" ? rows.failure.rolloutId : rows.rows[0]?.rolloutId;
}

function keyOf({ rolloutId, attempt }: Rollout): AttemptKey {
  return { rolloutId, attempt };
}

/**
 * Refuses a rollout that its group has no place for: advantages that were handed out must not change any more.
 * Throws `conflict`.
 */
export async function checkRoomInGroup(
  ledger: Ledger,
  rolloutId: RolloutId,
  told: {
    readonly groupId: string | null;
    readonly groupSize: number | null;
    readonly generationIndex: number | null;
  },
): Promise<void> {
  const { groupId, generationIndex } = told;
  if (groupId === null) return;
  const members = await ledger.rollouts({ groupId });
  const size = told.groupSize ?? members.find((one) => one.groupSize !== null)?.groupSize ?? null;
  if (size === null) return;
  if (generationIndex !== null && generationIndex >= size) {
    throw new CoppiceError(
      "conflict",
      `generation_index is ${generationIndex}; group ${groupId} has ${size} places, 0 to ${size - 1}`,
      { param: "generation_index" },
    );
  }
  const others = members.filter((one) => one.rolloutId !== rolloutId).length;
  if (others >= size) {
    throw new CoppiceError("conflict", `group ${groupId} is full: it has its ${size} rollouts`, {
      param: "group_id",
    });
  }
}
