// The token-in way of SGLang: `/v1/tokenize` renders, `/generate` with `input_ids` samples, `/separate_reasoning` and
// `/parse_function_call` read the answer's text with the parsers that the server was started with. Written from its
// documentation and from exchanges recorded with its real HTTP front end (0.5.23); no SGLang engine has run it.
import { randomUUID } from "node:crypto";
import { CoppiceError } from "../errors.ts";
import type { Message } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";
import { askJson } from "./ask-json.ts";
import type { EngineHttp } from "./engine-http.ts";
import { hasMedia } from "./media-content.ts";
import { readTokenIds } from "./told-tokens.ts";
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
import { readWeightVersions } from "./token-in-reply.ts";
import { asError } from "./vllm-generate.ts";

type Json = Readonly<Record<string, unknown>>;

/** Chat Completions settings by the names that `/generate` has for them. */
const SETTINGS: Readonly<Record<string, string>> = {
  temperature: "temperature",
  top_p: "top_p",
  top_k: "top_k",
  min_p: "min_p",
  frequency_penalty: "frequency_penalty",
  presence_penalty: "presence_penalty",
  repetition_penalty: "repetition_penalty",
  stop: "stop",
  stop_token_ids: "stop_token_ids",
  ignore_eos: "ignore_eos",
  min_tokens: "min_new_tokens",
  seed: "sampling_seed",
  logit_bias: "logit_bias",
  max_tokens: "max_new_tokens",
  max_completion_tokens: "max_new_tokens",
};

const ABORT_WITHIN_MS = 2_000;

export class SglangTokenIn implements TokenIn {
  readonly tellsWeightVersions = true;
  readonly textTellsIds = true;
  readonly defaults = {};
  readonly #http: EngineHttp;
  #parsers: Promise<{ readonly reasoning: string | null; readonly tools: string | null }> | null = null;

  constructor(http: EngineHttp) {
    this.#http = http;
  }

  unfit(body: Json): string | null {
    if (hasMedia(body["messages"])) return "the messages have media";
    if (typeof body["n"] === "number" && body["n"] > 1) return `n is ${body["n"]}, more than one choice`;
    if (body["continue_final_message"] === true) return "continue_final_message is not known to /v1/tokenize";
    const format = body["response_format"];
    if (isRecord(format) && format["type"] !== "text")
      return "response_format needs the server's own chat route";
    const choice = body["tool_choice"];
    return choice === "required" || isRecord(choice) ? "tool_choice forces a call" : null;
  }

  async render({ body, messages, ending, signal }: RenderAsk): Promise<Rendering> {
    const { model, tools, chat_template_kwargs: options } = body;
    const asked = { model, tools, chat_template_kwargs: options, messages };
    const closed = ending === "none" ? { add_generation_prompt: false } : {};
    const json = await this.#ask("/v1/tokenize", { ...asked, ...closed }, signal);
    const { ids, fault } = readTokenIds(json["tokens"], "tokens");
    if (ids === null || ids.length === 0) {
      throw new CoppiceError("engine_error", fault ?? "the engine's rendering has no tokens");
    }
    return { ids, sampling: { max_model_len: json["max_model_len"] ?? null } };
  }

  async generate(ask: GenerateAsk): Promise<Generated> {
    const rid = randomUUID().replaceAll("-", "");
    const { body, ids, signal } = ask;
    const asked = {
      rid,
      input_ids: [...ids],
      sampling_params: samplingParams(ask),
      return_logprob: true,
      return_text_in_logprobs: true,
      return_prompt_token_ids: true,
      stream: false,
      ...(typeof body["cache_salt"] === "string" ? { extra_key: body["cache_salt"] } : {}),
    };
    try {
      return generatedBy(await this.#ask("/generate", asked, signal));
    } catch (error) {
      if (!signal.aborted) throw error;
      // The server notices a closed connection late where nothing is streamed.
      this.#ask("/abort_request", { rid }, AbortSignal.timeout(ABORT_WITHIN_MS)).catch(ignoreUnheard);
      const none = { promptTokenIds: null, promptLength: null, choices: [], usage: null, json: null };
      return { ...none, ending: "aborted", error: asError(signal.reason), streamed: false };
    }
  }

  async parse({ body, generated, signal }: ParseAsk): Promise<readonly ParsedChoice[]> {
    const parsers = await this.#startedWith(signal);
    return Promise.all(
      generated.choices.map(async (choice) => {
        const message = await this.#readText(choice.text ?? "", body, { ...parsers, signal });
        const calls = message["tool_calls"] !== undefined && choice.finishReason === "stop";
        return { message, finishReason: calls ? "tool_calls" : choice.finishReason, entries: choice.entries };
      }),
    );
  }

  async #readText(
    text: string,
    body: Json,
    by: { readonly reasoning: string | null; readonly tools: string | null; readonly signal: AbortSignal },
  ): Promise<Message> {
    let content = text;
    let reasoning: unknown = null;
    if (by.reasoning !== null) {
      const asked = { text, reasoning_parser: by.reasoning };
      const read = await this.#ask("/separate_reasoning", asked, by.signal);
      content = stringOf(read["text"], "text");
      reasoning = read["reasoning_text"] ?? null;
    }
    const { tools } = body;
    const hasTools = Array.isArray(tools) && tools.length > 0 && body["tool_choice"] !== "none";
    let calls: Message[] = [];
    if (hasTools && by.tools !== null) {
      const asked = { text: content, tool_call_parser: by.tools, tools };
      const read = await this.#ask("/parse_function_call", asked, by.signal);
      content = stringOf(read["normal_text"], "normal_text");
      calls = (Array.isArray(read["calls"]) ? (read["calls"] as unknown[]) : [])
        .filter(isRecord)
        .map(toolCall);
    }
    return {
      role: "assistant",
      content: content === "" && calls.length > 0 ? null : content,
      ...(typeof reasoning === "string" && reasoning !== "" ? { reasoning_content: reasoning } : {}),
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
    };
  }

