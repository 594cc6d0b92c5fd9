// What the agent kept of one rollout, by the rules of the outcome forms read one after another: chains and the calls
// that train in them, or the first reason for which there are none. Plain and slow; no code of the product.
import {
  compareCommits,
  growForest,
  isBefore,
  isNamed,
  standsInForest,
  walkFrom,
  type NaiveCall,
  type NaiveForest,
} from "./forest.ts";

export interface NaiveOutcome {
  readonly rolloutId: string;
  readonly groupId: string;
  readonly generationIndex: number;
  readonly reward: number | null;
  readonly accepted: readonly string[] | null;
  readonly final: string | null;
  readonly failed: string | null;
  readonly infer: boolean;
}

export interface NaiveChoice {
  readonly forest: NaiveForest;
  /** Root first, in the order of their leaves' commits. */
  readonly chains: readonly (readonly NaiveCall[])[];
  /** Calls whose generated tokens train, each in the first chain that it stands in. */
  readonly trained: ReadonlySet<NaiveCall>;
}

export type NaiveResult = { readonly reason: string } | NaiveChoice;

export function readOutcome(line: Readonly<Record<string, unknown>>): NaiveOutcome {
  const rolloutId = line["rollout_id"] as string;
  const groupId = (line["group_id"] ?? null) as string | null;
  return {
    rolloutId,
    // An outcome without a group is "a group of its own", named like its rollout, with index 0.
    groupId: groupId ?? rolloutId,
    generationIndex: groupId === null ? 0 : (line["generation_index"] as number),
    reward: (line["reward"] ?? null) as number | null,
    accepted: (line["accepted"] ?? null) as readonly string[] | null,
    final: (line["final"] ?? null) as string | null,
    failed: (line["failed"] ?? null) as string | null,
    infer: line["infer"] === true,
  };
}

export function choose(calls: readonly NaiveCall[], outcome: NaiveOutcome): NaiveResult {
  // "A record that is corrupt comes before all of that." One id on two records is the fault that a trace can have.
  const ids = calls.map((call) => call.callId);
  if (new Set(ids).size < ids.length) return { reason: "corrupt_record" };
  // "`failed: "reason"` says that the agent failed"
  if (outcome.failed !== null) return { reason: "failed_by_agent" };
  // "An empty list is `nothing_accepted`, whatever else is said."
  if (outcome.accepted !== null && outcome.accepted.length === 0) return { reason: "nothing_accepted" };
  if (calls.length === 0) return { reason: "no_calls" };
  if (outcome.accepted !== null) return chooseAccepted(calls, outcome.accepted, outcome.final);
  if (outcome.final !== null) {
    const named = resolve(calls, outcome.final);
    return typeof named === "string" ? { reason: named } : chooseFinal(calls, named);
  }
  // "neither: refused as `no_outcome`, unless the caller asks to infer."
  return outcome.infer ? chooseInferred(calls) : { reason: "no_outcome" };
}

/** "every reference must match exactly one call": the call, or the reason why there is none. */
function resolve(calls: readonly NaiveCall[], id: string): NaiveCall | string {
  const matching = calls.filter((call) => isNamed(call, id));
  if (matching.length > 1) return "ambiguous_reference";
  return matching[0] ?? "unknown_reference";
}

function chooseAccepted(
  calls: readonly NaiveCall[],
  references: readonly string[],
  final: string | null,
): NaiveResult {
  // "References are resolved in list order and the first fault is the reason"
  const accepted: NaiveCall[] = [];
  for (const reference of references) {
    const named = resolve(calls, reference);
    if (typeof named === "string") return { reason: named };
    if (accepted.includes(named)) return { reason: "duplicate_reference" };
    accepted.push(named);
  }
  // "then `final`; then whether the two agree": "the final one must be the last of the list"
  if (final !== null) {
    const named = resolve(calls, final);
    if (typeof named === "string") return { reason: named };
    if (named !== accepted.at(-1)) return { reason: "witness_disagreement" };
  }
  // "A call that must train and is untrainable refuses the rollout (`capture_incomplete`); elsewhere on a walk it is
  // context." "an accepted list proves itself": answers that are not in the record do not matter.
  if (accepted.some((call) => !canTrain(call))) return { reason: "capture_incomplete" };
  const forest = growForest(calls);
  const kept = new Set(accepted);
  const walks = accepted.map((call) => ({ leaf: call, chain: walkFrom(call, forest, kept) }));
  // "Leaves are the accepted calls that no other accepted call's walk goes through."
  const leaves = walks.filter(
    ({ leaf }) => !walks.some((other) => other.leaf !== leaf && other.chain.includes(leaf)),
  );
  // "Rows stand in the order in which their leaves were committed."
  leaves.sort((one, other) => compareCommits(one.leaf, other.leaf));
  // "where the agent rejected it, its tokens are context": only what is in the list trains.
  return { forest, chains: leaves.map(({ chain }) => chain), trained: kept };
}

function chooseFinal(calls: readonly NaiveCall[], final: NaiveCall): NaiveResult {
  // "An answer that could not be recorded refuses `final` and inferring"
  if (calls.some(isUnrecorded) || !canTrain(final)) return { reason: "capture_incomplete" };
  const forest = growForest(calls);
  // "that call is the one leaf": no other call was said to be accepted, so no twin is preferred.
  const chain = walkFrom(final, forest, new Set());
  // "all on its walk train, but aborted calls other than itself, which are context"
  const trained = new Set(chain.filter((call) => call === final || call.status !== "aborted"));
  if ([...trained].some((call) => !canTrain(call))) return { reason: "capture_incomplete" };
  return { forest, chains: [chain], trained };
}

function chooseInferred(calls: readonly NaiveCall[]): NaiveResult {
  if (calls.some(isUnrecorded)) return { reason: "capture_incomplete" };
  const forest = growForest(calls);
  // "calls of a side class (title, auxiliary) are left out"
  const considered = [...forest.keys()].filter((call) => !call.sideClass);
  const childless = (call: NaiveCall): boolean =>
    !considered.some((other) => walkFrom(other, forest, new Set()).slice(0, -1).includes(call));
  // "a childless sibling is dropped only if it was committed before the other was admitted". Siblings have a parent in
  // common; without messages no root is `asked_again`, so roots are nobody's siblings.
  const dropped = considered.filter(
    (call) =>
      childless(call) &&
      forest.get(call) !== null &&
      considered.some(
        (other) => other !== call && forest.get(other) === forest.get(call) && isBefore(call, other),
      ),
  );
  const leaves = considered.filter((call) => childless(call) && !dropped.includes(call));
  const [leaf] = leaves;
  // "then one tree with one leaf must remain, else `ambiguous`"; half an answer is not what an agent ended on.
  if (leaf === undefined || leaves.length > 1 || leaf.status === "aborted") return { reason: "ambiguous" };
  const chain = walkFrom(leaf, forest, new Set());
  const trained = new Set(chain.filter((call) => call.status !== "aborted" && !call.sideClass));
  if ([...trained].some((call) => !canTrain(call))) return { reason: "capture_incomplete" };
  return { forest, chains: [chain], trained };
}

function canTrain(call: NaiveCall): boolean {
  return call.trainable && standsInForest(call);
}

/** "every call admitted and not finished reads as `unknown`, which counts as an answer that could not be recorded" */
function isUnrecorded(call: NaiveCall): boolean {
  return call.status === "unknown" || (call.status === "committed" && !call.hasTokens);
}
