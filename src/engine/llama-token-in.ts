// The token-in way of the llama.cpp server. Always asked whole: its streams leave out the ids and log-probs of tokens
// that end inside a character. Where the ids and the log-probs of a whole answer disagree (it drops those of a stop
// string and of such tokens), the call is untrainable and says so.
import { CoppiceError } from "../errors.ts";
import { isRecord } from "../lineage/message.ts";
import { askJson } from "./ask-json.ts";
import type { EngineHttp } from "./engine-http.ts";
import { hasMedia } from "./media-content.ts";
import { logprobOf, readTokenIds } from "./told-tokens.ts";
import type {
  Generated,
  GenerateAsk,
  GeneratedChoice,
  ParseAsk,
  ParsedChoice,
  RenderAsk,
  Rendering,
  TokenIn,
} from "./token-in.ts";
import { readAnswerText } from "./tool-text.ts";
import { asError } from "./vllm-generate.ts";

type Json = Readonly<Record<string, unknown>>;

/** Chat Completions settings by the names that `/completion` has for them. */
const SETTINGS: Readonly<Record<string, string>> = {
  temperature: "temperature",
  top_p: "top_p",
  top_k: "top_k",
  min_p: "min_p",
  typical_p: "typical_p",
  frequency_penalty: "frequency_penalty",
  presence_penalty: "presence_penalty",
  repetition_penalty: "repeat_penalty",
  seed: "seed",
  max_tokens: "n_predict",
  max_completion_tokens: "n_predict",
  ignore_eos: "ignore_eos",
};

export class LlamaTokenIn implements TokenIn {
  readonly tellsWeightVersions = false;
  readonly textTellsIds = false;
  // The server's own are 0.8, 40, 0.95 and 0.05: another distribution than the one that the log-probs tell of.
  readonly defaults = { temperature: 1, top_k: 0, top_p: 1, min_p: 0 };
  readonly #http: EngineHttp;
  #serial = 0;

  constructor(http: EngineHttp) {
    this.#http = http;
  }

  unfit(body: Json): string | null {
    if (hasMedia(body["messages"])) return "the messages have media";
    if (typeof body["n"] === "number" && body["n"] > 1)
      return `n is ${body["n"]}, the server gives one choice`;
    const format = body["response_format"];
    if (isRecord(format) && format["type"] !== "text")
      return "response_format needs the server's own chat route";
    const choice = body["tool_choice"];
    return choice === "required" || isRecord(choice)
      ? "tool_choice forces a call, which the server does not"
      : null;
  }

  async render({ body, messages, ending, signal }: RenderAsk): Promise<Rendering> {
    const asked = ending === "none" ? { add_generation_prompt: false } : {};
    const rendered = await this.#ask("/apply-template", { ...body, ...asked, messages }, signal);
    const { prompt } = rendered;
    if (typeof prompt !== "string") {
      throw new CoppiceError("engine_error", "the engine's rendering has no prompt");
    }
    const json = await this.#ask(
      "/tokenize",
      { content: prompt, add_special: true, parse_special: true },
      signal,
    );
    const { ids, fault } = readTokenIds(json["tokens"], "tokens");
    if (ids === null || ids.length === 0) {
      throw new CoppiceError("engine_error", fault ?? "the engine's rendering has no tokens");
    }
    return { ids, sampling: null };
  }

  async generate({ body, ids, signal }: GenerateAsk): Promise<Generated> {
    const asked: Record<string, unknown> = {
      prompt: [...ids],
      n_probs: Math.max(1, typeof body["top_logprobs"] === "number" ? body["top_logprobs"] : 1),
      return_tokens: true,
      stream: false,
      cache_prompt: true,
      ...(body["stop"] === undefined || body["stop"] === null ? {} : { stop: [body["stop"]].flat() }),
      ...(isRecord(body["logit_bias"])
        ? { logit_bias: Object.entries(body["logit_bias"]).map(([id, bias]) => [Number(id), bias]) }
        : {}),
    };
    for (const [field, name] of Object.entries(SETTINGS)) {
      const value = body[field];
      if (value !== undefined && value !== null) asked[name] = value;
    }
    try {
      return generatedOf(await this.#ask("/completion", asked, signal));
    } catch (error) {
      if (!signal.aborted) throw error;
      const none = { promptTokenIds: null, promptLength: null, choices: [], usage: null, json: null };
      return { ...none, ending: "aborted", error: asError(signal.reason), streamed: false };
    }
  }

  async parse({ body, generated }: ParseAsk): Promise<readonly ParsedChoice[]> {
    const tools = Array.isArray(body["tools"]) && body["tools"].length > 0 && body["tool_choice"] !== "none";
    return generated.choices.map((choice) => {
      this.#serial += 1;
      const idPrefix = `call-${this.#serial.toString(36)}-${Date.now().toString(36)}-`;
      const text = choice.text ?? "";
      const message = readAnswerText(text, { tools, reasoning: text.includes("</think>"), idPrefix });
      const calls = message["tool_calls"] !== undefined && choice.finishReason === "stop";
      return { message, finishReason: calls ? "tool_calls" : choice.finishReason, entries: choice.entries };
    });
  }

  #ask(path: string, body: Json, signal: AbortSignal): Promise<Json> {
    return askJson(this.#http, { path, body, signal });
  }
}

/** A whole answer of `/completion`. */
export function generatedOf(json: Json): Generated {
  const { ids, fault } = readTokenIds(json["tokens"], "tokens");
  const told = json["completion_probabilities"];
  const entries = Array.isArray(told) ? (told as unknown[]) : null;
  const promptLength = json["tokens_evaluated"];
  const predicted = json["tokens_predicted"];
  if (typeof json["content"] !== "string" || typeof promptLength !== "number") {
    throw new CoppiceError(
      "engine_error",
      `the engine's answer to /completion is none: ${JSON.stringify(json).slice(0, 120)}`,
    );
  }
  const choice: GeneratedChoice = {
    index: 0,
    tokenIds: ids,
    logprobs: entries === null ? null : Float32Array.from(entries, logprobOf),
    fault: fault ?? mismatch(ids, entries),
    finishReason: finishReasonOf(json["stop_type"]),
    stopReason: json["stopping_word"] === "" ? null : (json["stopping_word"] ?? null),
    text: json["content"],
    entries,
    weightVersions: [],
  };
  const usage = typeof predicted === "number" ? usageOf(promptLength, predicted) : null;
  return {
    ending: "complete",
    error: null,
    promptTokenIds: null,
    promptLength,
    choices: [choice],
    usage,
    streamed: false,
    json,
  };
}

/** Log-probs tell their ids: where one is missing in the middle, the rest belongs to other tokens. */
function mismatch(ids: Uint32Array | null, entries: readonly unknown[] | null): string | null {
  if (ids === null || entries === null || entries.length !== ids.length) return null;
  for (const [at, entry] of entries.entries()) {
    const id = isRecord(entry) ? entry["id"] : null;
    if (id !== ids[at]) return `the log-prob of token ${at} is of id ${String(id)}, the token is ${ids[at]}`;
  }
  return null;
}

function finishReasonOf(stopType: unknown): string | null {
  if (stopType === "limit") return "length";
  return stopType === "eos" || stopType === "word" ? "stop" : null;
}

function usageOf(promptTokens: number, completionTokens: number): Record<string, unknown> {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  };
}
