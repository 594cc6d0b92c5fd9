// Reads every record of a rollout, the rejected ones too, and checks it before any row is built: the digest over all
// of its fields, its lengths, and its address against the joined tokens. Each token is hashed twice in all (once for
// its record, once for its place in the tree), however long the chains are.
import { standsInForest, type Call, type CallId } from "../lineage/call.ts";
import { digestCall } from "../lineage/record-digest.ts";
import {
  addressOf,
  emptySequence,
  extendSequence,
  isPrefix,
  type SequenceState,
} from "../lineage/sequence.ts";
import type { Refusal } from "../selection/outcome.ts";

/** The first fault found in order of admission; null where all records hold. O(new tokens). */
export function checkRecords(calls: readonly Call[]): Refusal | null {
  const byId = new Map<CallId, Call>(calls.map((call) => [call.callId, call]));
  const byAdmission = [...calls].sort((one, other) => one.admittedOrder - other.admittedOrder);
  if (byId.size !== calls.length) return corrupt("two calls have one id");
  const states = new Map<CallId, SequenceState>();
  for (const call of byAdmission) {
    const fault = checkRecord(call) ?? checkPlace(call, byId, states);
    if (fault !== null) return corrupt(`call ${call.callId}: ${fault}`);
  }
  return null;
}

function corrupt(detail: string): Refusal {
  return { reason: "corrupt_record", detail };
}

function checkRecord(call: Call): string | null {
  if (digestCall(call) !== call.digest) return "its digest does not match its fields";
  if (call.carriedTokenIds.length !== call.carriedLength)
    return "its carried tokens have another length than told";
  if (call.generatedTokenIds.length !== call.generatedLength) {
    return "its generated tokens have another length than told";
  }
  if (
    call.generatedLogprobs.length !== call.generatedLength &&
    call.untrainable === null &&
    standsInForest(call)
  ) {
    return `it has ${call.generatedLogprobs.length} log-probs for ${call.generatedLength} tokens`;
  }
  return null;
}

/** A parent settled before its child was admitted, so admission order reaches parents first. */
function checkPlace(
  call: Call,
  byId: ReadonlyMap<CallId, Call>,
  states: Map<CallId, SequenceState>,
): string | null {
  if (!standsInForest(call)) return call.parentCallId === null ? null : "it has a parent but no sequence";
  let from = emptySequence();
  if (call.parentCallId !== null) {
    const parent = byId.get(call.parentCallId);
    const state = states.get(call.parentCallId);
    if (parent === undefined || state === undefined) return `its parent ${call.parentCallId} is missing`;
    if ((parent.settledOrder as number) >= call.admittedOrder) {
      return `its parent ${call.parentCallId} settled after it was admitted`;
    }
    if (parent.generatedLength === 0) return `its parent ${call.parentCallId} generated nothing`;
    if (!isPrefix(parent.mediaDigests, call.mediaDigests)) return "its media do not start with its parent's";
    from = state;
  }
  const end = extendSequence(from, call.carriedTokenIds, call.generatedTokenIds);
  if (end.length !== call.sequenceLength) {
    return `its sequence has ${end.length} tokens, not ${call.sequenceLength}`;
  }
  if (addressOf(end, call.mediaDigests) !== call.address)
    return "its address does not match the joined tokens";
  states.set(call.callId, end);
  return null;
}
