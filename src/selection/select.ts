// An outcome and a forest in; chains or a refusal out. Pure. It decides which calls train and in which chain; the
// records are checked before (rows/check-records.ts) and the rows built after.
import { isSideCall, isUnrecorded, standsInForest, type Call, type CallId } from "../lineage/call.ts";
import { chainOf, rootOf, stepUp, type Forest } from "../lineage/forest.ts";
import type { Outcome, Refusal, RefusalReason } from "./outcome.ts";
import { ReferenceIndex } from "./references.ts";

/** A leaf's walk up to its root, reversed: root first. */
export interface Chain {
  readonly calls: readonly Call[];
  /** The calls that train in this chain; the others are context here. */
  readonly trained: ReadonlySet<CallId>;
}

export type Selection =
  | { readonly kind: "selected"; readonly chains: readonly Chain[] }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** Selects what the agent kept. Never throws for what an agent said: faults are refusals, the first one found. */
export function select(forest: Forest<Call>, outcome: Outcome | null): Selection {
  if (outcome?.failed !== null && outcome !== null) return refuse("failed_by_agent", outcome.failed);
  if (outcome?.accepted?.length === 0) return refuse("nothing_accepted", "the accepted list is empty");
  if (forest.calls.length === 0) return refuse("no_calls", "no call of this rollout was recorded");
  if (outcome === null) return refuse("no_outcome", "the rollout has no outcome");
  const { accepted, final, infer } = outcome;
  if (accepted === null && final === null) {
    return infer
      ? selectInferred(forest)
      : refuse("no_outcome", "the outcome has neither accepted nor final, and does not ask to infer");
  }
  const named = resolveAll(forest, outcome);
  if ("reason" in named) return { kind: "refused", refusal: named };
  return named.accepted !== null
    ? selectAccepted(forest, named.accepted)
    : selectFinal(forest, named.final as Call);
}

function refuse(reason: RefusalReason, detail: string): Selection {
  return { kind: "refused", refusal: { reason, detail } };
}

interface Named {
  readonly accepted: readonly Call[] | null;
  readonly final: Call | null;
}

/** References in list order, then the final one, then whether the two witnesses agree. */
function resolveAll(forest: Forest<Call>, { accepted, final }: Outcome): Named | Refusal {
  const index = new ReferenceIndex(forest);
  const calls: Call[] = [];
  const taken = new Set<CallId>();
  for (const [at, reference] of (accepted ?? []).entries()) {
    const where = `accepted[${at}]`;
    const found = index.resolve(reference, where, () => (accepted ?? []).slice(0, at), taken);
    if (found.kind === "refused") return found.refusal;
    if (taken.has(found.call.callId)) {
      return {
        reason: "duplicate_reference",
        detail: `${where} names call ${found.call.callId} a second time`,
      };
    }
    taken.add(found.call.callId);
    calls.push(found.call);
  }
  if (final === null) return { accepted: calls, final: null };
  const found = index.resolve(
    final,
    "final",
    accepted === null ? null : () => accepted.slice(0, -1),
    new Set(),
  );
  if (found.kind === "refused") return found.refusal;
  const last = calls.at(-1);
  if (last === undefined) return { accepted: null, final: found.call };
  const agree = last === found.call || (found.byContent && last.address === found.call.address);
  if (agree) return { accepted: calls, final: last };
  const detail = `final is call ${found.call.callId}, but the accepted list ends with ${last.callId}`;
  return { reason: "witness_disagreement", detail };
}

/** The list is cut at each leaf: an accepted call that no other accepted call's walk goes through. */
function selectAccepted(forest: Forest<Call>, accepted: readonly Call[]): Selection {
  const fault = firstIncomplete(accepted);
  if (fault !== null) return { kind: "refused", refusal: fault };
  const ids = new Set(accepted.map((call) => call.callId));
  const walkedThrough = new Set<CallId>();
  for (const call of accepted) {
    // Above a call that was reached before, everything has been marked already: O(n) for all walks together.
    for (let at = stepUp(forest, call, ids); at !== null; at = stepUp(forest, at, ids)) {
      if (walkedThrough.has(at.callId)) break;
      walkedThrough.add(at.callId);
    }
  }
  const leaves = accepted.filter((call) => !walkedThrough.has(call.callId)).sort(settledFirst);
  return selected(
    leaves.map((leaf) => chainOf(forest, leaf, ids)),
    ids,
  );
}

