// When a policy compacts. A schedule looks at what a policy looks at and says yes or no; `scheduled` puts one before any
// policy. Policies of this room take one as `when`.
import { wholeFromOne } from "./numbers.ts";
import { sizeOf } from "./units.ts";
import type { Policy, PolicyInput } from "./policy.ts";

/** Contract: must not throw for a valid history; the same answer for the same input. */
export type Schedule = (input: PolicyInput) => boolean | Promise<boolean>;

export function always(): Schedule {
  return () => true;
}

/** After n accepted actions since the last rewrite. */
export function afterActions(n: number): Schedule {
  wholeFromOne("afterActions", n);
  return ({ actionsSinceRewrite }) => actionsSinceRewrite >= n;
}

/** Where the view that goes on has more than n tokens, by the engine's tokenizer. Far below it nothing is counted. */
export function overTokens(n: number): Schedule {
  wholeFromOne("overTokens", n);
  return async (input) => (await tokensAbove(input, n)) !== null;
}

/** Where the engine refused the view that goes on as longer than its context. */
export function whenFull(): Schedule {
  return ({ contextFull }) => contextFull;
}

/** Where the agent asked for it, with `conversation.compact()`. */
export function onDemand(): Schedule {
  return ({ demanded }) => demanded;
}

/** Where any of them says yes. */
export function anyOf(...schedules: readonly Schedule[]): Schedule {
  return async (input) => {
    for (const schedule of schedules) if (await schedule(input)) return true;
    return false;
  };
}

/** The policy's view where the schedule says so, else the view that goes on. */
export function scheduled(schedule: Schedule, policy: Policy): Policy {
  return async (input) => ((await schedule(input)) ? policy(input) : input.continued);
}

/** Tokens of the view that goes on where they are more than n, else null. */
export async function tokensAbove(input: PolicyInput, n: number): Promise<number | null> {
  const usage = input.accepted.at(-1)?.usage ?? null;
  // No token is shorter than a byte, and a template adds less to a message than its JSON does.
  const grown = sizeOf(input.observation) * BYTES_A_CHARACTER + MARKS;
  const goesOn = input.continued.length > input.observation.length + 1;
  if (usage !== null && goesOn && usage.promptTokens + usage.completionTokens + grown <= n) return null;
  const tokens = await input.count(input.continued);
  return tokens > n ? tokens : null;
}

const BYTES_A_CHARACTER = 3;
const MARKS = 64;
