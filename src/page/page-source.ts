// Where the page's records come from, as the few questions that it asks: a ledger, or a trace that was read. The
// worked example and a live ledger go through the same views because both answer these.
import { recordsOf, type Trace } from "../export/trace.ts";
import { buildRollout, rolloutsOfGroup } from "../gateway/group-rows.ts";
import type { Ledger, Rollout } from "../ledger/ledger.ts";
import type { Call, CallId, CallSummary, RolloutId } from "../lineage/call.ts";
import { lastOrder } from "./held-calls.ts";
import type { RolloutRows } from "../rows/row.ts";

export interface PageSource {
  weightVersion(): Promise<string | null>;
  rollouts(): Promise<readonly Rollout[]>;
  rollout(id: RolloutId): Promise<Rollout | null>;
  /** At most `most` whose last place in the count is after `since`, by that place; late ones left out. */
  summaries(rollout: Rollout, since: number, most: number): Promise<readonly CallSummary[]>;
  calls(rollout: Rollout): Promise<readonly Call[]>;
  call(rollout: Rollout, id: CallId): Promise<Call | null>;
  group(rollout: Rollout): Promise<readonly Rollout[]>;
  /** Rows without an advantage, or the refusal. */
  build(rollout: Rollout, calls: readonly Call[]): RolloutRows;
}

export function ledgerSource(ledger: Ledger): PageSource {
  return {
    weightVersion: () => ledger.weightVersion(),
    rollouts: () => ledger.rollouts({}),
    rollout: (id) => ledger.rollout({ rolloutId: id, attempt: null }),
    summaries: ({ rolloutId, attempt }, since, most) => ledger.summaries({ rolloutId, attempt }, since, most),
    calls: ({ rolloutId, attempt }) => ledger.calls({ rolloutId, attempt }),
    call: async ({ rolloutId, attempt }, id) => {
      const call = await ledger.call(id);
      return call?.rolloutId === rolloutId && call.attempt === attempt ? call : null;
    },
    group: async (rollout) =>
      rollout.groupId === null ? [rollout] : rolloutsOfGroup(ledger, rollout.groupId),
    build: buildRollout,
  };
}

/** A trace that was read, as rollouts that are sealed. */
export function traceSource(trace: Trace): PageSource {
  const held = new Map(
    trace.rollouts.map((one) => {
      const calls = recordsOf(one);
      return [one.rolloutId, { calls, rollout: rolloutOf(one, calls, trace) }] as const;
    }),
  );
  const rollouts = [...held.values()].map(({ rollout }) => rollout);
  return {
    weightVersion: async () => null,
    rollouts: async () => rollouts,
    rollout: async (id) => held.get(id)?.rollout ?? null,
    summaries: async ({ rolloutId }, since, most) =>
      (held.get(rolloutId)?.calls ?? [])
        .filter((call) => lastOrder(call) > since)
        .sort((one, other) => lastOrder(one) - lastOrder(other))
        .slice(0, most),
    calls: async ({ rolloutId }) => held.get(rolloutId)?.calls ?? [],
    call: async ({ rolloutId }, id) => held.get(rolloutId)?.calls.find((call) => call.callId === id) ?? null,
    group: async ({ groupId, rolloutId }) =>
      rollouts.filter((one) => (groupId === null ? one.rolloutId === rolloutId : one.groupId === groupId)),
    build: buildRollout,
  };
}

function rolloutOf(one: Trace["rollouts"][number], calls: readonly Call[], trace: Trace): Rollout {
  const { rolloutId, outcome } = one;
  const times = calls.flatMap((call) => [call.admittedAt, call.settledAt ?? call.admittedAt]);
  const groupId = outcome?.groupId ?? null;
  const count = (status: Call["status"]): number => calls.filter((call) => call.status === status).length;
  return {
    rolloutId,
    attempt: 1,
    state: outcome === null ? "open" : "sealed",
    groupId,
    groupSize:
      groupId === null ? null : trace.rollouts.filter((other) => other.outcome?.groupId === groupId).length,
    generationIndex: outcome?.generationIndex ?? null,
    sampling: null,
    deadlineAt: null,
    tags: {},
    openedAt: Math.min(...times),
    sealedAt: outcome === null ? null : Math.max(...times),
    outcome,
    weightVersion: null,
    counts: {
      admitted: calls.length,
      committed: count("committed"),
      failed: count("failed"),
      aborted: count("aborted"),
      unknown: count("unknown"),
      late: 0,
    },
  };
}
