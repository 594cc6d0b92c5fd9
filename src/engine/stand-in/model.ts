// The stand-in's model: which id comes next and how likely an id is after the ids before it. Likelihood depends on the
// ids before and on nothing else, so what was told when sampling is what re-scoring tells.
import { createHash } from "node:crypto";

/** Ids that are generated lie in [FIRST, FIRST + COUNT): words of the tokenizer. */
export const FIRST_GENERATED = 1_000;
export const GENERATED_IDS = 50_000;
/** What counters mode has told is remembered for so many tokens. */
const MAX_REMEMBERED = 1_000_000;

export type ModelMode = "counters" | "sampler";

/** A running hash of ids. */
export interface Context {
  readonly a: number;
  readonly b: number;
  /** Generated words directly before this place; only counters mode needs it. */
  readonly run: number;
}

const START: Context = { a: 0x9e3779b1, b: 0x85ebca6b, run: 0 };

export function extendContext(context: Context, id: number): Context {
  const generated = id >= FIRST_GENERATED && id < FIRST_GENERATED + GENERATED_IDS;
  return { a: mix(context.a, id), b: mix(context.b ^ 0x5bd1e995, id), run: generated ? context.run + 1 : 0 };
}

export function contextOf(ids: ArrayLike<number>): Context {
  let { a, b, run } = START;
  for (let index = 0; index < ids.length; index++) {
    const id = ids[index] as number;
    a = mix(a, id);
    b = mix(b ^ 0x5bd1e995, id);
    run = id >= FIRST_GENERATED && id < FIRST_GENERATED + GENERATED_IDS ? run + 1 : 0;
  }
  return { a, b, run };
}

/** 32 bits of two numbers (finalizer of MurmurHash3). */
export function mix(one: number, other: number): number {
  let hash = Math.imul(one ^ other, 0x85ebca6b) + other;
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) | 0;
}

/** 32 bits of anything that has a text. */
export function hashText(text: string): number {
  return createHash("sha1").update(text).digest().readInt32LE(0);
}

export class Model {
  readonly #mode: ModelMode;
  readonly #remembered = new Map<number, number>();

  constructor(mode: ModelMode) {
    this.#mode = mode;
  }

  /** The log-prob of a token as it is sampled, the `place`-th of its answer; a float32. */
  sampled(context: Context, id: number, place: number): number {
    if (this.#mode === "sampler") return likelihood(context, id);
    const logprob = -0.25 * (place + 1);
    // After a generated word that no observation parts from this one, the rule for re-scoring would tell another.
    if (logprob !== this.#byRun(context) && this.#remembered.size < MAX_REMEMBERED) {
      this.#remembered.set(keyOf(context, id), logprob);
    }
    return logprob;
  }

  /** The log-prob of a token that stands in a prompt. */
  rescored(context: Context, id: number): number {
    if (this.#mode === "sampler") return likelihood(context, id);
    return this.#remembered.get(keyOf(context, id)) ?? this.#byRun(context);
  }

  #byRun(context: Context): number {
    return -0.25 * (context.run + 1);
  }

  /** A word for the place after `context`, by `salt`. */
  next(context: Context, salt: number): number {
    return FIRST_GENERATED + ((mix(context.a, salt) >>> 0) % GENERATED_IDS);
  }
}

/** In (-3, 0], as a float32 has it. */
function likelihood(context: Context, id: number): number {
  return Math.fround(-3 * ((mix(context.b, id) >>> 0) / 0x1_0000_0000));
}

/** 53 bits, as one exact number. */
function keyOf(context: Context, id: number): number {
  return (mix(context.a, id) >>> 0) * 0x200000 + (mix(context.b, id) >>> 11);
}
