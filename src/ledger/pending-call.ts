// A call before the ledger has given it its place: what is known while it is in flight, and the exact fields that are
// settled.
import type { Call, CallId, RolloutId } from "../lineage/call.ts";
import type { PendingCall } from "../lineage/record-digest.ts";

/** What is known of a call that was admitted and has not settled. */
export function unansweredCall(
  admitted: Pick<
    Call,
    "rolloutId" | "attempt" | "callId" | "responseId" | "admittedOrder" | "admittedAt" | "agent" | "class"
  >,
): PendingCall {
  return {
    ...admitted,
    status: "admitted",
    statusDetail: null,
    settledAt: null,
    parentCallId: null,
    namedParent: null,
    namedParentMisfit: false,
    rootReason: null,
    carriedLength: 0,
    generatedLength: 0,
    sequenceLength: 0,
    address: null,
    fingerprint: 0,
    mediaDigests: [],
    finishReason: null,
    untrainable: null,
    weightVersions: [],
    way: "text",
    notes: [],
    sampling: { asked: {}, used: {} },
    logprobsMode: null,
    requestDigest: null,
    historyDigest: null,
    messageCount: 0,
    messagesFrom: 0,
    carriedTokenIds: new Uint32Array(),
    generatedTokenIds: new Uint32Array(),
    generatedLogprobs: new Float32Array(),
    messages: null,
    answer: null,
  };
}

const FIELDS = Object.keys(
  unansweredCall({
    rolloutId: "" as RolloutId,
    attempt: 1,
    callId: "" as CallId,
    responseId: null,
    admittedOrder: 0,
    admittedAt: 0,
    agent: null,
    class: null,
  }),
) as readonly (keyof PendingCall)[];

/**
 * The fields of a call and no others, in the shapes that are read back: the digest is over whatever stands there. Token arrays that are views of
 * a larger buffer are copied: a message to the worker would carry the whole buffer.
 */
export function pickFields(call: PendingCall): PendingCall {
  const picked = Object.fromEntries(FIELDS.map((field) => [field, call[field]])) as unknown as PendingCall;
  return {
    ...picked,
    sampling: { asked: call.sampling.asked, used: call.sampling.used },
    weightVersions: call.weightVersions.map(({ version, start }) => ({ version, start })),
    carriedTokenIds: compact(call.carriedTokenIds),
    generatedTokenIds: compact(call.generatedTokenIds),
    generatedLogprobs: compact(call.generatedLogprobs),
  };
}

function compact<T extends Uint32Array | Float32Array>(values: T): T {
  return values.byteLength === values.buffer.byteLength ? values : (values.slice() as T);
}