function selectFinal(forest: Forest<Call>, leaf: Call): Selection {
  const unrecorded = forest.calls.find(isUnrecorded);
  if (unrecorded !== undefined) return refuse("capture_incomplete", unrecordedDetail(unrecorded));
  if (!standsInForest(leaf)) return { kind: "refused", refusal: firstIncomplete([leaf]) as Refusal };
  return selectWalk(forest, leaf, (call) => call.status === "aborted");
}

/** The leaf's walk: all on it train, but what is context above the leaf. */
function selectWalk(forest: Forest<Call>, leaf: Call, isContext: (call: Call) => boolean): Selection {
  const chain = chainOf(forest, leaf, new Set([leaf.callId]));
  const trained = chain.filter((call) => call === leaf || !isContext(call));
  const fault = firstIncomplete(trained);
  if (fault !== null) return { kind: "refused", refusal: fault };
  return selected([chain], new Set(trained.map((call) => call.callId)));
}

/** Strict: side calls and re-asked siblings set aside, one tree with one leaf must remain. */
function selectInferred(forest: Forest<Call>): Selection {
  const unrecorded = forest.calls.find(isUnrecorded);
  if (unrecorded !== undefined) return refuse("capture_incomplete", unrecordedDetail(unrecorded));
  const considered = forest.calls.filter((call) => standsInForest(call) && !isSideCall(call));
  // A side call that a considered call goes on from is context on its walk, never a sibling or a leaf.
  const goneOnFrom = new Set<Call>();
  for (const call of considered) {
    for (let at = parentOf(forest, call); at !== null && !goneOnFrom.has(at); at = parentOf(forest, at)) {
      goneOnFrom.add(at);
    }
  }
  const siblings = new Map<string, Call[]>();
  for (const call of considered) {
    const key = siblingKey(call);
    siblings.set(key, [...(siblings.get(key) ?? []), call]);
  }
  const leaves = considered.filter((call) => {
    if (goneOnFrom.has(call)) return false;
    const others = siblings.get(siblingKey(call)) as Call[];
    return !others.some((other) => other !== call && (call.settledOrder as number) < other.admittedOrder);
  });
  const leaf = leaves[0];
  if (leaf === undefined)
    return refuse("ambiguous", "no call is left from which a kept leaf could be inferred");
  if (leaves.length > 1) {
    const names = leaves.map((call) => call.callId).join(", ");
    const trees = new Set(leaves.map((call) => rootOf(forest, call))).size;
    return refuse("ambiguous", `${trees} trees with ${leaves.length} leaves are left (${names})`);
  }
  if (leaf.status === "aborted") {
    return refuse("ambiguous", `the one leaf left, ${leaf.callId}, was aborted, and nobody named it`);
  }
  return selectWalk(forest, leaf, (call) => call.status === "aborted" || isSideCall(call));
}

function parentOf(forest: Forest<Call>, call: Call): Call | null {
  return call.parentCallId === null ? null : (forest.byId.get(call.parentCallId) as Call);
}

/** Children of one parent; a root asked again stands beside the root whose messages it repeats. */
function siblingKey(call: Call): string {
  if (call.parentCallId !== null) return `under ${call.parentCallId}`;
  const again = call.rootReason?.kind === "asked_again" ? call.rootReason.rootCallId : call.callId;
  return `root ${again}`;
}

/** A call trains in the first chain it stands in; elsewhere it is context. */
function selected(chains: readonly (readonly Call[])[], trains: ReadonlySet<CallId>): Selection {
  const owned = new Set<CallId>();
  return {
    kind: "selected",
    chains: chains.map((calls) => {
      const trained = new Set<CallId>();
      for (const { callId } of calls) {
        if (!trains.has(callId) || owned.has(callId)) continue;
        owned.add(callId);
        trained.add(callId);
      }
      return { calls, trained };
    }),
  };
}

function settledFirst(one: Call, other: Call): number {
  return (one.settledOrder as number) - (other.settledOrder as number);
}

function firstIncomplete(mustTrain: readonly Call[]): Refusal | null {
  const call = mustTrain.find((candidate) => candidate.untrainable !== null || !standsInForest(candidate));
  if (call === undefined) return null;
  const why =
    call.untrainable ?? `is ${call.status}${call.statusDetail === null ? "" : ` (${call.statusDetail})`}`;
  return {
    reason: "capture_incomplete",
    detail: `call ${call.callId} must train and ${describe(call, why)}`,
  };
}

function describe(call: Call, why: string): string {
  return call.untrainable === null ? why : `is untrainable: ${why}`;
}

function unrecordedDetail(call: Call): string {
  const why = call.untrainable ?? call.statusDetail;
  return `the answer of call ${call.callId} (${call.status}) is not in the record${why === null ? "" : `: ${why}`}`;
}
