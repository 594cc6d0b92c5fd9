// Token sequences: their bytes, addresses and fingerprints, and the search for a call's parent among the sequences
// recorded before it. One pass over the prompt whatever the number of calls: a rolling fingerprint picks a candidate,
// SHA-256 confirms the one hit. Orders are the ledger's; what a hit means for the forest is record-call.ts's.
import { createHash, type Hash } from "node:crypto";
import { endianness } from "node:os";
import type { CallId, SequenceAddress } from "./call.ts";

const LITTLE_ENDIAN = endianness() === "LE";

/** The ids as unsigned 32-bit little-endian bytes; a view, not a copy, on little-endian machines. */
export function tokenBytes(ids: Uint32Array): Buffer {
  const bytes = Buffer.from(ids.buffer, ids.byteOffset, ids.byteLength);
  return LITTLE_ENDIAN ? bytes : Buffer.from(bytes).swap32();
}

/** The log-probs as IEEE 754 binary32 little-endian bytes. */
export function logprobBytes(logprobs: Float32Array): Buffer {
  const bytes = Buffer.from(logprobs.buffer, logprobs.byteOffset, logprobs.byteLength);
  return LITTLE_ENDIAN ? bytes : Buffer.from(bytes).swap32();
}

/** The inverse of `tokenBytes`. Copies, so that the result is aligned and owns its memory. */
export function tokensFromBytes(bytes: Uint8Array): Uint32Array {
  return new Uint32Array(aligned(bytes));
}

/** The inverse of `logprobBytes`. */
export function logprobsFromBytes(bytes: Uint8Array): Float32Array {
  return new Float32Array(aligned(bytes));
}

function aligned(bytes: Uint8Array): ArrayBuffer {
  if (bytes.byteLength % 4 !== 0) {
    throw new RangeError(`${bytes.byteLength} bytes are not a whole number of 32-bit values`);
  }
  const copy = new Uint8Array(bytes);
  if (!LITTLE_ENDIAN) Buffer.from(copy.buffer).swap32();
  return copy.buffer;
}

// FNV-1a over 32-bit words: three operations an id. It only picks; SHA-256 confirms, so a collision costs a hash.
const FNV_OFFSET = 0x811c9dc5 | 0;
const FNV_PRIME = 0x01000193;

function extendFingerprint(from: number, ids: Uint32Array, start: number, end: number): number {
  let fingerprint = from;
  for (let i = start; i < end; i++) fingerprint = Math.imul(fingerprint ^ (ids[i] as number), FNV_PRIME);
  return fingerprint;
}

/** A running hash of a sequence, from which a longer one goes on. */
export interface SequenceState {
  readonly hash: Hash;
  /** Of the same ids, as a signed 32-bit number. */
  readonly fingerprint: number;
  readonly length: number;
}

export function emptySequence(): SequenceState {
  return { hash: createHash("sha256"), fingerprint: FNV_OFFSET, length: 0 };
}

/** The state after the ids are appended. The given state stays usable: its hash is copied (about 2 microseconds). */
export function extendSequence(state: SequenceState, ...parts: readonly Uint32Array[]): SequenceState {
  const hash = state.hash.copy();
  let { fingerprint, length } = state;
  for (const ids of parts) {
    hash.update(tokenBytes(ids));
    fingerprint = extendFingerprint(fingerprint, ids, 0, ids.length);
    length += ids.length;
  }
  return { hash, fingerprint, length };
}

/**
 * The address of the sequence that the state stands at: `{length}-{SHA-256, hex}`. With media, the second part is
 * the SHA-256 of the ids' digest and each media digest with its length, so that equal ids under other images differ.
 */
export function addressOf(state: SequenceState, mediaDigests: readonly string[]): SequenceAddress {
  return formatAddress(state.hash.copy().digest(), state.length, mediaDigests);
}

/**
 * Appends ids to a hash in place and gives the address of the sequence that it then stands at. With `isLast` the hash is
 * used up, which saves a copy.
 */
export function appendToHash(
  hash: Hash,
  parts: readonly Uint32Array[],
  at: { readonly length: number; readonly mediaDigests: readonly string[]; readonly isLast: boolean },
): SequenceAddress {
  for (const ids of parts) hash.update(tokenBytes(ids));
  return formatAddress((at.isLast ? hash : hash.copy()).digest(), at.length, at.mediaDigests);
}

function formatAddress(ids: Buffer, length: number, mediaDigests: readonly string[]): SequenceAddress {
  if (mediaDigests.length === 0) return `${length}-${ids.toString("hex")}` as SequenceAddress;
  const hash = createHash("sha256").update(ids);
  for (const media of mediaDigests) hash.update(`${Buffer.byteLength(media)}:${media}`);
  return `${length}-${hash.digest("hex")}` as SequenceAddress;
}

/** What the search needs of an earlier call. */
export interface Candidate {
  readonly callId: CallId;
  readonly responseId: string | null;
  readonly settledOrder: number | null;
  readonly sequenceLength: number;
  readonly generatedLength: number;
  readonly address: SequenceAddress | null;
  readonly fingerprint: number;
  readonly mediaDigests: readonly string[];
}

