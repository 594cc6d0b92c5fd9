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

/** Hex SHA-256 over every field but the digest itself. Keys are sorted, so their order of making is free. */
export function digestCall(call: Omit<Call, "digest">): string {
  const { carriedTokenIds, generatedTokenIds, generatedLogprobs, ...scalars } = call;
  const { digest: _digest, ...rest } = scalars as typeof scalars & { digest?: string };
  const text = JSON.stringify(sortKeys(rest));
  return createHash("sha256")
    .update(`${Buffer.byteLength(text)}:${text}`)
    .update(`${carriedTokenIds.length}:`)
    .update(tokenBytes(carriedTokenIds))
    .update(`${generatedTokenIds.length}:`)
    .update(tokenBytes(generatedTokenIds))
    .update(`${generatedLogprobs.length}:`)
    .update(logprobBytes(generatedLogprobs))
    .digest("hex");
}

function sortKeys(fields: Readonly<Record<string, unknown>>): [string, unknown][] {
  return Object.entries(fields).sort(([one], [other]) => (one < other ? -1 : 1));
}
