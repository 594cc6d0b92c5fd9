// Answers of vLLM's `/inference/v1/generate`, whole or streamed, read into what was generated. In `text` mode they
// hold the text beside the ids, so a stream can go to the client as it is sampled; in `tokens` mode only ids.
// Shapes as vLLM 0.32.0 writes them.
import { CoppiceError, messageOf } from "../errors.ts";
import type { WeightVersionSpan } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";
import { logprobEntries, logprobOf, readTokenIds } from "./told-tokens.ts";
import type { EngineChunk } from "./engine.ts";
import type { Generated, GeneratedChoice } from "./token-in.ts";
import { readWeightVersions } from "./token-in-reply.ts";

type Json = Readonly<Record<string, unknown>>;

class ChoiceReading {
  readonly index: number;
  readonly #ids: number[] = [];
  readonly #logprobs: number[] = [];
  readonly #entries: unknown[] = [];
  #toldIds = false;
  #toldLogprobs = false;
  #fault: string | null = null;
  #text: string | null = null;
  #weightVersions: readonly WeightVersionSpan[] = [];
  finishReason: string | null = null;
  #stopReason: unknown = null;

  constructor(index: number) {
    this.index = index;
  }

  take(choice: Json): void {
    const told = choice["token_ids"];
    if (told !== undefined && told !== null) {
      this.#toldIds = true;
      const { ids, fault } = readTokenIds(told, `choices[${this.index}].token_ids`);
      this.#fault ??= fault;
      if (ids !== null) for (const id of ids) this.#ids.push(id);
    }
    const entries = logprobEntries(choice["logprobs"]);
    if (entries !== null) {
      this.#toldLogprobs = true;
      for (const entry of entries) {
        this.#checkId(entry);
        this.#entries.push(entry);
        this.#logprobs.push(logprobOf(entry));
      }
    }
    if (typeof choice["text"] === "string") this.#text = (this.#text ?? "") + choice["text"];
    if (Array.isArray(choice["weight_versions"])) {
      this.#weightVersions = readWeightVersions(choice["weight_versions"]);
    }
    if (typeof choice["finish_reason"] !== "string") return;
    this.finishReason = choice["finish_reason"];
    this.#stopReason = choice["stop_reason"] ?? null;
  }

  /** Entries that tell their own id must be those of the ids beside them. */
  #checkId(entry: unknown): void {
    const told = isRecord(entry) ? entry["token_id"] : undefined;
    const at = this.#logprobs.length;
    if (typeof told !== "number" || at >= this.#ids.length || this.#ids[at] === told) return;
    this.#fault ??= `choices[${this.index}] has id ${this.#ids[at]} at token ${at}, its log-prob is of id ${told}`;
  }

  read(): GeneratedChoice {
    return {
      index: this.index,
      tokenIds: this.#toldIds ? Uint32Array.from(this.#ids) : null,
      logprobs: this.#toldLogprobs ? Float32Array.from(this.#logprobs) : null,
      fault: this.#fault,
      finishReason: this.finishReason,
      stopReason: this.#stopReason,
      text: this.#text,
      entries: this.#text === null ? null : this.#entries,
      weightVersions: this.#weightVersions,
    };
  }
}

export class GenerateReading {
  readonly #choices: ChoiceReading[] = [];
  #promptIds: Uint32Array | null = null;
  #usage: Json | null = null;

  /** Takes a whole answer, or one frame. Throws `engine_error` where it is neither. */
  take(json: Json): void {
    if (!Array.isArray(json["choices"])) {
      throw new CoppiceError(
        "engine_error",
        `the engine's answer has no list of choices: ${JSON.stringify(json).slice(0, 120)}`,
      );
    }
    const prompt = readTokenIds(json["prompt_token_ids"], "prompt_token_ids");
    if (prompt.fault !== null) throw new CoppiceError("engine_error", prompt.fault);
    this.#promptIds ??= prompt.ids;
    if (isRecord(json["usage"])) this.#usage = json["usage"];
    for (const choice of (json["choices"] as unknown[]).filter(isRecord)) this.#choiceAt(choice).take(choice);
  }

  get finished(): boolean {
    return this.#choices.length > 0 && this.#choices.every(({ finishReason }) => finishReason !== null);
  }

  read(end: Pick<Generated, "ending" | "error" | "streamed" | "json">): Generated {
    const choices = [...this.#choices].sort((one, other) => one.index - other.index);
    return {
      ...end,
      promptTokenIds: this.#promptIds,
      promptLength: null,
      choices: choices.map((choice) => choice.read()),
      usage: this.#usage,
    };
  }

  #choiceAt(choice: Json): ChoiceReading {
    const index = typeof choice["index"] === "number" ? choice["index"] : 0;
    const known = this.#choices.find((candidate) => candidate.index === index);
    if (known !== undefined) return known;
    const made = new ChoiceReading(index);
    this.#choices.push(made);
    return made;
  }
}

/** Frames of a `text` mode stream as the chunks of a chat completion. */
export class ChatChunks {
  readonly #begun = new Set<number>();
  readonly #created = Math.floor(Date.now() / 1000);
  readonly #keepIds: boolean;

  constructor(body: Json) {
    this.#keepIds = body["return_token_ids"] === true;
  }

  of(frame: Json, finished: boolean): EngineChunk[] {
    const choices = (Array.isArray(frame["choices"]) ? (frame["choices"] as unknown[]) : []).filter(isRecord);
    const chunks: EngineChunk[] = [];
    for (const choice of choices) {
      const index = typeof choice["index"] === "number" ? choice["index"] : 0;
      if (!this.#begun.has(index)) {
        this.#begun.add(index);
        const delta = { role: "assistant", content: "" };
        const opening = this.#chunk([{ index, delta, logprobs: null, finish_reason: null }]);
        chunks.push({ json: opening, terminal: false });
      }
      const terminal = typeof choice["finish_reason"] === "string";
      chunks.push({ json: this.#chunk([this.#textChoice(choice, index)]), terminal: terminal || finished });
    }
    if (choices.length === 0 && isRecord(frame["usage"])) {
      chunks.push({ json: { ...this.#chunk([]), usage: frame["usage"] }, terminal: true });
    }
    return chunks;
  }

  #textChoice(choice: Json, index: number): Json {
    const { text, logprobs, finish_reason: reason } = choice;
    return {
      index,
      delta: typeof text === "string" && text !== "" ? { content: text } : {},
      logprobs: logprobs ?? null,
      finish_reason: reason ?? null,
      ...(typeof reason === "string" ? { stop_reason: choice["stop_reason"] ?? null } : {}),
      ...(this.#keepIds ? { token_ids: choice["token_ids"] } : {}),
    };
  }

  #chunk(choices: readonly unknown[]): Json {
    return { object: "chat.completion.chunk", created: this.#created, choices };
  }
}

export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(messageOf(thrown));
}
