// One call in full: its tokens and messages, its neighbours in the forest, and for a root what it is compared with:
// where its tokens part from the sequence before it, and what its request kept, dropped and added. Pure.
import { standsInForest, type Call, type CallId, type CallSummary, type Message } from "../lineage/call.ts";
import type { Forest } from "../lineage/forest.ts";
import { meaningOf } from "../lineage/message.ts";
import { firstDifference } from "../lineage/record-call.ts";
import { rootCode, rootFollows } from "./calls-view.ts";
import { roundLogprob } from "./kept-view.ts";
import type { CallView, PartingView, RewriteView } from "./view.ts";

/** What a later root is held against: the call before it, its whole sequence, and its history where messages are kept. */
export interface Compared {
  readonly call: CallSummary;
  readonly sequence: Uint32Array;
  /** Its request with its answer. */
  readonly history: readonly Message[] | null;
}

/** @param compared with what `comparedWith` names; null for a call that is no later root */
export function callView(forest: Forest, call: Call, compared: Compared | null): CallView {
  return {
    ...recordView(call),
    twins: (forest.twins.get(call.callId) ?? [])
      .map(({ callId }) => callId)
      .filter((id) => id !== call.callId),
    siblings: siblingsOf(forest, call),
    children: (forest.children.get(call.callId) ?? []).map(({ callId }) => callId),
    parting: compared === null ? null : parting(compared, call),
    rewrite: compared === null ? null : rewrite(compared, call),
  };
}

type Neighbours = "twins" | "siblings" | "children" | "parting" | "rewrite";

function recordView(call: Call): Omit<CallView, Neighbours> {
  return {
    call_id: call.callId,
    order: call.admittedOrder,
    settled: call.settledOrder,
    response_id: call.responseId,
    status: call.status,
    status_detail: call.statusDetail,
    parent_call_id: call.parentCallId,
    named_parent: call.namedParent,
    named_parent_misfit: call.namedParentMisfit,
    root: rootCode(call),
    root_follows: rootFollows(call),
    carried: [...call.carriedTokenIds],
    generated: [...call.generatedTokenIds],
    logprobs: Array.from(call.generatedLogprobs, (value) =>
      Number.isFinite(value) ? roundLogprob(value) : null,
    ),
    sequence_length: call.sequenceLength,
    address: call.address,
    finish_reason: call.finishReason,
    untrainable: call.untrainable,
    weight_versions: call.weightVersions,
    way: call.way,
    notes: call.notes,
    sampling: call.sampling,
    logprobs_mode: call.logprobsMode,
    agent: call.agent,
    class: call.class,
    admitted_at: call.admittedAt,
    settled_at: call.settledAt,
    media_digests: call.mediaDigests,
    digest: call.digest,
    messages: call.messages,
    messages_from: call.messagesFrom,
    answer: call.answer,
  };
}

/** Children of the same parent; a root that was asked again stands beside the root whose messages it repeats. */
function siblingsOf(forest: Forest, call: CallSummary): CallId[] {
  if (!standsInForest(call)) return [];
  const others =
    call.parentCallId === null
      ? forest.roots.filter((root) => askedAs(root) === askedAs(call))
      : (forest.children.get(call.parentCallId) ?? []);
  return others.map(({ callId }) => callId).filter((id) => id !== call.callId);
}

function askedAs({ callId, rootReason }: CallSummary): CallId {
  return rootReason?.kind === "asked_again" ? rootReason.rootCallId : callId;
}

/**
 * The call whose history a later root goes on from: the one that a drift names, the root that is repeated, else the
 * last call of the same agent and class that had settled when the root was admitted. Null for any other call.
 */
export function comparedWith(forest: Forest, root: CallSummary): CallSummary | null {
  if (root.parentCallId !== null || root.rootReason === null || !standsInForest(root)) return null;
  const follows = rootFollows(root);
  if (follows !== null) return forest.byId.get(follows as CallId) ?? null;
  let last: CallSummary | null = null;
  let lastAlike: CallSummary | null = null;
  for (const call of forest.calls) {
    if (!standsInForest(call) || (call.settledOrder as number) >= root.admittedOrder) continue;
    last = later(last, call);
    if (call.agent === root.agent && call.class === root.class) lastAlike = later(lastAlike, call);
  }
  return lastAlike ?? last;
}

function later(one: CallSummary | null, other: CallSummary): CallSummary {
  return one === null || (one.settledOrder as number) < (other.settledOrder as number) ? other : one;
}

/** Tokens told on either side of where two runs part. */
const SHARED_TOLD = 6;
const PARTED_TOLD = 24;

function parting({ call: other, sequence }: Compared, root: Call): PartingView {
  const sent = root.carriedTokenIds;
  const index = firstDifference(sequence, sent);
  return {
    other_call_id: other.callId,
    other_order: other.admittedOrder,
    index,
    other_length: sequence.length,
    shared: Array.from(sent.slice(Math.max(0, index - SHARED_TOLD), index)),
    recorded: Array.from(sequence.slice(index, index + PARTED_TOLD)),
    sent: Array.from(sent.slice(index, index + PARTED_TOLD)),
  };
}

/** Null where messages were not kept. A message counts as kept where it means the same and comes in the same order. */
function rewrite({ call: other, history }: Compared, root: Call): RewriteView | null {
  if (history === null || root.messages === null) return null;
  return {
    other_call_id: other.callId,
    other_order: other.admittedOrder,
    entries: compareMessages(history, root.messages),
  };
}

/** A call's sequence and history, joined from its ancestors, which are given root first and end with the call. */
export function compareTo(call: CallSummary, chain: readonly Call[]): Compared {
  const sequence = new Uint32Array(call.sequenceLength);
  let at = 0;
  let history: Message[] | null = [];
  for (const one of chain) {
    sequence.set(one.carriedTokenIds, at);
    at += one.carriedLength;
    sequence.set(one.generatedTokenIds, at);
    at += one.generatedLength;
    if (history === null || one.messages === null) history = null;
    else
      history = [
        ...history.slice(0, one.messagesFrom),
        ...one.messages,
        ...(one.answer === null ? [] : [one.answer]),
      ];
  }
  return { call, sequence, history };
}

/** Two histories as one: greedy in order, which is exact wherever no message repeats. */
export function compareMessages(
  before: readonly Message[],
  after: readonly Message[],
): RewriteView["entries"] {
  const places = new Map<string, number[]>();
  for (const [index, message] of before.entries()) {
    const meaning = meaningOf(message);
    const same = places.get(meaning);
    if (same === undefined) places.set(meaning, [index]);
    else same.push(index);
  }
  const entries: { fate: "kept" | "dropped" | "added"; message: Message }[] = [];
  let next = 0;
  for (const message of after) {
    const at = places.get(meaningOf(message))?.find((index) => index >= next);
    if (at === undefined) {
      entries.push({ fate: "added", message });
      continue;
    }
    for (const dropped of before.slice(next, at)) entries.push({ fate: "dropped", message: dropped });
    entries.push({ fate: "kept", message });
    next = at + 1;
  }
  for (const dropped of before.slice(next)) entries.push({ fate: "dropped", message: dropped });
  return entries;
}
