// One rollout from its records to its rows or its failure: check everything, select, assemble.
import type { Call, RolloutId } from "../lineage/call.ts";
import { buildForest } from "../lineage/forest.ts";
import type { Outcome, Refusal } from "../selection/outcome.ts";
import { select } from "../selection/select.ts";
import { assembleRows, type RowOwner } from "./assemble.ts";
import { checkRecords } from "./check-records.ts";
import type { RolloutRows } from "./row.ts";

export interface RolloutToBuild {
  readonly rolloutId: RolloutId;
  readonly calls: readonly Call[];
  /** Null where the rollout never had one. */
  readonly outcome: Outcome | null;
  readonly groupId: string;
  readonly generationIndex: number;
  /** A refusal that stands whatever the calls say, such as a passed deadline; a corrupt record comes before it. */
  readonly refusal?: Refusal;
}

/**
 * Rows without an advantage (`finishGroup` adds it), or a failure. Reads all calls, the rejected too; never throws for
 * what a rollout holds.
 */
export function rowsOfRollout(rollout: RolloutToBuild): RolloutRows {
  const { calls, outcome, rolloutId, groupId, generationIndex } = rollout;
  const owner: RowOwner = { groupId, generationIndex, reward: outcome?.reward ?? null };
  const fail = ({ reason, detail }: Refusal): RolloutRows => ({
    kind: "failure",
    failure: { rolloutId, groupId, generationIndex, reason, detail },
  });
  const fault = checkRecords(calls) ?? rollout.refusal ?? null;
  if (fault !== null) return fail(fault);
  const forest = buildForest(calls);
  const selection = select(forest, outcome);
  if (selection.kind === "refused") return fail(selection.refusal);
  const rows = assembleRows(forest, selection.chains, owner);
  if (rows.length === 0) {
    return fail({ reason: "no_trainable_tokens", detail: "the kept calls generated no token" });
  }
  return { kind: "rows", rows, reward: owner.reward };
}