export interface ParentQuery {
  readonly prompt: Uint32Array;
  readonly mediaDigests: readonly string[];
  /** The call's own admission; only candidates that settled before it can be its parent. */
  readonly admittedOrder: number;
  /** The parent as the client named it: a call id or a response id. */
  readonly namedParent: string | null;
}

export interface ParentFound<C extends Candidate> {
  readonly parent: C | null;
  /** A parent was named and did not fit, or is not known. */
  readonly namedParentMisfit: boolean;
  /** The state at the end of the prompt: go on from it with what is generated. */
  readonly promptState: SequenceState;
}

/**
 * The recorded sequences of one rollout, by length and fingerprint. `add` is O(log n), `find` reads the prompt once:
 * O(prompt + lengths not longer than it).
 */
export class SequenceIndex<C extends Candidate> {
  /** Distinct lengths, ascending, and beside each the calls of that length by fingerprint. */
  readonly #lengths: number[] = [];
  readonly #ofLength: Map<number, C[]>[] = [];

  /** Calls that generated nothing, or whose sequence is not known, are nobody's parent and are left out. */
  add(call: C): void {
    if (call.address === null || call.generatedLength === 0 || call.settledOrder === null) return;
    const at = lowerBound(this.#lengths, call.sequenceLength);
    if (this.#lengths[at] !== call.sequenceLength) {
      this.#lengths.splice(at, 0, call.sequenceLength);
      this.#ofLength.splice(at, 0, new Map());
    }
    const calls = this.#ofLength[at] as Map<number, C[]>;
    const same = calls.get(call.fingerprint);
    if (same === undefined) calls.set(call.fingerprint, [call]);
    else same.push(call);
  }

  find(query: ParentQuery): ParentFound<C> {
    const { prompt, namedParent } = query;
    const { picked, fingerprint } = this.#pick(prompt);
    // Ids of a foreign trace may collide, so one name may fit several calls: any of them goes before all others.
    const isNamed = (call: C): boolean => call.callId === namedParent || call.responseId === namedParent;
    const confirming = new Confirming(prompt);
    const named = namedParent === null ? [] : picked.map((calls) => calls.filter(isNamed));
    const parent = confirmFirst(named, query, confirming) ?? confirmFirst(picked, query, confirming);
    return {
      parent,
      namedParentMisfit: namedParent !== null && (parent === null || !isNamed(parent)),
      promptState: { hash: confirming.finish(), fingerprint, length: prompt.length },
    };
  }

  /** Calls whose length and fingerprint the prompt has, shortest first, and the whole prompt's fingerprint. */
  #pick(prompt: Uint32Array): {
    readonly picked: readonly (readonly C[])[];
    readonly fingerprint: number;
  } {
    const picked: (readonly C[])[] = [];
    let fingerprint = FNV_OFFSET;
    let hashed = 0;
    for (let at = 0; at < this.#lengths.length; at++) {
      const length = this.#lengths[at] as number;
      if (length > prompt.length) break;
      fingerprint = extendFingerprint(fingerprint, prompt, hashed, length);
      hashed = length;
      const hits = (this.#ofLength[at] as Map<number, C[]>).get(fingerprint);
      if (hits !== undefined) picked.push(hits);
    }
    return { picked, fingerprint: extendFingerprint(fingerprint, prompt, hashed, prompt.length) };
  }
}

/** SHA-256 of a prompt as far as it was needed: started anew only where a candidate before was longer. */
class Confirming {
  readonly #prompt: Uint32Array;
  #hash = createHash("sha256");
  #hashed = 0;

  constructor(prompt: Uint32Array) {
    this.#prompt = prompt;
  }

  confirm(call: Candidate): boolean {
    if (this.#hashed > call.sequenceLength) {
      this.#hash = createHash("sha256");
      this.#hashed = 0;
    }
    this.#hashTo(call.sequenceLength);
    return formatAddress(this.#hash.copy().digest(), this.#hashed, call.mediaDigests) === call.address;
  }

  finish(): Hash {
    this.#hashTo(this.#prompt.length);
    return this.#hash;
  }

  #hashTo(length: number): void {
    this.#hash.update(tokenBytes(this.#prompt.subarray(this.#hashed, length)));
    this.#hashed = length;
  }
}

/** Longest first, then latest settled. */
function confirmFirst<C extends Candidate>(
  picked: readonly (readonly C[])[],
  query: ParentQuery,
  confirming: Confirming,
): C | null {
  for (let at = picked.length - 1; at >= 0; at--) {
    const candidates = (picked[at] as readonly C[])
      .filter((call) => mayBeParent(call, query))
      .sort(laterFirst);
    const parent = candidates.find((call) => confirming.confirm(call));
    if (parent !== undefined) return parent;
  }
  return null;
}

function mayBeParent(call: Candidate, query: ParentQuery): boolean {
  return (
    (call.settledOrder as number) < query.admittedOrder && isPrefix(call.mediaDigests, query.mediaDigests)
  );
}

function laterFirst(x: Candidate, y: Candidate): number {
  return (y.settledOrder as number) - (x.settledOrder as number);
}

export function isPrefix(start: readonly string[], whole: readonly string[]): boolean {
  return start.length <= whole.length && start.every((entry, index) => entry === whole[index]);
}

function lowerBound(sorted: readonly number[], value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as number) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
