// A streamed chat completion of a vLLM server: frames in, chunks for the client out, and the tokens of each choice
// gathered on the way. Log-probs may come in other chunks than their ids, and chunks with an empty delta carry tokens
// too: everything is appended in the order in which it comes, nothing is dropped or overwritten.
import { CoppiceError } from "../errors.ts";
import { MessageJoiner } from "../dialect/chat.ts";
import { parseEngineJson } from "../dialect/engine-json.ts";
import type { SseEvent } from "../dialect/sse.ts";
import { isRecord } from "../lineage/message.ts";
import { trueFinishReason } from "./completeness.ts";
import type { EngineChoice, EngineChunk } from "./engine.ts";
import { logprobEntries, logprobOf, readTokenIds } from "./told-tokens.ts";
import { choicesOf, completionTokens, type ReadChoice } from "./vllm-answer.ts";
import type { VllmAsked } from "./vllm-request.ts";

export const DONE = "[DONE]";

/**
 * The frames of one event, each a JSON text or `[DONE]`. Some servers end their events with one newline, which by the
 * specification makes one event of many lines: where each line is a frame of its own, they are taken as such.
 */
export function framesOf(event: SseEvent): readonly string[] {
  if (!event.text.includes("\n")) return [event.text];
  const lines = event.text.split("\n").filter((line) => line.trim() !== "");
  return lines.every((line) => line === DONE || isJson(line)) ? lines : [event.text];
}

function isJson(text: string): boolean {
  try {
    return isRecord(parseEngineJson(text, "a line"));
  } catch (error) {
    if (error instanceof CoppiceError) return false;
    throw error;
  }
}

class ChoiceGathering {
  readonly index: number;
  readonly joiner = new MessageJoiner();
  /** Null until the engine has told any. */
  ids: number[] | null = null;
  logprobs: number[] | null = null;
  fault: string | null = null;
  finishReason: string | null = null;

  constructor(index: number) {
    this.index = index;
  }

  generatedLength(): number {
    return this.ids?.length ?? this.logprobs?.length ?? 0;
  }

  /** Takes one choice of a chunk, and takes the ids out of it unless they are kept. */
  take(choice: Record<string, unknown>, asked: VllmAsked): void {
    if (isRecord(choice["delta"])) this.joiner.add(choice["delta"]);
    this.#takeIds(choice["token_ids"]);
    const entries = logprobEntries(choice["logprobs"]);
    if (entries !== null) {
      this.logprobs ??= [];
      for (const entry of entries) this.logprobs.push(logprobOf(entry));
    }
    if (!asked.keepIds && choice["token_ids"] !== undefined) delete choice["token_ids"];
    const told = choice["finish_reason"];
    if (typeof told !== "string") return;
    const generatedLength = this.generatedLength();
    const message = this.joiner.message();
    this.finishReason = trueFinishReason({
      reason: told,
      generatedLength,
      maxTokens: asked.maxTokens,
      message,
    });
    if (this.finishReason !== told) choice["finish_reason"] = this.finishReason;
  }

  #takeIds(told: unknown): void {
    if (told === undefined || told === null) return;
    // Ids that came before the unreadable ones stay, so that their counts can be told.
    this.ids ??= [];
    const { ids, fault } = readTokenIds(told, `choices[${this.index}].token_ids`);
    this.fault ??= fault;
    if (ids !== null) for (const id of ids) this.ids.push(id);
  }

  read(aborted: boolean): ReadChoice {
    // What was stopped before its first token has told that it has none.
    const ids = this.ids ?? (aborted && this.logprobs === null ? [] : null);
    return {
      index: this.index,
      tokenIds: ids === null ? null : Uint32Array.from(ids),
      logprobs: this.logprobs === null ? null : Float32Array.from(this.logprobs),
      fault: this.fault,
      finished: this.finishReason !== null,
      message: this.joiner.message(),
      finishReason: this.finishReason,
    };
  }
}

/** Gathers one streamed answer; frames are taken in order. */
export class StreamGathering {
  readonly #asked: VllmAsked;
  readonly #choices: ChoiceGathering[] = [];
  #promptIds: Uint32Array | null = null;
  #promptFault: string | null = null;
  #usage: Record<string, unknown> | null = null;
  #frames = 0;

  constructor(asked: VllmAsked) {
    this.#asked = asked;
  }

  get promptTokenIds(): Uint32Array | null {
    return this.#promptIds;
  }

  get usage(): Readonly<Record<string, unknown>> | null {
    return this.#usage;
  }

  /** Every choice that has begun has told its finish reason. */
  get finished(): boolean {
    return this.#choices.length > 0 && this.#choices.every((choice) => choice.finishReason !== null);
  }

  /** The JSON of one frame. Throws `engine_error` where it cannot be read. */
  parse(frame: string): Record<string, unknown> {
    this.#frames += 1;
    const json = parseEngineJson(frame, `frame ${this.#frames} of the engine's stream`);
    if (isRecord(json)) return json;
    throw new CoppiceError(
      "engine_error",
      `frame ${this.#frames} of the engine's stream is no object: ${frame}`,
    );
  }

  take(json: Record<string, unknown>): EngineChunk {
    this.#takePrompt(json);
    if (isRecord(json["usage"])) this.#usage = json["usage"];
    let finishes = false;
    for (const choice of Array.isArray(json["choices"]) ? (json["choices"] as unknown[]) : []) {
      if (!isRecord(choice)) continue;
      this.#choiceAt(choice["index"]).take(choice, this.#asked);
      finishes ||= typeof choice["finish_reason"] === "string";
    }
    return { json, terminal: finishes || this.finished };
  }

  #takePrompt(json: Record<string, unknown>): void {
    if (json["prompt_token_ids"] === undefined) return;
    // With several choices each one's first chunk tells the same prompt.
    if (this.#promptIds === null) {
      const { ids, fault } = readTokenIds(json["prompt_token_ids"], "prompt_token_ids");
      this.#promptIds = ids;
      this.#promptFault ??= fault;
    }
    if (!this.#asked.keepIds) delete json["prompt_token_ids"];
  }

  #choiceAt(told: unknown): ChoiceGathering {
    const index = typeof told === "number" ? told : 0;
    const known = this.#choices.find((choice) => choice.index === index);
    if (known !== undefined) return known;
    const choice = new ChoiceGathering(index);
    this.#choices.push(choice);
    this.#choices.sort((one, other) => one.index - other.index);
    return choice;
  }

  choices(ending: "whole" | "aborted" | "broken"): readonly EngineChoice[] {
    return choicesOf(
      this.#choices.map((choice) => choice.read(ending === "aborted")),
      {
        promptTokenIds: this.#promptIds,
        promptFault: this.#promptFault,
        completionTokens: completionTokens(this.#usage),
        ending,
      },
    );
  }
}
