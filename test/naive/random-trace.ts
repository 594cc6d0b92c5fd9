// Random traces over small alphabets, so that sequences collide: twins, prefixes of prefixes, retries, forks, calls in
// flight together, rewrites, other images, half answers, empty answers, and outcomes right and wrong. A trace is
// played from a plan of small numbers, which is what fast-check shrinks. `features.ts` measures that nothing is rare.
import type * as fc from "fast-check";
import { playOutcome } from "./random-outcome.ts";
import { anyCalls, tracePlan, type CallPlan, type TracePlan } from "./random-plan.ts";

export type TraceLine = Readonly<Record<string, unknown>>;

export interface PlayedCall {
  readonly callId: string;
  readonly responseId: string | null;
  readonly prompt: readonly number[];
  readonly generated: readonly number[];
  readonly media: readonly string[];
  /** Stands in the forest and may train. */
  readonly sound: boolean;
  readonly admittedAt: number;
  readonly committedAt: number;
}

/** A random trace: parsed lines in the trace format. */
export const randomTrace: fc.Arbitrary<readonly TraceLine[]> = tracePlan.map(playTrace);

/** A random trace whose calls all tell their times, so that many are in flight together. */
export const timedTrace: fc.Arbitrary<readonly TraceLine[]> = tracePlan.map((plan) =>
  playTrace({ ...plan, timed: true }),
);

/** One rollout whose prompts have nothing to do with one another but by chance, all in flight at any time. */
export const anyPromptTrace: fc.Arbitrary<readonly TraceLine[]> = anyCalls.map((calls) => {
  const lines = calls.map((call, index) => ({
    type: "call",
    rollout_id: "r0",
    call_id: `c${String(index)}`,
    response_id: `resp-c${String(index)}`,
    prompt_token_ids: call.prompt,
    generated_token_ids: call.generated,
    generated_logprobs: call.generated.map(() => -0.5),
    ...(call.media.length > 0 ? { media_digests: call.media } : {}),
    ...(call.name === undefined ? {} : { parent_call_id: call.name }),
    admitted_at: call.admittedAt,
    committed_at: call.admittedAt + call.durationS,
  }));
  const accepted = lines.filter((_line, index) => calls[index]?.kept).map((line) => line.call_id);
  return [...lines, { type: "outcome", rollout_id: "r0", reward: 1, accepted }];
});

/** The seed of a property run: `COPPICE_SEED` where it is set, printed either way. */
export function seedOf(property: string): number {
  const given = process.env["COPPICE_SEED"];
  const seed = given === undefined ? Date.now() % 2 ** 31 : Number(given);
  if (!Number.isInteger(seed))
    throw new Error(`COPPICE_SEED is ${JSON.stringify(given)}; it must be an integer`);
  console.log(`${property}: COPPICE_SEED=${String(seed)}`);
  return seed;
}

export function playTrace(plan: TracePlan): readonly TraceLine[] {
  const keyed: { readonly key: number; readonly line: TraceLine }[] = [];
  const outcomes: TraceLine[] = [];
  const groupSizes = new Map<string, number>();
  for (const [index, rollout] of plan.rollouts.entries()) {
    const rolloutId = `r${String(index)}`;
    const calls: PlayedCall[] = [];
    for (const [place, callPlanned] of rollout.calls.entries()) {
      const step = rollout.tidy ? tidied(callPlanned, place) : callPlanned;
      const [call, line] = playCall(rollout.clean ? cleaned(step) : step, calls, index);
      calls.push(call);
      // Without times the order of a rollout's lines must stay; rollouts interleave either way.
      keyed.push({
        key: plan.timed ? callPlanned.lineKey : place * 10 + index,
        line: timedLine(line, call, plan),
      });
    }
    const outcome = playOutcome(rollout.outcome, calls);
    if (outcome === null) continue;
    outcomes.push({
      type: "outcome",
      rollout_id: rolloutId,
      ...groupOf(rollout.group, groupSizes),
      ...outcome,
    });
  }
  keyed.sort((one, other) => one.key - other.key);
  return [...keyed.map(({ line }) => ({ ...line, rollout_id: line["rollout_id"] })), ...outcomes];
}

function groupOf(group: string | null, sizes: Map<string, number>): Record<string, unknown> {
  if (group === null) return {};
  const index = sizes.get(group) ?? 0;
  sizes.set(group, index + 1);
  return { group_id: group, generation_index: index };
}

/** One conversation that goes on from its last answer, now and then asked twice. */
function tidied(plan: CallPlan, place: number): CallPlan {
  const shape = place > 0 && plan.shape !== "ask again" && plan.shape !== "twin" ? "go on" : plan.shape;
  const target = shape === "ask again" ? plan.target % 2 : 0;
  return {
    ...plan,
    shape,
    target,
    newMedia: [],
    waits: true,
    generated: plan.generated.length > 0 ? plan.generated : [1],
  };
}

