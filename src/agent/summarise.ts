// The policy that has a model sum up what was done and goes on from the summary. The summary is a call of the policy: it
// is asked with the view that goes on and an instruction after it, so that it hangs in the tree that it ends.
import type { ChatMessage } from "./chat-client.ts";
import { wholeFromZero } from "./numbers.ts";
import type { Policy, PolicyCallOptions } from "./policy.ts";
import { afterActions, type Schedule } from "./schedule.ts";
import { sizeOf, unitsOf } from "./units.ts";

export interface SummariseOptions extends PolicyCallOptions {
  /** By default after 10 actions. */
  readonly when?: Schedule;
  /** The user message that asks for the summary. */
  readonly instruction?: string;
  /** Text before the summary in the message that tells it. */
  readonly preface?: string;
  /** The newest actions that stand after the summary as they were; 0 by default. */
  readonly keepLast?: number;
}

const INSTRUCTION =
  "Sum up what was done and found so far, and what is left to do, so that the work can go on from your summary alone.";
const PREFACE = "What was done so far:\n";

/**
 * Goes on from system message, task, summary and the last actions. Where that would be longer than the view that goes on,
 * nothing is rewritten; the summary's call is then recorded and does not train.
 */
export function summarise(options: SummariseOptions = {}): Policy {
  const { when = afterActions(10), instruction = INSTRUCTION, preface = PREFACE, ...rest } = options;
  const { keepLast = 0, ...call } = rest;
  wholeFromZero("summarise.keepLast", keepLast);
  return async (input) => {
    const { continued, head, observation } = input;
    if (!(await when(input))) return continued;
    const { head: kept, units } = unitsOf(continued, head);
    const asked: ChatMessage = { role: "user", content: instruction };
    // What does not fit cannot be summed up either: the newest observation is left to the next view.
    const seen = input.contextFull ? withoutLast(continued, observation, units) : continued;
    if (seen.length <= kept.length) return continued;
    const summary = await input.call([...seen, asked], call);
    const told: ChatMessage = { role: "user", content: preface + summary.text };
    const tail = keepLast === 0 ? newest(observation) : units.slice(-keepLast).flat();
    const view = [...kept, told, ...tail];
    return sizeOf(view) <= sizeOf(continued) ? view : continued;
  };
}

/** A tool's result cannot stand without its call; the summary tells it. */
function newest(observation: readonly ChatMessage[]): readonly ChatMessage[] {
  return observation.filter(({ role }) => role !== "tool");
}

function withoutLast(
  continued: readonly ChatMessage[],
  observation: readonly ChatMessage[],
  units: readonly (readonly ChatMessage[])[],
): readonly ChatMessage[] {
  const last = units.at(-1) ?? [];
  return observation.some(({ role }) => role === "tool")
    ? continued.slice(0, continued.length - last.length)
    : continued.slice(0, continued.length - observation.length);
}
