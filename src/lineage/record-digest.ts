// The digest that stands on every stored call: SHA-256 over all of its other fields. Whoever reads a call back
// (rows, verify) recomputes it, so a bit that changed on disk is found before a row is built from it.
import { createHash } from "node:crypto";
import type { Call } from "./call.ts";
import { logprobBytes, tokenBytes } from "./sequence.ts";

/** A call that has settled but whose place in the count the ledger has yet to give. */
export type PendingCall = Omit<Call, "settledOrder" | "digest">;

/** The stored call: the ledger gives the order, and the digest follows from everything. */
export function settleCall(pending: PendingCall, settledOrder: number): Call {
  const call = { ...pending, settledOrder };
  return Object.freeze({ ...call, digest: digestCall(call) });
}

type Tokens = "carriedTokenIds" | "generatedTokenIds" | "generatedLogprobs";

/** Every field but the tokens and the digest itself; the compiler sees that none is left out. */
const FIELDS: Readonly<Record<Exclude<keyof Call, Tokens | "digest">, true>> = {
  rolloutId: true,
  attempt: true,
  callId: true,
  responseId: true,
  status: true,
  statusDetail: true,
  admittedOrder: true,
  settledOrder: true,
  admittedAt: true,
  settledAt: true,
  parentCallId: true,
  namedParent: true,
  namedParentMisfit: true,
  rootReason: true,
  carriedLength: true,
  generatedLength: true,
  sequenceLength: true,
  address: true,
  fingerprint: true,
  mediaDigests: true,
  finishReason: true,
  untrainable: true,
  weightVersions: true,
  way: true,
  notes: true,
  sampling: true,
  logprobsMode: true,
  agent: true,
  class: true,
  requestDigest: true,
  historyDigest: true,
  messageCount: true,
  messagesFrom: true,
  messages: true,
  answer: true,
};

const NAMES = Object.keys(FIELDS) as (keyof typeof FIELDS)[];

/** Hex SHA-256 over every field but the digest: the scalars as one JSON array in a fixed order, then the tokens. */
export function digestCall(call: Omit<Call, "digest">): string {
  const { carriedTokenIds, generatedTokenIds, generatedLogprobs } = call;
  const lengths = [carriedTokenIds.length, generatedTokenIds.length, generatedLogprobs.length];
  return createHash("sha256")
    .update(JSON.stringify([lengths, ...NAMES.map((name) => call[name])]))
    .update(tokenBytes(carriedTokenIds))
    .update(tokenBytes(generatedTokenIds))
    .update(logprobBytes(generatedLogprobs))
    .digest("hex");
}
