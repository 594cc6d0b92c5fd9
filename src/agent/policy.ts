// Compaction policies. A policy turns the history into a view, the messages of the next request. It only chooses:
// what it is given is frozen, and what it returns is checked (view.ts), so that history cannot be edited.

import { AgentError } from "./agent-error.ts";
import type { Answer } from "./answer.ts";
import type { ChatMessage } from "./chat-client.ts";

/** What a policy may look at. Later versions may tell more; a policy that reads less goes on working. */
export interface PolicyInput {
  /** All that was said: the head, then observations and accepted answers in order, the next observation last. */
  readonly history: readonly ChatMessage[];
  /** The first messages of the history: system message and task. */
  readonly head: readonly ChatMessage[];
  /** The observation that the next call is asked with; empty where there is none. It ends the history. */
  readonly observation: readonly ChatMessage[];
  /** The accepted answers in order, with their token counts. */
  readonly accepted: readonly Answer[];
  /**
   * The view that goes on from the last accepted answer: what it was asked with, the answer, then the observation.
   * Before the first accepted answer it is the history. Returning it keeps the tree going; anything else is a rewrite.
   */
  readonly continued: readonly ChatMessage[];
}

/**
 * Chooses the view.
 * Contract: must not throw for a valid history, and gives the same view for the same input. It may take its time
 * (ask a model for a summary), so it may return a promise. It is asked once for each new observation; a retry without
 * a new observation asks again from the same view.
 */
export type Policy = (input: PolicyInput) => readonly ChatMessage[] | Promise<readonly ChatMessage[]>;

/** No compaction: the view is the whole history. */
export function none(): Policy {
  return ({ history }) => history;
}

export interface EveryActionsOptions {
  /**
   * What stands in the cut-back view beside the head: `task` (the default) nothing, `observation` the newest
   * observation too. A tool's result cannot be kept without its call: such a view is refused as `invalid_view`.
   */
  readonly keep?: "task" | "observation";
  /** Text told as a user message after the head, e.g. what was done so far. It sees all before the observation. */
  readonly summary?: (history: readonly ChatMessage[]) => string;
}

/**
 * After every `n` accepted actions the view is cut back to the head; the actions that follow go on from there.
 * Throws `invalid_argument` unless n is a whole number from 1 up.
 */
export function everyActions(n: number, options: EveryActionsOptions = {}): Policy {
  if (!Number.isSafeInteger(n) || n < 1) {
    throw new AgentError("invalid_argument", `everyActions got ${n}; it must be a whole number from 1 up`);
  }
  return ({ history, head, observation, accepted, continued }) => {
    if (accepted.length === 0 || accepted.length % n !== 0) return continued;
    const view = [...head];
    if (options.summary !== undefined) {
      const before = history.slice(0, history.length - observation.length);
      view.push({ role: "user", content: options.summary(before) });
    }
    return options.keep === "observation" ? [...view, ...observation] : view;
  };
}