function cleaned(plan: CallPlan): CallPlan {
  return {
    ...plan,
    status: plan.status === "aborted" ? "aborted" : "committed",
    fault: "none",
    stolenId: false,
  };
}

function timedLine(line: TraceLine, call: PlayedCall, plan: TracePlan): TraceLine {
  return plan.timed ? { ...line, admitted_at: call.admittedAt, committed_at: call.committedAt } : line;
}

/** Prompt and answer as the shape says; a target that does not exist makes a fresh start. */
function shapeTokens(
  plan: CallPlan,
  target: PlayedCall | undefined,
): { readonly prompt: readonly number[]; readonly generated: readonly number[] } {
  const fresh = { prompt: [7, ...plan.carried], generated: plan.generated };
  if (target === undefined) return fresh;
  const sequence = [...target.prompt, ...target.generated];
  switch (plan.shape) {
    case "go on":
      return { prompt: [...sequence, ...plan.carried], generated: plan.generated };
    case "ask again":
      return { prompt: target.prompt, generated: plan.generated };
    case "twin":
      return { prompt: target.prompt, generated: target.generated };
    case "split twin":
      return { prompt: sequence.slice(0, -1), generated: sequence.slice(-1) };
    case "rewrite":
      return {
        prompt: [...sequence.slice(0, 1 + plan.carried.length), ...plan.carried],
        generated: plan.generated,
      };
    case "fresh":
      return fresh;
  }
}

function playCall(
  plan: CallPlan,
  calls: readonly PlayedCall[],
  rollout: number,
): readonly [PlayedCall, TraceLine] {
  const target = calls.length === 0 ? undefined : calls[calls.length - 1 - (plan.target % calls.length)];
  const callId = `c${String(rollout * 100 + calls.length)}`;
  const admittedAt = (plan.waits ? (target?.committedAt ?? 0) : (calls.at(-1)?.admittedAt ?? 0)) + plan.gap;
  const call: PlayedCall = {
    callId,
    responseId: plan.stolenId ? (calls[plan.gap]?.callId ?? null) : `resp-${callId}`,
    ...shapeTokens(plan, target),
    media: [...(plan.dropsMedia ? [] : (target?.media ?? [])), ...plan.newMedia],
    sound: hasTokens(plan) && plan.fault === "none",
    admittedAt,
    committedAt: admittedAt + plan.duration,
  };
  const named = nameOf(plan, target, calls);
  const line = { type: "call", rollout_id: `r${String(rollout)}`, ...lineOf(plan, call), ...named };
  return [call, line];
}

function hasTokens(plan: CallPlan): boolean {
  return plan.status === "committed" || plan.status === "aborted";
}

function lineOf(plan: CallPlan, call: PlayedCall): TraceLine {
  const tokens = {
    prompt_token_ids: call.prompt,
    generated_token_ids: call.generated,
    generated_logprobs: logprobsOf(plan, call.generated),
  };
  return {
    call_id: call.callId,
    ...(call.responseId === null ? {} : { response_id: call.responseId }),
    ...(hasTokens(plan) ? tokens : {}),
    weight_version: "3",
    finish_reason: "stop",
    ...(plan.status === "committed" || plan.status === "no tokens" ? {} : { status: plan.status }),
    ...(plan.fault === "told" ? { untrainable: "counts differ" } : {}),
    ...(call.media.length > 0 ? { media_digests: call.media } : {}),
    ...(plan.callClass === null ? {} : { class: plan.callClass }),
  };
}

function nameOf(
  plan: CallPlan,
  target: PlayedCall | undefined,
  calls: readonly PlayedCall[],
): Record<string, unknown> {
  const another = calls[plan.gap % Math.max(1, calls.length)];
  switch (plan.name) {
    case "nobody":
      return {};
    case "target":
      return target === undefined ? {} : { parent_call_id: target.callId };
    case "target by response":
      return target?.responseId ? { parent_call_id: target.responseId } : {};
    case "another":
      return another === undefined ? {} : { parent_call_id: another.callId };
    case "unheard of":
      return { parent_call_id: "resp-nobody" };
  }
}

/** Log-probs that tell which token they belong to; -0.1 is no float32, so rounding shows. */
function logprobsOf(plan: CallPlan, generated: readonly number[]): readonly number[] {
  const logprobs = generated.map((id, index) => -0.1 * id - 0.25 * index);
  if (plan.fault === "short logprobs") return logprobs.slice(0, -1);
  if (plan.fault === "masked logprob")
    return logprobs.map((logprob, index) => (index === 0 ? -9999 : logprob));
  return logprobs;
}
