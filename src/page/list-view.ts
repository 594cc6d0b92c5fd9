// One line a rollout for the list: what the ledger counts, and what only the calls tell (`measureCalls`). Pure.
import { isGroupComplete, placeOf } from "../gateway/group-rows.ts";
import type { Rollout } from "../ledger/ledger.ts";
import { isUnrecorded, standsInForest, type CallSummary } from "../lineage/call.ts";
import { advantagesOf } from "../rows/group.ts";
import type { RolloutRows } from "../rows/row.ts";
import type { Outcome } from "../selection/outcome.ts";
import type { AlarmKind, AlarmView, MeasuredView, OutcomeForm, RefusalView, RolloutLine } from "./view.ts";

/** What was made of one rollout's calls, before its group is known. */
export interface Measured {
  readonly trees: number;
  readonly leaves: number;
  readonly alarms: readonly AlarmView[];
  readonly rows: number | null;
  readonly trainedTokens: number | null;
  readonly refusal: RefusalView | null;
}

/** Trees, leaves and alarms from summaries; rows and refusal where they were built. */
export function measureCalls(
  rollout: Rollout,
  calls: readonly CallSummary[],
  built: RolloutRows | null,
): Measured {
  const standing = calls.filter(standsInForest);
  const parents = new Set(standing.map((call) => call.parentCallId));
  const trees = standing.filter((call) => call.parentCallId === null).length;
  return {
    trees,
    leaves: standing.filter((call) => !parents.has(call.callId)).length,
    alarms: alarmsOf(rollout, calls, trees),
    rows: built === null ? null : built.kind === "rows" ? built.rows.length : 0,
    trainedTokens:
      built === null ? null : built.kind === "rows" ? (built.rows[0]?.rolloutTrainableTokens ?? 0) : 0,
    refusal:
      built?.kind === "failure" ? { reason: built.failure.reason, detail: built.failure.detail } : null,
  };
}

/** Below this many calls, all of them roots is nothing to worry about. */
const MANY_ROOTS = 4;

function alarmsOf(rollout: Rollout, calls: readonly CallSummary[], trees: number): AlarmView[] {
  const counts: readonly (readonly [AlarmKind, number])[] = [
    [
      "all_roots",
      trees >= MANY_ROOTS && calls.every((call) => !standsInForest(call) || call.parentCallId === null)
        ? trees
        : 0,
    ],
    ["drift", calls.filter((call) => call.rootReason?.kind === "drift").length],
    ["incomplete", calls.filter((call) => call.status !== "admitted" && isUnrecorded(call)).length],
    ["untrainable", calls.filter((call) => call.untrainable !== null).length],
    ["late", rollout.counts.late],
  ];
  return counts.flatMap(([kind, count]) => (count === 0 ? [] : [{ kind, calls: count }]));
}

export function rolloutLine(rollout: Rollout, measured: MeasuredView | null): RolloutLine {
  const { groupId, generationIndex } = placeOf(rollout);
  return {
    rollout_id: rollout.rolloutId,
    attempt: rollout.attempt,
    state: rollout.state,
    group_id: groupId,
    generation_index: generationIndex,
    group_size: rollout.groupSize,
    opened_at: rollout.openedAt,
    sealed_at: rollout.sealedAt,
    reward: rollout.outcome?.reward ?? null,
    outcome: rollout.outcome === null ? null : outcomeForm(rollout.outcome),
    ...rollout.counts,
    tags: rollout.tags,
    measured,
  };
}

export function outcomeForm({ accepted, final, failed, infer }: Outcome): OutcomeForm {
  if (failed !== null) return "failed";
  if (accepted !== null) return final === null ? "accepted" : "accepted_and_final";
  if (final !== null) return "final";
  return infer ? "infer" : "none";
}

/** The group's advantages by rollout id; null for who is refused, not measured, or in a group that is not complete. */
export function groupAdvantages(
  members: readonly Rollout[],
  measured: (rollout: Rollout) => Measured | null,
): ReadonlyMap<string, number | null> {
  const advantages = new Map<string, number | null>(members.map(({ rolloutId }) => [rolloutId, null]));
  const known = members.every((one) => measured(one)?.rows !== null && measured(one) !== null);
  if (!known || !isGroupComplete(members)) return advantages;
  const survivors = members.filter((one) => measured(one)?.refusal === null);
  const values = advantagesOf(
    survivors.map(({ outcome }) => outcome?.reward ?? null),
    "mean",
  );
  for (const [index, { rolloutId }] of survivors.entries()) advantages.set(rolloutId, values[index] ?? null);
  return advantages;
}

export function measuredView(measured: Measured, advantage: number | null): MeasuredView {
  const { trees, leaves, alarms, rows, trainedTokens, refusal } = measured;
  return { trees, leaves, alarms, rows, trained_tokens: trainedTokens, refusal, advantage };
}
