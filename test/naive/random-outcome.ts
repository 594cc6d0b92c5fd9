// Random outcomes of a rollout that was played: right ones more often than wrong ones, each wrong in one or two ways.
import * as fc from "fast-check";
import type { PlayedCall } from "./random-trace.ts";

const FORMS: readonly string[] =
  "accepted,accepted,accepted,accepted,all,final,final,final,both,both,loose,loose final,loose both,empty,repeated,neither,infer,infer,failed,silent".split(
    ",",
  );

export interface OutcomePlan {
  readonly form: string;
  /** Whether each call is kept. */
  readonly keeps: readonly boolean[];
  /** Whether each reference is by response id. */
  readonly byResponse: readonly boolean[];
  /** Calls that a loose outcome names, counted from the first; past the last: nobody. */
  readonly loose: readonly number[];
  readonly inLineOrder: boolean;
  readonly alsoFails: boolean;
  readonly reward: number | null | undefined;
}

export const planOutcome: fc.Arbitrary<OutcomePlan> = fc.record({
  form: fc.constantFrom(...FORMS),
  keeps: fc.array(fc.boolean(), { minLength: 9, maxLength: 9 }),
  byResponse: fc.array(fc.boolean(), { minLength: 9, maxLength: 9 }),
  loose: fc.array(fc.nat(9), { minLength: 1, maxLength: 4 }),
  inLineOrder: fc.boolean(),
  alsoFails: fc.constantFrom(...Array.from({ length: 19 }, () => false), true),
  reward: fc.oneof(
    { arbitrary: fc.constantFrom<number | null | undefined>(1, 0, 0.5, -0.25), weight: 14 },
    { arbitrary: fc.constantFrom(null, undefined), weight: 1 },
  ),
});

/** The outcome's own fields; null where the rollout says nothing at its end. */
export function playOutcome(
  plan: OutcomePlan,
  calls: readonly PlayedCall[],
): Readonly<Record<string, unknown>> | null {
  if (plan.form === "silent") return null;
  return {
    ...(plan.reward === undefined ? {} : { reward: plan.reward }),
    ...formOf(plan, calls),
    ...(plan.alsoFails ? { failed: "the sandbox went away" } : {}),
  };
}

function formOf(plan: OutcomePlan, calls: readonly PlayedCall[]): Record<string, unknown> {
  const sound = calls.filter((call) => call.sound);
  const kept = sound.filter((_call, index) => plan.form === "all" || plan.keeps[index] === true);
  if (kept.length === 0 && sound[0] !== undefined) kept.push(sound[0]);
  if (!plan.inLineOrder) kept.reverse();
  const accepted = kept.map((call, index) => referTo(call, plan.byResponse[index] === true));
  const last = sound.at(-1);
  const loose = plan.loose.map((index) => referTo(calls[index], plan.byResponse[index] === true));
  switch (plan.form) {
    case "accepted":
    case "all":
      return { accepted };
    case "final":
      return { final: referTo(last, plan.byResponse[0] === true) };
    case "both":
      return { accepted, final: referTo(kept.at(-1), plan.byResponse[0] === true) };
    case "loose":
      return { accepted: loose };
    case "repeated":
      return { accepted: [...accepted, referTo(kept[0], plan.byResponse[0] !== true)] };
    case "loose final":
      return { final: loose[0] };
    case "loose both":
      return { accepted, final: loose[0] };
    case "empty":
      return { accepted: [], ...(plan.inLineOrder ? { final: loose[0] } : {}) };
    case "infer":
      return { infer: true };
    case "failed":
      return { failed: "the agent gave up", ...(plan.inLineOrder ? { accepted } : {}) };
    default:
      return {};
  }
}

function referTo(call: PlayedCall | undefined, byResponse: boolean): string {
  if (call === undefined) return "resp-nobody";
  return byResponse ? (call.responseId ?? call.callId) : call.callId;
}
