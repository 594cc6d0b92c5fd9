// The adapter for vLLM servers, and for the stand-in, which speaks the same HTTP: the text way. Messages go out as the
// client sent them; prompt ids, generated ids and log-probs are taken out of the answer, streamed or whole.
// Shapes as vLLM 0.32.0 writes them (testing/fixtures). It keeps nothing between calls but connections.
import { CoppiceError, messageOf } from "../errors.ts";
import { parseEngineJson } from "../dialect/engine-json.ts";
import { isRecord } from "../lineage/message.ts";
import { errorInside, EngineHttp, type EngineAnswer, type EngineHttpOptions } from "./engine-http.ts";
import type { Engine, EngineModel, EngineReply, EngineRequest } from "./engine.ts";
import { CompletionsTokenIn } from "./completions-token-in.ts";
import type { LocalRendering } from "./local-rendering.ts";
import type { TokenIn } from "./token-in.ts";
import { logprobOf } from "./told-tokens.ts";
import { chatOfText } from "./text-completion.ts";
import { readWholeAnswer } from "./vllm-answer.ts";
import { StreamReading, type CompletionApi } from "./vllm-reading.ts";
import { vllmBody, type VllmAsked } from "./vllm-request.ts";
import { StreamGathering } from "./vllm-stream.ts";
import { VllmTokenIn } from "./vllm-token-in.ts";

export interface VllmOptions extends EngineHttpOptions {
  /** The engine's name for its model; takes the place of the name in each request. */
  readonly model?: string;
  /** How the server was started (`--logprobs-mode`); `raw` is vLLM's default. */
  readonly logprobsMode?: "raw" | "processed";
  /** What stands behind the URL, where it is another server that tells ids as vLLM does; `vllm` by default. */
  readonly kind?: Engine["kind"];
  /**
   * Ask for whole answers only, for servers that tell ids only there. A request with `stream: true` is then answered
   * with `json` and no chunks.
   */
  readonly askWhole?: boolean;
  /** Chats are rendered here and asked for as text completions from ids: for servers that cannot render. */
  readonly rendering?: LocalRendering;
}

/** Limit for the short questions that have no signal of their own, in milliseconds. */
const QUESTION_TIMEOUT_MS = 10_000;
/** How long a stream may stay open after its `[DONE]` before its connection is given up, in milliseconds. */
const AFTER_DONE_MS = 1_000;

const CHAT: CompletionApi = { kind: "chat", path: "/v1/chat/completions", asChat: (json) => json };
const TEXT: CompletionApi = { kind: "text", path: "/v1/completions", asChat: chatOfText };

export function vllmEngine(options: VllmOptions): Engine {
  return new VllmEngine(options);
}

class VllmEngine implements Engine {
  readonly kind: Engine["kind"];
  readonly logprobsMode: "raw" | "processed";
  readonly tokenIn?: TokenIn;
  readonly #http: EngineHttp;
  readonly #model: string | null;
  readonly #askWhole: boolean;

