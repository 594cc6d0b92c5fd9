// Compaction policies. A policy turns the history into a view, the messages of the next request. It only chooses:
// what it is given is frozen, and what it returns is checked (view.ts), so that history cannot be edited.

import type { Answer } from "./answer.ts";
import type { ChatClient, ChatMessage, RequestFields } from "./chat-client.ts";
import { wholeFromOne } from "./numbers.ts";

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
  /** Actions accepted since the view was last rewritten; all of them where it never was. */
  readonly actionsSinceRewrite: number;
  /** The engine refused `continued` as longer than its context: only a shorter view can be asked. */
  readonly contextFull: boolean;
  /** The agent asked for compaction, with `conversation.compact()`. */
  readonly demanded: boolean;
  /** Tokens of these messages as a prompt, the conversation's tools with them, by the engine's tokenizer and template. */
  readonly count: (messages: readonly ChatMessage[]) => Promise<number>;
  /**
   * Asks a model for the policy itself. Through the conversation's client the call is part of the rollout's record, with
   * the class `compaction`; it trains only where `train` says so and an answer to the rewritten view is had.
   */
  readonly call: (messages: readonly ChatMessage[], options?: PolicyCallOptions) => Promise<Answer>;
}

export interface PolicyCallOptions {
  readonly train?: boolean;
  /** Another model of the gateway's; by default the conversation's own. */
  readonly model?: string;
  /** Another client: its calls are in no record, unless it goes to the gateway too. */
  readonly client?: ChatClient;
  readonly request?: RequestFields;
}

/**
 * Chooses the view.
 * Contract: must not throw for a valid history, and gives the same view for the same input. It may take its time
 * (ask a model for a summary), so it may return a promise. It is asked once for each new observation; a retry without
 * a new observation asks again from the same view.
 */
export type Policy = (input: PolicyInput) => readonly ChatMessage[] | Promise<readonly ChatMessage[]>;

/** No compaction: the view goes on from the last answer, so it is the whole history. */
export function none(): Policy {
  return ({ continued }) => continued;
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
  wholeFromOne("everyActions", n);
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
