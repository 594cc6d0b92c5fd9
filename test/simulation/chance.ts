// Numbers out of a seed, and what is to happen when: the simulation's dice and its one clock.

export interface Chance {
  /** At least 0 and below `end`, whole. */
  below(end: number): number;
  /** True so often. */
  in(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
}

/** Mulberry32: 32 bits of state, the same everywhere. */
export function chanceOf(seed: number): Chance {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const below = (end: number): number => Math.floor(next() * end);
  return {
    below,
    in: (probability) => next() < probability,
    pick: <T>(list: readonly T[]): T => list[below(list.length)] as T,
  };
}

type Step = () => Promise<void>;

/** Steps by the time at which they are due; what is due at once may run at once. */
export class Schedule {
  /** Milliseconds since the epoch. */
  now: number;
  #steps: { readonly at: number; readonly step: Step }[] = [];

  constructor(now: number) {
    this.now = now;
  }

  get size(): number {
    return this.#steps.length;
  }

  in(ms: number, step: Step): void {
    this.#steps.push({ at: this.now + ms, step });
  }

  /** The next steps, at most so many, with the clock moved on to them. */
  take(most: number): readonly Step[] {
    // Steps that are due together keep the order in which they were planned.
    this.#steps.sort((one, other) => one.at - other.at);
    const taken = this.#steps.splice(0, most);
    this.now = Math.max(this.now, taken.at(-1)?.at ?? this.now);
    return taken.map(({ step }) => step);
  }
}
