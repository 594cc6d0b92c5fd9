// From what was captured of one call to the record that is kept: who its parent is, what it carries beyond it, and,
// for a root, why it is one. The same code makes the records of the gateway and of a trace.
// It is not responsible for orders (the ledger counts) nor for reading tokens of earlier calls (the caller does,
// and only to describe a drift).
import {
  standsInForest,
  type Call,
  type CallId,
  type CallSummary,
  type Message,
  type RootReason,
} from "./call.ts";
import { digestMessages, extendMessages, NO_MESSAGES } from "./message.ts";
import type { PendingCall } from "./record-digest.ts";
import { addressOf, extendSequence, SequenceIndex, type ParentFound } from "./sequence.ts";

/** One call as the gateway or a trace knows it, before its place in the forest is known. */
export interface CapturedCall extends Pick<
  Call,
  | "rolloutId"
  | "attempt"
  | "callId"
  | "responseId"
  | "status"
  | "statusDetail"
  | "admittedOrder"
  | "admittedAt"
  | "settledAt"
  | "namedParent"
  | "generatedTokenIds"
  | "generatedLogprobs"
  | "mediaDigests"
  | "finishReason"
  | "untrainable"
  | "weightVersions"
  | "way"
  | "notes"
  | "sampling"
  | "logprobsMode"
  | "agent"
  | "class"
  | "answer"
> {
  /** Null where the engine told none: the call is then kept without a place in the forest. */
  readonly promptTokenIds: Uint32Array | null;
  /** The whole request's messages; null where they are not known or not kept. */
  readonly messages: readonly Message[] | null;
  /** Digest of the request's tools and template options; absent where there are none, or none are known. */
  readonly contextDigest?: string;
}

/** The call that a request's messages go on from. */
export interface FollowedCall {
  readonly call: CallSummary;
  /** Index of its answer in the request's messages. */
  readonly answerIndex: number;
}

/** Why a call is a root, before a drift's tokens are looked at. */
export type RootKind =
  | Exclude<RootReason, { readonly kind: "drift" }>
  | { readonly kind: "drift"; readonly followed: CallSummary };

export interface Lineage {
  readonly found: ParentFound<CallSummary> | null;
  /** Null for a call with a parent, for the first root, and where the prompt's ids are not known. */
  readonly root: RootKind | null;
  /** Digest of the request's messages up to and including each. */
  readonly messageDigests: readonly string[];
}

/** All settled calls of one rollout attempt, as far as lineage needs them. */
export class RolloutIndex {
  readonly #sequences = new SequenceIndex<CallSummary>();
  readonly #byHistory = new Map<string, CallSummary[]>();
  readonly #byRequest = new Map<string, CallSummary[]>();
  readonly #rootByRequest = new Map<string, CallId>();
  readonly #agents = new Set<string | null>();
  #roots = 0;

  add(call: CallSummary): void {
    if (!standsInForest(call)) return;
    this.#sequences.add(call);
    this.#agents.add(call.agent);
    if (call.historyDigest !== null && call.generatedLength > 0) {
      push(this.#byHistory, call.historyDigest, call);
      if (call.requestDigest !== null) push(this.#byRequest, call.requestDigest, call);
    }
    if (call.parentCallId !== null) return;
    this.#roots += 1;
    if (call.requestDigest !== null && !this.#rootByRequest.has(call.requestDigest)) {
      this.#rootByRequest.set(call.requestDigest, call.callId);
    }
  }

  /** Where the captured call stands among the calls added so far. */
  place(captured: CapturedCall): Lineage {
    const messageDigests =
      captured.messages === null ? [] : digestMessages(captured.messages, captured.contextDigest);
    if (captured.promptTokenIds === null) return { found: null, root: null, messageDigests };
    const found = this.#sequences.find({
      prompt: captured.promptTokenIds,
      mediaDigests: captured.mediaDigests,
      admittedOrder: captured.admittedOrder,
      namedParent: captured.namedParent,
    });
    const root = found.parent === null ? this.#whyRoot(captured, messageDigests) : null;
    return { found, root, messageDigests };
  }

  /**
   * The latest call whose messages and answer the request goes on from, by meaning, longest first. One that the client
   * named goes before all others if its messages fit.
   */
  followedBy(
    messageDigests: readonly string[],
    admittedOrder: number,
    namedParent: string | null = null,
  ): FollowedCall | null {
    let latest: FollowedCall | null = null;
    for (let answerIndex = messageDigests.length - 1; answerIndex > 0; answerIndex--) {
      const before = this.#byHistory
        .get(messageDigests[answerIndex] as string)
        ?.filter((candidate) => (candidate.settledOrder as number) < admittedOrder);
      const named = before?.find(
        ({ callId, responseId }) => callId === namedParent || responseId === namedParent,
      );
      if (named !== undefined && namedParent !== null) return { call: named, answerIndex };
      const last = before?.at(-1);
      if (last !== undefined) latest ??= { call: last, answerIndex };
      if (latest !== null && namedParent === null) break;
    }
    return latest;
  }

