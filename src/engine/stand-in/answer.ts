// What the stand-in generates for one choice: planned ids with what each adds to the message, then log-probs, limits
// and stop strings. Everything a response tells, streamed or whole, is made from the tokens here.
import type { Context, Model } from "./model.ts";
import { extendContext } from "./model.ts";
import { toolCallParts, type TurnEnds } from "./template.ts";
import { PieceReader, specialId, type Tokenizer } from "./tokenizer.ts";

export interface ScriptedToolCall {
  /** Made up where it is not given. */
  readonly id?: string;
  readonly name: string;
  /** JSON, as a text. */
  readonly arguments: string;
}

type NamedToolCall = ScriptedToolCall & { readonly id: string };

/** An answer that a test or a demo wants to be given. */
export interface ScriptedAnswer {
  readonly reasoning?: string;
  readonly content?: string;
  readonly toolCalls?: readonly ScriptedToolCall[];
}

/** Where the text of a token goes. */
type Channel =
  | { readonly kind: "none" }
  | { readonly kind: "content" | "reasoning" }
  | { readonly kind: "tool_name" | "tool_arguments"; readonly call: NamedToolCall; readonly index: number };

export interface PlannedToken {
  readonly id: number;
  readonly channel: Channel;
}

export interface Plan {
  readonly tokens: readonly PlannedToken[];
  /** Finish reason where nothing cuts the plan short. */
  readonly finishReason: string;
}

export type Delta = Readonly<Record<string, unknown>>;

export interface GeneratedToken {
  readonly id: number;
  readonly logprob: number;
  /** Text as a log-prob entry tells it. */
  readonly text: string;
  readonly delta: Delta;
  /** What the token was sampled after; for its alternatives. */
  readonly context: Context;
}

export interface Generated {
  readonly index: number;
  readonly tokens: readonly GeneratedToken[];
  readonly finishReason: string;
  readonly stopReason: string | number | null;
}

const NONE: Channel = { kind: "none" };

/** Plans for given content words; `turnEnd` is sampled after them where there is one. */
export function planWords(ids: readonly number[], turnEnd: number | null): Plan {
  const tokens: PlannedToken[] = ids.map((id) => ({ id, channel: { kind: "content" } }));
  return {
    tokens: turnEnd === null ? tokens : [...tokens, { id: turnEnd, channel: NONE }],
    finishReason: "stop",
  };
}

/** Plans a scripted answer; tool calls without an id get one that starts with `idPrefix`. */
export function planAnswer(
  answer: ScriptedAnswer,
  tokenizer: Tokenizer,
  options: { readonly turnEnds: TurnEnds; readonly idPrefix: string },
): Plan {
  const tokens: PlannedToken[] = [];
  const add = (ids: readonly number[], channel: Channel): void => {
    for (const id of ids) tokens.push({ id, channel });
  };
  if (answer.reasoning !== undefined && answer.reasoning !== "") {
    add([specialId("<think>")], NONE);
    add(tokenizer.tokenize(answer.reasoning), { kind: "reasoning" });
    add([specialId("</think>")], NONE);
  }
  add(tokenizer.tokenize(answer.content ?? ""), { kind: "content" });
  const calls = answer.toolCalls ?? [];
  calls.forEach((scripted, index) => {
    const call = { ...scripted, id: scripted.id ?? `${options.idPrefix}${index}` };
    const parts = toolCallParts(call.name, call.arguments, tokenizer);
    add(parts.head.slice(0, -1), NONE);
    // The name is known once the head is whole.
    add(parts.head.slice(-1), { kind: "tool_name", call, index });
    add(parts.given, { kind: "tool_arguments", call, index });
    add(parts.tail, NONE);
  });
  const turnEnd = calls.length > 0 ? options.turnEnds.afterTools : options.turnEnds.afterText;
  if (turnEnd !== null) tokens.push({ id: turnEnd, channel: NONE });
  return { tokens, finishReason: calls.length > 0 ? "tool_calls" : "stop" };
}

export interface Limits {
  readonly maxTokens: number;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  readonly includeStop: boolean;
}

