// Puts a parent's recorded sequence in the place of what a chat template renders for the same history. The recorded
// ids and the rendered ones need not agree; what is wanted of the rendering is only what comes *after* the parent's
// answer. To find that place the answer is rendered as a marker that nobody writes: what follows the marker is what
// the template puts after an answer, whatever the answer was and however its text would be tokenised.
// Pure, on token ids. Which messages are rendered is splice-messages.ts's, asking the engine prompt.ts's.
import { tokenBytes } from "../lineage/sequence.ts";

/** How a template joins an answer of one kind to what follows it. Learned once for each template and kind. */
export interface Joint {
  /** Ids of the marker as it stands at an answer's end. */
  readonly marker: Uint32Array;
  /** What an answer of this kind still has after the marker: the model samples it, e.g. the end of a tool call. */
  readonly closing: Uint32Array;
  /**
   * Ids after the answer that are the template's own: the end of the turn and the head of the next one. Only these can
   * have been sampled already, as the stop token.
   */
  readonly openingLength: number;
}

/** Renderings of one short conversation that differ in one place each. */
export interface JointRenderings {
  /** user, answer with the marker, next message with the marker. */
  readonly base: Uint32Array;
  /** The answer has another marker. */
  readonly otherAnswer: Uint32Array;
  /** The next message has another marker; null where nothing follows the answer. */
  readonly otherNext: Uint32Array | null;
  /** The marker stands in a plain text answer; null where the answer is one. */
  readonly asText: Uint32Array | null;
}

/** Null where the template shows no trace of the answer. */
export function learnJoint({ base, otherAnswer, otherNext, asText }: JointRenderings): Joint | null {
  const start = commonPrefix(base, otherAnswer);
  const after = Math.min(commonSuffix(base, otherAnswer), base.length - start);
  const end = base.length - after;
  if (end === start) return null;
  const rest = base.subarray(end);
  // What a text answer has after it too is the template's; what it lacks closes the answer.
  const closingLength = asText === null ? 0 : rest.length - commonSuffix(rest, asText);
  const opening = (otherNext === null ? base.length : commonPrefix(base, otherNext)) - end - closingLength;
  return {
    marker: base.slice(start, end),
    closing: rest.slice(0, closingLength),
    openingLength: Math.max(0, opening),
  };
}

export interface Splice {
  /** The messages before the answer, closed, without reasoning. */
  readonly before: Uint32Array;
  /** All messages with the marker in the answer's place, without reasoning. */
  readonly marked: Uint32Array;
  readonly joint: Joint;
  /** The last ids that the parent generated. */
  readonly generated: Uint32Array;
  /** The parent's answer did not come to its own end (`length`, aborted): nothing of the turn's end was sampled. */
  readonly cutOff: boolean;
}

export type Spliced =
  | { readonly kind: "carried"; readonly ids: Uint32Array }
  /** In words, for the call's record. */
  | { readonly kind: "no_join"; readonly why: string };

/** What the child carries after its parent's sequence. */
export function spliceAfter({ before, marked, joint, generated, cutOff }: Splice): Spliced {
  const at = indexOfIds(marked, joint.marker, 0);
  if (at === -1) return noJoin("the answer is not found in the rendering");
  const joinAt = at + joint.marker.length + joint.closing.length;
  if (indexOfIds(marked, joint.marker, at + 1) !== -1) return noJoin("the rendering shows the answer twice");
  const same = commonPrefix(before, marked);
  if (same < before.length) {
    return noJoin(`the renderings part at token ${same} before the join at ${joinAt}`);
  }
  const closing = marked.subarray(at + joint.marker.length, joinAt);
  if (commonPrefix(closing, joint.closing) < joint.closing.length) {
    return noJoin(`the rendered answer does not close at token ${at + joint.marker.length} as it should`);
  }
  const rest = marked.subarray(joinAt);
  const overlap = cutOff ? 0 : overlapOf(generated, rest.subarray(0, joint.openingLength));
  return { kind: "carried", ids: rest.slice(overlap) };
}

function noJoin(why: string): Spliced {
  return { kind: "no_join", why };
}

/** The longest end of `ids` that `next` starts with. */
export function overlapOf(ids: Uint32Array, next: Uint32Array): number {
  for (let length = Math.min(ids.length, next.length); length > 0; length--) {
    if (commonPrefix(ids.subarray(ids.length - length), next) >= length) return length;
  }
  return 0;
}

export function commonPrefix(one: Uint32Array, other: Uint32Array): number {
  const end = Math.min(one.length, other.length);
  let length = 0;
  while (length < end && one[length] === other[length]) length += 1;
  return length;
}

function commonSuffix(one: Uint32Array, other: Uint32Array): number {
  const end = Math.min(one.length, other.length);
  let length = 0;
  while (length < end && one[one.length - 1 - length] === other[other.length - 1 - length]) length += 1;
  return length;
}

/** Index of the first place at or after `from` where `wanted` stands in `ids`; -1 where there is none. */
function indexOfIds(ids: Uint32Array, wanted: Uint32Array, from: number): number {
  const bytes = tokenBytes(ids);
  const needle = tokenBytes(wanted);
  let at = bytes.indexOf(needle, from * 4);
  // A hit that is not on a word's edge is no hit.
  while (at !== -1 && at % 4 !== 0) at = bytes.indexOf(needle, at + 1);
  return at === -1 ? -1 : at / 4;
}

export function joinIds(...parts: readonly Uint32Array[]): Uint32Array {
  const joined = new Uint32Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
