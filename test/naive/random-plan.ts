// What a random trace is played from: small numbers and choices, weighted so that sequences collide and few things
// are wrong at once. fast-check shrinks these; `random-trace.ts` plays them.
import * as fc from "fast-check";
import { planOutcome, type OutcomePlan } from "./random-outcome.ts";

const SHAPES = [
  "go on",
  "go on",
  "go on",
  "ask again",
  "twin",
  "twin",
  "split twin",
  "rewrite",
  "fresh",
] as const;
const NAMES = [
  "nobody",
  "nobody",
  "nobody",
  "target",
  "target by response",
  "another",
  "unheard of",
] as const;
const STATUSES = ["committed", "aborted", "aborted", "aborted", "failed", "unknown", "no tokens"] as const;
const FAULTS = ["none", "told", "short logprobs", "masked logprob"] as const;

export interface CallPlan {
  readonly shape: (typeof SHAPES)[number];
  /** Which earlier call it takes after: 0 is the latest. */
  readonly target: number;
  readonly carried: readonly number[];
  readonly generated: readonly number[];
  readonly name: (typeof NAMES)[number];
  readonly status: (typeof STATUSES)[number];
  readonly fault: (typeof FAULTS)[number];
  readonly newMedia: readonly string[];
  readonly dropsMedia: boolean;
  readonly callClass: string | null;
  /** Its response id is an earlier call's id. */
  readonly stolenId: boolean;
  readonly waits: boolean;
  readonly gap: number;
  readonly duration: number;
  readonly lineKey: number;
}

export interface RolloutPlan {
  readonly tidy: boolean;
  readonly clean: boolean;
  readonly calls: readonly CallPlan[];
  readonly outcome: OutcomePlan;
  readonly group: string | null;
}

export interface TracePlan {
  readonly timed: boolean;
  readonly rollouts: readonly RolloutPlan[];
}

const token = fc.integer({ min: 1, max: 3 });

function mostly<T>(usual: T, others: readonly T[], weight: number): fc.Arbitrary<T> {
  return fc.oneof(
    { arbitrary: fc.constant(usual), weight },
    { arbitrary: fc.constantFrom(...others), weight: 1 },
  );
}

const callPlan: fc.Arbitrary<CallPlan> = fc.record({
  shape: fc.constantFrom(...SHAPES),
  target: fc.oneof({ arbitrary: fc.constant(0), weight: 2 }, { arbitrary: fc.nat(4), weight: 3 }),
  carried: fc.array(token, { maxLength: 2 }),
  generated: fc.oneof(
    { arbitrary: fc.array(token, { minLength: 1, maxLength: 3 }), weight: 6 },
    { arbitrary: fc.constant([]), weight: 1 },
  ),
  name: fc.constantFrom(...NAMES),
  status: mostly<CallPlan["status"]>("committed", STATUSES, 8),
  fault: mostly<CallPlan["fault"]>("none", FAULTS, 12),
  newMedia: fc.oneof(
    { arbitrary: fc.constant([]), weight: 9 },
    { arbitrary: fc.array(fc.constantFrom("aa", "bb"), { minLength: 1, maxLength: 2 }), weight: 1 },
  ),
  dropsMedia: mostly(false, [true], 12),
  callClass: mostly<string | null>(null, ["main", "title", "auxiliary"], 12),
  stolenId: mostly(false, [true], 12),
  waits: mostly(true, [false], 3),
  gap: fc.nat(2),
  duration: fc.constantFrom(0, 0, 1, 2, 5),
  lineKey: fc.nat(1000),
});

const rolloutPlan: fc.Arbitrary<RolloutPlan> = fc.record({
  tidy: fc.boolean(),
  clean: fc.boolean(),
  calls: fc.oneof(
    { arbitrary: fc.array(callPlan, { minLength: 1, maxLength: 9, size: "max" }), weight: 15 },
    { arbitrary: fc.constant([]), weight: 1 },
  ),
  outcome: planOutcome,
  group: fc.constantFrom("group", "group", "group", "other", null),
});

export const tracePlan: fc.Arbitrary<TracePlan> = fc.record({
  timed: fc.boolean(),
  rollouts: fc.array(rolloutPlan, { minLength: 1, maxLength: 4, size: "max" }),
});

const anyId = fc.oneof(
  { arbitrary: fc.nat(2), weight: 3 },
  { arbitrary: fc.constantFrom(0x7fff_ffff, 0x8000_0000, 0xffff_ffff), weight: 1 },
);

/** Calls with any ids of 32 bits whatsoever, prompts of no tokens included, and whatever order of times. */
export const anyCalls: fc.Arbitrary<
  readonly {
    readonly prompt: readonly number[];
    readonly generated: readonly number[];
    readonly media: readonly string[];
    readonly name: string | undefined;
    readonly admittedAt: number;
    readonly durationS: number;
    readonly kept: boolean;
  }[]
> = fc.array(
  fc.record({
    prompt: fc.array(anyId, { maxLength: 6, size: "max" }),
    generated: fc.array(anyId, { maxLength: 3, size: "max" }),
    media: fc.array(fc.constantFrom("", "a", "1:a", "aa"), { maxLength: 2 }),
    name: fc.constantFrom(undefined, "c0", "c1", "resp-c2", "c9"),
    admittedAt: fc.nat(20),
    durationS: fc.nat(5),
    kept: fc.boolean(),
  }),
  { minLength: 1, maxLength: 12, size: "max" },
);