  constructor(options: VllmOptions) {
    this.kind = options.kind ?? "vllm";
    this.logprobsMode = options.logprobsMode ?? "raw";
    this.#http = new EngineHttp(options);
    this.#model = options.model ?? null;
    this.#askWhole = options.askWhole ?? false;
    if (options.rendering !== undefined) this.tokenIn = new CompletionsTokenIn(this, options.rendering);
    else if (this.kind === "vllm" || this.kind === "stand-in") {
      this.tokenIn = new VllmTokenIn(this.#http, this.#model);
    }
  }

  get url(): string {
    return this.#http.url;
  }

  chat(request: EngineRequest): Promise<EngineReply> {
    return this.#complete(request, CHAT);
  }

  complete(request: EngineRequest): Promise<EngineReply> {
    return this.#complete(request, TEXT);
  }

  async #complete(request: EngineRequest, api: CompletionApi): Promise<EngineReply> {
    const stream = request.stream && !this.#askWhole;
    const asked = vllmBody(request.body, { stream, model: this.#model, kind: api.kind });
    try {
      const answer = await this.#http.send("POST", api.path, asked.body, request.signal);
      if (answer.statusCode !== 200) throw await this.#http.refusal(answer);
      if (stream && isEventStream(answer)) return await this.#readStream(answer, asked, { request, api });
      return this.#readWhole(await this.#http.text(answer), asked, api);
    } catch (error) {
      if (request.signal.aborted) return abortedReply(request.signal);
      throw error;
    }
  }

  #readWhole(text: string, asked: VllmAsked, api: CompletionApi): EngineReply {
    const json = parseEngineJson(text, `the answer of the engine at ${this.url}`);
    const error = isRecord(json) ? errorInside(json, this.url) : null;
    if (error !== null) throw error;
    return readWholeAnswer(isRecord(json) ? api.asChat(json, false) : json, asked);
  }

  async #readStream(
    answer: EngineAnswer,
    asked: VllmAsked,
    { request, api }: { readonly request: EngineRequest; readonly api: CompletionApi },
  ): Promise<EngineReply> {
    const gathering = new StreamGathering(asked);
    const reading = new StreamReading(gathering, request, { url: this.url, api });
    let error: Error | null = null;
    try {
      await reading.read(answer, this.#http.maxAnswerBytes);
    } catch (thrown) {
      // What the caller's own onChunk threw is the caller's; everything else is the engine's.
      error = reading.callerError ?? asEngineError(thrown);
    }
    letGo(answer, reading.done && error === null ? AFTER_DONE_MS : 0);

    const aborted = request.signal.aborted && !(reading.done && error === null);
    // Nothing has reached the caller yet: it can still be answered with an error of its own.
    if (error !== null && !aborted && reading.chunks === 0) throw error;
    return {
      ending: aborted ? "aborted" : error === null ? "complete" : "broken",
      error: aborted ? abortReason(request.signal) : error,
      promptTokenIds: gathering.promptTokenIds,
      choices: gathering.choices(aborted ? "aborted" : error === null ? "whole" : "broken"),
      usage: gathering.usage,
      json: null,
    };
  }

  async countTokens(body: Readonly<Record<string, unknown>>, signal?: AbortSignal): Promise<number> {
    const { model, messages, tools, chat_template_kwargs: options } = body;
    const asked = {
      ...(model === undefined ? {} : { model }),
      messages,
      ...(tools === undefined ? {} : { tools }),
      ...(options === undefined ? {} : { chat_template_kwargs: options }),
      add_generation_prompt: true,
    };
    const json = await this.#ask("POST", "/tokenize", asked, signal);
    const count = isRecord(json) ? (json["count"] ?? lengthOf(json["tokens"])) : null;
    if (typeof count === "number") return count;
    throw new CoppiceError("engine_error", `the engine at ${this.url} does not count tokens of messages`);
  }

  async models(signal?: AbortSignal): Promise<readonly EngineModel[]> {
    const json = await this.#ask("GET", "/v1/models", null, signal);
    const list = isRecord(json) && Array.isArray(json["data"]) ? (json["data"] as unknown[]) : null;
    if (list === null) {
      throw new CoppiceError("engine_error", `the engine at ${this.url} has no list of models at /v1/models`);
    }
    return list.filter(isRecord).map((model) => ({
      id: String(model["id"]),
      maxModelLength: typeof model["max_model_len"] === "number" ? model["max_model_len"] : null,
    }));
  }

  async detokenize(ids: Uint32Array, signal?: AbortSignal): Promise<string | null> {
    if (ids.length === 0) return "";
    try {
      const json = await this.#ask("POST", "/detokenize", { tokens: [...ids] }, signal);
      const text = isRecord(json) ? json["prompt"] : null;
      // vLLM answers an id that it does not have with an empty text.
      return typeof text === "string" && text !== "" ? text : null;
    } catch (error) {
      if (error instanceof CoppiceError || signal?.aborted === true) return null;
      throw error;
    }
  }

  async rescore(ids: Uint32Array, signal?: AbortSignal): Promise<Float32Array> {
    const told = new Float32Array(ids.length).fill(Number.NaN);
    if (ids.length < 2) return told;
    // vLLM wants to generate at least one token.
    const body = { prompt: [...ids], max_tokens: 1, temperature: 0, prompt_logprobs: 0 };
    const json = await this.#ask("POST", "/v1/completions", body, signal ?? null);
    const positions = promptLogprobs(json);
    if (positions === null || positions.length !== ids.length) {
      throw new CoppiceError(
        "engine_error",
        `the engine at ${this.url} told ${positions?.length ?? "no"} prompt log-probs for ${ids.length} ids`,
      );
    }
    for (let index = 1; index < ids.length; index++) {
      const position = positions[index];
      told[index] = logprobOf(isRecord(position) ? position[String(ids[index])] : null);
    }
    return told;
  }

  async close(): Promise<void> {
    await this.#http.close();
  }

  /** A question with a JSON answer. With a signal of undefined it has a time limit, with null it has none. */
  async #ask(
    method: "GET" | "POST",
    path: string,
    body: Readonly<Record<string, unknown>> | null,
    signal: AbortSignal | undefined | null,
  ): Promise<unknown> {
    const limit = signal === undefined ? AbortSignal.timeout(QUESTION_TIMEOUT_MS) : (signal ?? undefined);
    const model = this.#model === null ? {} : { model: this.#model };
    const sent = body === null ? null : JSON.stringify({ ...model, ...body });
    try {
      const text = await this.#http.text(await this.#http.send(method, path, sent, limit));
      return parseEngineJson(text, `the answer of the engine at ${this.url} to ${path}`);
    } catch (error) {
      if (limit?.aborted !== true) throw error;
      throw new CoppiceError("engine_timeout", `the engine at ${this.url} did not answer ${path} in time`, {
        cause: error,
      });
    }
  }
}

