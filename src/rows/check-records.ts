// Reads every record of a rollout, the rejected ones too, and checks it before any row is built: the digest over all
// of its fields, its lengths, and its address against the joined tokens. Each token is hashed twice in all (once for
// its record, once for its place in the tree), however long the chains are.
import { createHash, type Hash } from "node:crypto";
import { standsInForest, type Call, type CallId } from "../lineage/call.ts";
import { digestCall } from "../lineage/record-digest.ts";
import { appendToHash, isPrefix } from "../lineage/sequence.ts";
import type { Refusal } from "../selection/outcome.ts";

/** The first fault found in order of admission; null where all records hold. O(new tokens). */
export function checkRecords(calls: readonly Call[]): Refusal | null {
  const byId = new Map<CallId, Call>(calls.map((call) => [call.callId, call]));
  const byAdmission = [...calls].sort((one, other) => one.admittedOrder - other.admittedOrder);
  if (byId.size !== calls.length) return corrupt("two calls have one id");
  const places: Places = { byId, hashes: new Map(), childrenLeft: childrenOf(calls) };
  for (const call of byAdmission) {
    const fault = checkRecord(call) ?? checkPlace(call, places);
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

interface Places {
  readonly byId: ReadonlyMap<CallId, Call>;
  /** SHA-256 states at the end of sequences that some child still goes on from. */
  readonly hashes: Map<CallId, Hash>;
  readonly childrenLeft: Map<CallId, number>;
}

function childrenOf(calls: readonly Call[]): Map<CallId, number> {
  const children = new Map<CallId, number>();
  for (const { parentCallId } of calls) {
    if (parentCallId !== null) children.set(parentCallId, (children.get(parentCallId) ?? 0) + 1);
  }
  return children;
}

/** A parent settled before its child was admitted, so admission order reaches parents first. */
function checkPlace(call: Call, { byId, hashes, childrenLeft }: Places): string | null {
  const { parentCallId, mediaDigests } = call;
  if (!standsInForest(call)) return parentCallId === null ? null : "it has a parent but no sequence";
  let hash = createHash("sha256");
  let length = call.carriedLength + call.generatedLength;
  if (parentCallId !== null) {
    const parent = byId.get(parentCallId);
    const from = hashes.get(parentCallId);
    if (parent === undefined || from === undefined) return `its parent ${parentCallId} is missing`;
    if ((parent.settledOrder as number) >= call.admittedOrder) {
      return `its parent ${parentCallId} settled after it was admitted`;
    }
    if (parent.generatedLength === 0) return `its parent ${parentCallId} generated nothing`;
    if (!isPrefix(parent.mediaDigests, mediaDigests)) return "its media do not start with its parent's";
    hash = takeHash(parentCallId, from, { hashes, childrenLeft });
    length += parent.sequenceLength;
  }
  if (length !== call.sequenceLength) return `its sequence has ${length} tokens, not ${call.sequenceLength}`;
  const isLast = !childrenLeft.has(call.callId);
  const address = appendToHash(hash, [call.carriedTokenIds, call.generatedTokenIds], {
    length,
    mediaDigests,
    isLast,
  });
  if (address !== call.address) return "its address does not match the joined tokens";
  if (!isLast) hashes.set(call.callId, hash);
  return null;
}

/** The parent's hash to go on from: itself for its last child, a copy for those before. */
function takeHash(
  parentCallId: CallId,
  from: Hash,
  { hashes, childrenLeft }: Pick<Places, "hashes" | "childrenLeft">,
): Hash {
  const left = childrenLeft.get(parentCallId) as number;
  childrenLeft.set(parentCallId, left - 1);
  if (left > 1) return from.copy();
  hashes.delete(parentCallId);
  return from;
}