/** Samples the plan after `context`, until it ends, a limit is met, or a stop string or id comes. */
export function generate(
  plan: Plan,
  limits: Limits,
  from: {
    readonly index: number;
    readonly context: Context;
    readonly model: Model;
    readonly tokenizer: Tokenizer;
  },
): Generated {
  const texts = new DeltaTexts(from.tokenizer, limits);
  const tokens: GeneratedToken[] = [];
  let { context } = from;
  let finishReason: string | null = null;
  let stopReason: string | number | null = null;
  for (const [place, { id, channel }] of plan.tokens.entries()) {
    if (place === limits.maxTokens) {
      finishReason = "length";
      break;
    }
    const logprob = from.model.sampled(context, id, place);
    const last = place === plan.tokens.length - 1 || place === limits.maxTokens - 1;
    const { text, delta, stopped } = texts.next(id, channel, last);
    tokens.push({ id, logprob, text, delta, context });
    context = extendContext(context, id);
    if (stopped !== null || limits.stopTokenIds.includes(id)) {
      finishReason = "stop";
      stopReason = stopped ?? id;
      break;
    }
  }
  return { index: from.index, tokens, finishReason: finishReason ?? plan.finishReason, stopReason };
}

/** Texts and deltas, token by token. Content lags behind where a stop string might still be coming, as vLLM has it. */
class DeltaTexts {
  readonly #all: PieceReader;
  readonly #content: PieceReader;
  readonly #reasoning: PieceReader;
  #arguments: PieceReader;
  readonly #tokenizer: Tokenizer;
  readonly #limits: Limits;
  readonly #heldBack: number;
  #text = "";
  #told = 0;

  constructor(tokenizer: Tokenizer, limits: Limits) {
    this.#all = new PieceReader(tokenizer);
    this.#content = new PieceReader(tokenizer);
    this.#reasoning = new PieceReader(tokenizer);
    this.#arguments = new PieceReader(tokenizer);
    this.#tokenizer = tokenizer;
    this.#limits = limits;
    this.#heldBack = Math.max(0, ...limits.stop.map((stop) => stop.length - 1));
  }

  next(
    id: number,
    channel: Channel,
    last: boolean,
  ): { readonly text: string; readonly delta: Delta; readonly stopped: string | null } {
    const text = this.#all.next(id);
    switch (channel.kind) {
      case "content":
        return { text, ...this.#nextContent(id, last) };
      case "reasoning": {
        const piece = this.#reasoning.next(id);
        return { text, delta: piece === "" ? {} : { reasoning: piece }, stopped: null };
      }
      case "tool_name":
        this.#arguments = new PieceReader(this.#tokenizer);
        return { text, delta: toolDelta(channel, { name: channel.call.name }, true), stopped: null };
      case "tool_arguments": {
        const piece = this.#arguments.next(id);
        return {
          text,
          delta: piece === "" ? {} : toolDelta(channel, { arguments: piece }, false),
          stopped: null,
        };
      }
      case "none":
        return { text, delta: last ? this.#contentDelta(this.#text.length) : {}, stopped: null };
    }
  }

  #nextContent(id: number, last: boolean): { readonly delta: Delta; readonly stopped: string | null } {
    this.#text += this.#content.next(id);
    let stopped: string | null = null;
    let end = Infinity;
    for (const stop of this.#limits.stop) {
      const at = this.#text.indexOf(stop);
      if (at === -1 || at >= end) continue;
      end = at;
      stopped = stop;
    }
    if (stopped !== null) {
      this.#text = this.#text.slice(0, this.#limits.includeStop ? end + stopped.length : end);
    }
    const held = last || stopped !== null ? 0 : this.#heldBack;
    return { delta: this.#contentDelta(this.#text.length - held), stopped };
  }

  /** What of the content up to `end` has not been told yet. */
  #contentDelta(end: number): Delta {
    if (end <= this.#told) return {};
    const content = this.#text.slice(this.#told, end);
    this.#told = end;
    return { content };
  }
}

function toolDelta(
  { call, index }: { readonly call: NamedToolCall; readonly index: number },
  target: Delta,
  begins: boolean,
): Delta {
  const head = begins ? { id: call.id, type: "function", index } : { index };
  return { content: null, tool_calls: [{ ...head, function: target }] };
}