function isEventStream(answer: EngineAnswer): boolean {
  return String(answer.headers["content-type"] ?? "").includes("text/event-stream");
}

/**
 * Ends the reading of an answer. With a limit it is read to its end so that its connection can be used again, but not
 * waited for past the limit; with 0 the connection is closed at once.
 */
function letGo({ body }: EngineAnswer, limitMs: number): void {
  if (body.destroyed || body.readableEnded) return;
  const limit = limitMs === 0 ? undefined : setTimeout(() => body.destroy(), limitMs);
  body.once("close", () => clearTimeout(limit));
  // What there is to say of this answer has been said: how its connection ends concerns nobody.
  body.once("error", () => clearTimeout(limit));
  if (limit === undefined) body.destroy();
  else body.resume();
}

function abortedReply(signal: AbortSignal): EngineReply {
  return {
    ending: "aborted",
    error: abortReason(signal),
    promptTokenIds: null,
    choices: [],
    usage: null,
    json: null,
  };
}

function abortReason(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : new Error(messageOf(reason));
}

function asEngineError(error: unknown): CoppiceError {
  if (error instanceof CoppiceError && error.code !== "too_large") return error;
  return new CoppiceError("engine_error", `the engine's stream broke off (${messageOf(error)})`, {
    cause: error,
  });
}

function promptLogprobs(json: unknown): readonly unknown[] | null {
  const choices = isRecord(json) && Array.isArray(json["choices"]) ? (json["choices"] as unknown[]) : [];
  const first = choices[0];
  const told = isRecord(first) ? first["prompt_logprobs"] : null;
  return Array.isArray(told) ? told : null;
}

function lengthOf(list: unknown): number | null {
  return Array.isArray(list) ? list.length : null;
}