  /** The parsers that the server was started with; asked once it has answered. */
  #startedWith(
    signal: AbortSignal,
  ): Promise<{ readonly reasoning: string | null; readonly tools: string | null }> {
    const parsers = (this.#parsers ??= askJson(this.#http, { path: "/model_info", body: null, signal }).then(
      (json) => ({
        reasoning: typeof json["reasoning_parser"] === "string" ? json["reasoning_parser"] : null,
        tools: typeof json["tool_call_parser"] === "string" ? json["tool_call_parser"] : null,
      }),
    ));
    parsers.catch(() => (this.#parsers = null));
    return parsers;
  }

  #ask(path: string, body: Json, signal: AbortSignal): Promise<Json> {
    return askJson(this.#http, { path, body, signal });
  }
}

function ignoreUnheard(): void {
  // Whoever asked is gone; the server also aborts by itself when it sees the connection closed.
}

function samplingParams({ body, ids, rendering }: GenerateAsk): Record<string, unknown> {
  const sampling: Record<string, unknown> = {};
  const longest = rendering.sampling?.["max_model_len"];
  // Without a limit the server stops after 128 tokens, where its chat route goes on to the model's length.
  if (typeof longest === "number") sampling["max_new_tokens"] = Math.max(1, longest - ids.length - 1);
  for (const [field, name] of Object.entries(SETTINGS)) {
    const value = body[field];
    if (value !== undefined && value !== null) sampling[name] = value;
  }
  // Parsers look for the special tokens that frame a tool call.
  const tools = body["tools"];
  if (Array.isArray(tools) && tools.length > 0) sampling["skip_special_tokens"] = false;
  return sampling;
}

function stringOf(value: unknown, name: string): string {
  if (typeof value === "string") return value;
  throw new CoppiceError("engine_error", `the engine's parser told no ${name}`);
}

function toolCall(call: Readonly<Record<string, unknown>>): Message {
  const { name, parameters } = call;
  return {
    id: `call_${randomUUID().replaceAll("-", "").slice(0, 24)}`,
    type: "function",
    function: {
      name,
      arguments: typeof parameters === "string" ? parameters : JSON.stringify(parameters ?? {}),
    },
  };
}

/** A whole answer of `/generate`. Throws `engine_error` where it is none, or tells that the engine failed. */
export function generatedBy(json: Json): Generated {
  const told = json["meta_info"];
  if (!isRecord(told)) {
    throw new CoppiceError(
      "engine_error",
      `the engine's answer to /generate has no meta_info: ${JSON.stringify(json).slice(0, 120)}`,
    );
  }
  const finish = isRecord(told["finish_reason"]) ? told["finish_reason"] : {};
  if (typeof finish["status_code"] === "number") {
    const message = typeof finish["message"] === "string" ? finish["message"] : "the engine failed";
    throw new CoppiceError("engine_error", message, {
      status: finish["status_code"],
      detail: {
        status: finish["status_code"],
        message,
        type: finish["err_type"] ?? null,
        param: null,
        code: null,
      },
    });
  }
  const { ids, fault } = readTokenIds(json["output_ids"], "output_ids");
  const triples = Array.isArray(told["output_token_logprobs"])
    ? (told["output_token_logprobs"] as unknown[])
    : null;
  const prompt = readTokenIds(json["prompt_token_ids"], "prompt_token_ids");
  const choice: GeneratedChoice = {
    index: 0,
    tokenIds: ids,
    logprobs: triples === null ? null : Float32Array.from(triples, tripleLogprob),
    fault: fault ?? tripleFault(ids, triples),
    finishReason: typeof finish["type"] === "string" ? finish["type"] : null,
    stopReason: finish["matched"] ?? null,
    text: typeof json["text"] === "string" ? json["text"] : "",
    entries: triples === null ? null : triples.map(entryOf),
    weightVersions: weightVersionsOf(told),
  };
  return {
    ending: "complete",
    error: null,
    promptTokenIds: prompt.ids,
    promptLength: typeof told["prompt_tokens"] === "number" ? told["prompt_tokens"] : null,
    choices: [choice],
    usage: {
      prompt_tokens: told["prompt_tokens"] ?? null,
      completion_tokens: told["completion_tokens"] ?? null,
      total_tokens: Number(told["prompt_tokens"]) + Number(told["completion_tokens"]),
    },
    streamed: false,
    json,
  };
}

function tripleLogprob(triple: unknown): number {
  const logprob: unknown = Array.isArray(triple) ? triple[0] : null;
  return typeof logprob === "number" ? logprob : Number.NaN;
}

function tripleFault(ids: Uint32Array | null, triples: readonly unknown[] | null): string | null {
  if (ids === null || triples === null || triples.length !== ids.length) return null;
  for (const [at, triple] of triples.entries()) {
    const id: unknown = Array.isArray(triple) ? triple[1] : null;
    if (id !== ids[at]) return `the log-prob of token ${at} is of id ${String(id)}, the token is ${ids[at]}`;
  }
  return null;
}

function entryOf(triple: unknown): unknown {
  const text: unknown = Array.isArray(triple) ? triple[2] : null;
  const token = typeof text === "string" ? text : "";
  return { token, logprob: tripleLogprob(triple), bytes: [...Buffer.from(token)], top_logprobs: [] };
}

/** Spans since 0.5.19; before, the version at the end of the call, which says nothing of its beginning. */
export function weightVersionsOf(told: Json): GeneratedChoice["weightVersions"] {
  return readWeightVersions(told["weight_versions"]);
}
