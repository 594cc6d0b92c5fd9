// A second, independent implementation of "a trace in, rows and failures out": written from the design alone, slow,
// and meant to be checked by reading. Each rule stands beside the line of the design that it implements. The vectors
// and 2,000 random traces hold it and the product to the same answers.
import { choose, readOutcome, type NaiveChoice, type NaiveOutcome } from "./choose.ts";
import { readCall, sequenceOf, type NaiveCall } from "./forest.ts";

export interface NaiveRow {
  readonly type: "row";
  readonly row_id: string;
  readonly rollout_id: string;
  readonly group_id: string;
  readonly generation_index: number;
  readonly segment_index: number;
  readonly segment_count: number;
  readonly reward: number | null;
  readonly advantage: number | null;
  readonly row_trainable_tokens: number;
  readonly rollout_trainable_tokens: number;
  readonly call_ids: readonly string[];
  readonly token_ids: readonly number[];
  readonly loss_mask: readonly number[];
  readonly logprobs: readonly number[];
  readonly prompt_length: number;
  readonly trees_not_walked: number;
}

export interface NaiveFailure {
  readonly type: "failure";
  readonly rollout_id: string;
  readonly reason: string;
}

export interface NaiveRows {
  readonly rows: readonly NaiveRow[];
  readonly failures: readonly NaiveFailure[];
}

type Line = Readonly<Record<string, unknown>>;

/** One row's worth of a chain: what trains in it was settled by the rows before it. */
interface Segment {
  readonly chain: readonly NaiveCall[];
  readonly trained: readonly NaiveCall[];
}

export function naiveRowsOfTrace(lines: readonly unknown[]): NaiveRows {
  const calls = new Map<string, NaiveCall[]>();
  const outcomes: NaiveOutcome[] = [];
  for (const [index, line] of (lines as readonly Line[]).entries()) {
    if (line["type"] === "outcome") outcomes.push(readOutcome(line));
    if (line["type"] !== "call") continue;
    const rolloutId = line["rollout_id"] as string;
    calls.set(rolloutId, [...(calls.get(rolloutId) ?? []), readCall(line, index)]);
  }
  const kept: { outcome: NaiveOutcome; choice: NaiveChoice; segments: readonly Segment[] }[] = [];
  const failures: NaiveFailure[] = [];
  const refuse = (rolloutId: string, reason: string): void => {
    failures.push({ type: "failure", rollout_id: rolloutId, reason });
  };
  for (const outcome of outcomes) {
    const choice = choose(calls.get(outcome.rolloutId) ?? [], outcome);
    if ("reason" in choice) {
      refuse(outcome.rolloutId, choice.reason);
      continue;
    }
    const segments = cutSegments(choice);
    if (segments.length === 0) refuse(outcome.rolloutId, "no_trainable_tokens");
    else kept.push({ outcome, choice, segments });
  }
  // A rollout that never said how it ended comes last.
  for (const rolloutId of calls.keys()) {
    if (!outcomes.some((outcome) => outcome.rolloutId === rolloutId)) refuse(rolloutId, "no_outcome");
  }
  const survivors = kept.map(({ outcome }) => outcome);
  // "one JSON line a row [...] in the order of the outcomes, then [failures]"
  const rows = kept.flatMap(({ outcome, choice, segments }) =>
    segments.map((_segment, index) =>
      buildRow({ outcome, choice, segments, index, advantage: advantageOf(outcome, survivors) }),
    ),
  );
  return { rows, failures };
}

function cutSegments(choice: NaiveChoice): readonly Segment[] {
  const owned = new Set<NaiveCall>();
  const segments: Segment[] = [];
  for (const chain of choice.chains) {
    // "A call shared by several walks trains in the first row only; elsewhere [...] its tokens are context (mask 0)."
    const trained = chain.filter((call) => choice.trained.has(call) && !owned.has(call));
    for (const call of trained) owned.add(call);
    // "A row without a trainable token is left out."
    if (countTokens(trained) > 0) segments.push({ chain, trained });
  }
  return segments;
}

function countTokens(calls: readonly NaiveCall[]): number {
  return calls.reduce((total, call) => total + call.generated.length, 0);
}

/** "Advantage: reward minus the group's mean by default" */
function advantageOf(outcome: NaiveOutcome, survivors: readonly NaiveOutcome[]): number | null {
  // "A rollout counts once, however many rows it has; failures do not count."
  const group = survivors.filter((survivor) => survivor.groupId === outcome.groupId);
  let total = 0;
  for (const survivor of group) {
    // A mean of rewards that are not all known is not known.
    if (survivor.reward === null) return null;
    total += survivor.reward;
  }
  // "a lone survivor gets 0"
  if (group.length === 1) return 0;
  return outcome.reward === null ? null : outcome.reward - total / group.length;
}

interface RowParts {
  readonly outcome: NaiveOutcome;
  readonly choice: NaiveChoice;
  readonly segments: readonly Segment[];
  readonly index: number;
  readonly advantage: number | null;
}

function buildRow({ outcome, choice, segments, index, advantage }: RowParts): NaiveRow {
  const { chain, trained } = segments[index] as Segment;
  const [root] = chain;
  const leaf = chain.at(-1);
  if (root === undefined || leaf === undefined) throw new Error(`chain ${String(index)} has no calls`);
  // "a chain's tokens": each prompt starts with the sequence before it, so they are the leaf's sequence.
  const tokenIds = sequenceOf(leaf);
  const lossMask = tokenIds.map(() => 0);
  const logprobs = tokenIds.map(() => 0);
  for (const call of trained) {
    for (let offset = 0; offset < call.generated.length; offset += 1) {
      lossMask[call.prompt.length + offset] = 1;
      logprobs[call.prompt.length + offset] = call.logprobs[offset] as number;
    }
  }
  const walked = new Set(segments.flatMap((segment) => segment.chain));
  return {
    type: "row",
    // "`{group}_g{generation_index}_s{segment_index}`"
    row_id: `${outcome.groupId}_g${String(outcome.generationIndex)}_s${String(index)}`,
    rollout_id: outcome.rolloutId,
    group_id: outcome.groupId,
    generation_index: outcome.generationIndex,
    segment_index: index,
    segment_count: segments.length,
    reward: outcome.reward,
    advantage,
    row_trainable_tokens: countTokens(trained),
    rollout_trainable_tokens: countTokens(segments.flatMap((segment) => segment.trained)),
    call_ids: chain.map((call) => call.callId),
    token_ids: tokenIds,
    loss_mask: lossMask,
    // "0.0 wherever the mask is 0"
    logprobs,
    // "the root's carried tokens"
    prompt_length: root.prompt.length,
    // "roots that stand in no row of the rollout"
    trees_not_walked: [...choice.forest].filter(([call, parent]) => parent === null && !walked.has(call))
      .length,
  };
}
