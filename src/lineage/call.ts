// What is kept of one model call. A `CallSummary` is everything but the payload and is small enough to hold for
// every call of an open rollout; a `Call` adds the tokens and messages. Both are frozen facts: they are made once
// by `record-call.ts` (or read back by a ledger) and never edited. Nothing here does I/O or reads a clock.
import { CoppiceError } from "../errors.ts";

declare const brand: unique symbol;
type Brand<T, Name extends string> = T & { readonly [brand]: Name };

export type RolloutId = Brand<string, "RolloutId">;
export type CallId = Brand<string, "CallId">;
/** `{length}-{hex}`: a sequence's length in tokens and the SHA-256 of its ids (and media); see sequence.ts. */
export type SequenceAddress = Brand<string, "SequenceAddress">;

const ID = /^[A-Za-z0-9._:@+-]{1,200}$/;

function checkId(value: unknown, field: string): string {
  if (typeof value !== "string" || !ID.test(value)) {
    throw new CoppiceError(
      "invalid_request",
      `${field} is ${JSON.stringify(value) ?? String(value)}; it must be 1 to 200 letters, digits or . _ : @ + -`,
      { param: field },
    );
  }
  return value;
}

export function rolloutId(value: unknown, field = "rollout_id"): RolloutId {
  return checkId(value, field) as RolloutId;
}

export function callId(value: unknown, field = "call_id"): CallId {
  return checkId(value, field) as CallId;
}

/**
 * - `admitted`: the engine was asked, nothing has settled yet
 * - `committed`: answered and recorded
 * - `aborted`: the client went away, or the rollout was sealed meanwhile; what was delivered is recorded
 * - `failed`: the agent saw an error; nothing was sampled for it
 * - `unknown`: admitted by a process that died, or answered but not recorded
 */
export type CallStatus = "admitted" | "committed" | "aborted" | "failed" | "unknown";

/** How the engine was asked: with messages, or with token ids. */
export type Way = "text" | "token-in";

/** What a call was for, where the agent tells. `title` and `auxiliary` are side classes: never inferred as kept. */
export type CallClass = "main" | "sub_agent" | "compaction" | "title" | "auxiliary";

export type RootReason =
  | { readonly kind: "rewrite" }
  | { readonly kind: "asked_again"; readonly rootCallId: CallId }
  | { readonly kind: "other_agent" }
  | { readonly kind: "unknown" }
  | {
      readonly kind: "drift";
      /** The call that the messages go on from, though the tokens do not. */
      readonly followedCallId: CallId;
      /** First index at which the prompt differs from that call's sequence, in tokens. */
      readonly index: number;
      /** Id at `index` in the sequence that was recorded; null where that sequence is the shorter one. */
      readonly expectedId: number | null;
      /** Id at `index` in the prompt; null where the prompt ends before the sequence does. */
      readonly actualId: number | null;
      /** A few tokens' text around `index` on both sides; null where the engine cannot turn ids into text. */
      readonly expectedText: string | null;
      readonly actualText: string | null;
    };

/** Policy weights by first generated token: sorted by `start`, the first at 0. */
export interface WeightVersionSpan {
  readonly version: string;
  readonly start: number;
}

/** Sampling settings as the client asked and as the engine was given them (pinned, clamped). */
export interface Sampling {
  readonly asked: Readonly<Record<string, unknown>>;
  readonly used: Readonly<Record<string, unknown>>;
}

/** A chat message in the Chat Completions shape, kept as the agent sent it (unknown fields included). */
export type Message = Readonly<Record<string, unknown>>;

export interface CallSummary {
  readonly rolloutId: RolloutId;
  readonly attempt: number;
  readonly callId: CallId;
  /** The id in the answer's body; `ID:k` for choice k where n was above 1. */
  readonly responseId: string | null;
  readonly status: CallStatus;
  /** Why it was aborted, failed or is unknown, in words. */
  readonly statusDetail: string | null;
  /** Place in the rollout's one count of admissions and commits. */
  readonly admittedOrder: number;
  /** Place at which it settled (whatever its status); null while admitted. */
  readonly settledOrder: number | null;
  /** Milliseconds since the epoch, for people; no rule reads them. */
  readonly admittedAt: number;
  readonly settledAt: number | null;

  readonly parentCallId: CallId | null;
  /** The parent as the client named it (call id or response id), whether it fitted or not. */
  readonly namedParent: string | null;
  /** A named parent that did not fit was set aside. */
  readonly namedParentMisfit: boolean;
  /** Null for the first root of the rollout and for every call with a parent. */
  readonly rootReason: RootReason | null;

  readonly carriedLength: number;
  readonly generatedLength: number;
  /** Length of prompt and generated tokens together. */
  readonly sequenceLength: number;
  /** Address of prompt and generated tokens; null where the engine told no prompt ids. */
  readonly address: SequenceAddress | null;
  /** Signed 32-bit rolling fingerprint of the same ids: picks candidates for the parent, proves nothing. */
  readonly fingerprint: number;
  readonly mediaDigests: readonly string[];

  readonly finishReason: string | null;
  /** Why this call must not train; null for a complete one. */
  readonly untrainable: string | null;
  readonly weightVersions: readonly WeightVersionSpan[];
  readonly way: Way;
  /** What else the record should say: why the text way was taken, blanked lines, a rewrite by the client. */
  readonly notes: readonly string[];
  readonly sampling: Sampling;
  /** `raw` (before temperature), `processed`, or null where nobody told. */
  readonly logprobsMode: string | null;
  readonly agent: string | null;
  readonly class: CallClass | null;

  /** Digest of the request's messages by meaning (message.ts); null where no messages are known. */
  readonly requestDigest: string | null;
  /** The same with the answer appended: what a call that goes on from this one starts with. */
  readonly historyDigest: string | null;
  /** Number of messages in the request. */
  readonly messageCount: number;
  /** Index in the request at which `messages` begin: what the parent already has is not stored again. */
  readonly messagesFrom: number;
}

export interface Call extends CallSummary {
  readonly carriedTokenIds: Uint32Array;
  readonly generatedTokenIds: Uint32Array;
  /** One a generated token; shorter or longer only where `untrainable` says so. */
  readonly generatedLogprobs: Float32Array;
  /** The request's messages from `messagesFrom` on; null where only tokens are kept. */
  readonly messages: readonly Message[] | null;
  readonly answer: Message | null;
  /** Hex SHA-256 over every other field (record-digest.ts). */
  readonly digest: string;
}

/** A call without its tokens and messages: small enough to hold for every call of an open rollout. */
export function summaryOf(call: Call): CallSummary {
  const { carriedTokenIds: _c, generatedTokenIds: _g, generatedLogprobs: _l, ...rest } = call;
  const { messages: _m, answer: _a, digest: _d, ...summary } = rest;
  return summary;
}

/** True for calls that stand in the forest: their prompt and what was generated are known. */
export function standsInForest(call: CallSummary): boolean {
  return (call.status === "committed" || call.status === "aborted") && call.address !== null;
}

/** True for an answer that may have reached the agent and is not in the record. */
export function isUnrecorded(call: CallSummary): boolean {
  switch (call.status) {
    case "admitted":
    case "unknown":
      return true;
    case "committed":
      return call.address === null;
    case "aborted":
    case "failed":
      return false;
  }
}

/** True for calls of a side class, which are never inferred as kept. */
export function isSideCall(call: CallSummary): boolean {
  return call.class === "title" || call.class === "auxiliary";
}