  /**
   * Calls whose messages are the longest first of the request's, where what stands next in it is none of their answers.
   * Empty where an answer stands as it was given.
   */
  answeredOtherwise(
    messageDigests: readonly string[],
    admittedOrder: number,
  ): { readonly calls: readonly CallSummary[]; readonly answerIndex: number } {
    for (let answerIndex = messageDigests.length - 1; answerIndex > 0; answerIndex--) {
      const calls = this.#byRequest
        .get(messageDigests[answerIndex - 1] as string)
        ?.filter((call) => (call.settledOrder as number) < admittedOrder);
      if (calls === undefined || calls.length === 0) continue;
      const asGiven = calls.some((call) => call.historyDigest === messageDigests[answerIndex]);
      return { calls: asGiven ? [] : calls, answerIndex };
    }
    return { calls: [], answerIndex: 0 };
  }

  #whyRoot(captured: CapturedCall, messageDigests: readonly string[]): RootKind | null {
    if (this.#roots === 0) return null;
    const followed = this.followedBy(messageDigests, captured.admittedOrder);
    if (followed !== null) return { kind: "drift", followed: followed.call };
    if (!this.#agents.has(captured.agent)) return { kind: "other_agent" };
    if (captured.messages === null) return { kind: "unknown" };
    const rootCallId = this.#rootByRequest.get(requestDigestOf(captured, messageDigests));
    return rootCallId === undefined ? { kind: "rewrite" } : { kind: "asked_again", rootCallId };
  }
}

function push<K, V>(lists: Map<K, V[]>, key: K, value: V): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

/** First index at which a prompt leaves the sequence it should have gone on from, in tokens. */
export function firstDifference(expected: Uint32Array, actual: Uint32Array): number {
  const end = Math.min(expected.length, actual.length);
  let index = 0;
  while (index < end && expected[index] === actual[index]) index += 1;
  return index;
}

/** The record of a captured call; a drift must have been described by then. */
export function recordCall(
  captured: CapturedCall,
  lineage: Lineage,
  rootReason: RootReason | null,
  options: { readonly tokensOnly?: boolean } = {},
): PendingCall {
  const { promptTokenIds: _prompt, contextDigest: _context, messages, answer, ...kept } = captured;
  const parent = lineage.found?.parent ?? null;
  const requestDigest = messages === null ? null : requestDigestOf(captured, lineage.messageDigests);
  const place = placeOf(captured, lineage);
  const messagesFrom = options.tokensOnly === true ? 0 : storedMessagesFrom(parent, lineage.messageDigests);
  return {
    ...kept,
    ...place,
    parentCallId: parent?.callId ?? null,
    namedParentMisfit: lineage.found?.namedParentMisfit ?? captured.namedParent !== null,
    rootReason,
    generatedLength: captured.generatedTokenIds.length,
    requestDigest,
    historyDigest: requestDigest === null || answer === null ? null : extendMessages(requestDigest, answer),
    messageCount: messages?.length ?? 0,
    messagesFrom,
    messages: options.tokensOnly === true ? null : (messages?.slice(messagesFrom) ?? null),
    answer: options.tokensOnly === true ? null : answer,
  };
}

function requestDigestOf(captured: CapturedCall, messageDigests: readonly string[]): string {
  return messageDigests.at(-1) ?? captured.contextDigest ?? NO_MESSAGES;
}

function placeOf(
  captured: CapturedCall,
  { found }: Lineage,
): Pick<PendingCall, "carriedTokenIds" | "carriedLength" | "sequenceLength" | "address" | "fingerprint"> {
  if (captured.promptTokenIds === null || found === null) {
    const none = new Uint32Array();
    return { carriedTokenIds: none, carriedLength: 0, sequenceLength: 0, address: null, fingerprint: 0 };
  }
  const end = extendSequence(found.promptState, captured.generatedTokenIds);
  const carriedTokenIds = captured.promptTokenIds.slice(found.parent?.sequenceLength ?? 0);
  return {
    carriedTokenIds,
    carriedLength: carriedTokenIds.length,
    sequenceLength: end.length,
    address: addressOf(end, captured.mediaDigests),
    fingerprint: end.fingerprint,
  };
}

/** Messages that the parent already has, its answer included, are not stored again. */
function storedMessagesFrom(parent: CallSummary | null, digests: readonly string[]): number {
  if (parent === null) return 0;
  if (parent.historyDigest !== null && digests[parent.messageCount] === parent.historyDigest) {
    return parent.messageCount + 1;
  }
  const sameRequest = parent.messageCount > 0 && digests[parent.messageCount - 1] === parent.requestDigest;
  return sameRequest ? parent.messageCount : 0;
}

/** The record of a call that was admitted and came to nothing: failed, or unknown after a crash. */
export function recordUnanswered(captured: CapturedCall): PendingCall {
  return recordCall(
    { ...captured, promptTokenIds: null },
    new RolloutIndex().place({ ...captured, promptTokenIds: null }),
    null,
  );
}
