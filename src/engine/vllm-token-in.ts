// The token-in way of vLLM servers started with --enable-scale-out, and of the stand-in: `/v1/chat/completions/render`
// makes ids of messages, `/inference/v1/generate` samples after ids and tells weight versions as spans, and
// `/v1/chat/completions/derender` reads tool calls and reasoning out of them. Where neither can be in an answer, the
// engine's own text is the content and a stream goes through as it is sampled.
import { CoppiceError } from "../errors.ts";
import type { Message } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";
import { askJson, readObject } from "./ask-json.ts";
import { readFrames } from "./engine-frames.ts";
import type { EngineAnswer, EngineHttp } from "./engine-http.ts";
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
import { asError, ChatChunks, GenerateReading } from "./vllm-generate.ts";
import { hasMedia } from "./media-content.ts";

type Json = Readonly<Record<string, unknown>>;

/** Looks like the thought of most models; an engine that reads reasoning takes it out of the content. */
const THOUGHT = "<think>\nq\n</think>\n\nz";
const CHECK_WITHIN_MS = 5_000;

/** SamplingParams.max_tokens in vLLM. */
const DEFAULT_MAX_TOKENS = 16;

/** RequestOutputKind in vLLM: what it hands over while it samples. */
const DELTAS = 1;
const FINAL_ONLY = 2;

export class VllmTokenIn implements TokenIn {
  readonly tellsWeightVersions = true;
  readonly textTellsIds = true;
  readonly defaults = {};
  readonly #http: EngineHttp;
  readonly #model: string | null;
  #readsReasoning: Promise<boolean> | null = null;

  constructor(http: EngineHttp, model: string | null) {
    this.#http = http;
    this.#model = model;
  }

  unfit(body: Json): string | null {
    if (hasMedia(body["messages"])) return "the messages have media";
    if (typeof body["prompt_logprobs"] === "number") return "prompt_logprobs is asked for";
    return body["echo"] === true ? "echo is asked for" : null;
  }

  async render({ body, messages, ending, signal }: RenderAsk): Promise<Rendering> {
    const { stream_options: _options, n: _n, ...asked } = body;
    const sent = {
      ...asked,
      ...(typeof body["n"] === "number" ? { n: body["n"] } : {}),
      ...this.#modelField(),
      messages,
      stream: false,
      ...(ending === "none" ? { add_generation_prompt: false, continue_final_message: false } : {}),
    };
    const json = await this.#ask("/v1/chat/completions/render", sent, signal);
    const { ids, fault } = readTokenIds(json["token_ids"], "token_ids");
    if (ids === null || ids.length === 0) {
      throw new CoppiceError("engine_error", fault ?? "the engine's rendering has no token_ids");
    }
    return { ids, sampling: isRecord(json["sampling_params"]) ? json["sampling_params"] : null };
  }

  async generate(ask: GenerateAsk): Promise<Generated> {
    const parses = await this.#mustParse(ask.body);
    const stream = ask.stream && !parses;
    const sent = JSON.stringify({
      ...this.#modelField(),
      ...(typeof ask.body["model"] === "string" && this.#model === null ? { model: ask.body["model"] } : {}),
      ...kept(ask.body, ["cache_salt", "priority"]),
      token_ids: [...ask.ids],
      sampling_params: samplingParams(ask, stream),
      return_token_ids: true,
      output_mode: parses ? "tokens" : "text",
      stream,
      ...(stream ? { stream_options: { include_usage: true } } : {}),
    });
    try {
      const answer = await this.#http.send("POST", "/inference/v1/generate", sent, ask.signal);
      if (answer.statusCode !== 200) throw await this.#http.refusal(answer);
      if (stream) return await this.#readStream(answer, ask);
      const json = readObject(await this.#http.text(answer), this.#http, "/inference/v1/generate");
      const reading = new GenerateReading();
      reading.take(json);
      return reading.read({ ending: "complete", error: null, streamed: false, json });
    } catch (error) {
      if (!ask.signal.aborted) throw error;
      return new GenerateReading().read({
        ending: "aborted",
        error: asError(ask.signal.reason),
        streamed: false,
        json: null,
      });
    }
  }

  async #readStream(answer: EngineAnswer, ask: GenerateAsk): Promise<Generated> {
    const reading = new GenerateReading();
    const chunks = new ChatChunks(ask.body);
    let handed = 0;
    let fault: Error | null = null;
    try {
      const frames = readFrames(answer, { url: this.#http.url, maxEventBytes: this.#http.maxAnswerBytes });
      for await (const frame of frames) {
        ask.signal.throwIfAborted();
        reading.take(frame);
        for (const chunk of chunks.of(frame, reading.finished)) {
          handed += 1;
          await ask.onChunk?.(chunk);
        }
      }
      if (!reading.finished) {
        throw new CoppiceError("engine_error", "the engine's stream ended before it told a finish reason");
      }
    } catch (error) {
      fault = asError(error);
    }
    const aborted = fault !== null && ask.signal.aborted;
    if (fault !== null && !aborted && handed === 0) throw fault;
    return reading.read({
      ending: fault === null ? "complete" : aborted ? "aborted" : "broken",
      error: aborted ? asError(ask.signal.reason) : fault,
      streamed: true,
      json: null,
    });
  }

  async parse({ body, ids, generated, signal }: ParseAsk): Promise<readonly ParsedChoice[]> {
    const { choices } = generated;
    if (generated.json === null || choices.every(({ text }) => text !== null))
      return choices.map(plainChoice);
    const sent = {
      ...this.#modelField(),
      ...(typeof body["model"] === "string" ? { model: body["model"] } : {}),
      generate_response: withoutStopTokens(generated.json),
      prompt_tokens: ids.length,
      prompt_token_ids: [...ids],
      chat_request: { ...body, stream: false, stream_options: undefined, logprobs: true },
    };
    const json = await this.#ask("/v1/chat/completions/derender", sent, signal);
    const told = Array.isArray(json["choices"]) ? (json["choices"] as unknown[]) : [];
    return choices.map((choice) => parsedChoice(choice, told));
  }

  /** Tool calls and reasoning stand in the ids; who has neither tools nor a reasoning parser has plain text. */
  async #mustParse(body: Json): Promise<boolean> {
    if (Array.isArray(body["tools"]) && body["tools"].length > 0) return true;
    this.#readsReasoning ??= this.#findReasoning(body);
    return this.#readsReasoning;
  }

  async #findReasoning(body: Json): Promise<boolean> {
    try {
      const signal = AbortSignal.timeout(CHECK_WITHIN_MS);
      const model = kept(body, ["model"]);
      const json = await this.#ask(
        "/tokenize",
        { ...model, prompt: THOUGHT, add_special_tokens: false },
        signal,
      );
      const { ids } = readTokenIds(json["tokens"], "tokens");
      if (ids === null || ids.length === 0) return true;
      const read = await this.#ask("/v1/chat/completions/derender", thoughtAnswer(model, ids), signal);
      const [first] = Array.isArray(read["choices"]) ? (read["choices"] as unknown[]) : [];
      const message = isRecord(first) && isRecord(first["message"]) ? first["message"] : {};
      const content = message["content"];
      return (
        typeof content !== "string" || !content.includes("q") || typeof message["reasoning"] === "string"
      );
    } catch (error) {
      // Parsing is right for every engine; without it streams are only quicker.
      if (error instanceof CoppiceError || error instanceof DOMException) return true;
      throw error;
    }
  }

  #modelField(): Record<string, string> {
    return this.#model === null ? {} : { model: this.#model };
  }

  #ask(path: string, body: Json, signal: AbortSignal): Promise<Json> {
    return askJson(this.#http, { path, body, signal });
  }
}

/** The engine's own reading of the request, with the log-probs that capture needs and the room that the prompt leaves. */
function samplingParams({ body, ids, rendering }: GenerateAsk, stream: boolean): Record<string, unknown> {
  const sampling: Record<string, unknown> = { ...rendering.sampling };
  const asked = sampling["logprobs"];
  sampling["logprobs"] = typeof asked === "number" && asked > 0 ? asked : 0;
  sampling["output_kind"] = stream ? DELTAS : FINAL_ONLY;
  // The rendering leaves out a limit that is vLLM's own default, and without one nothing limits the answer. Where the
  // client sets none it is what the rendered prompt left of the model's length.
  const limit = body["max_completion_tokens"] ?? body["max_tokens"];
  const room = sampling["max_tokens"];
  const left = typeof room === "number" ? room : DEFAULT_MAX_TOKENS;
  sampling["max_tokens"] =
    typeof limit === "number" ? limit : Math.max(1, left + rendering.ids.length - ids.length);
  return sampling;
}

function thoughtAnswer(model: Json, ids: Uint32Array): Json {
  const choice = {
    index: 0,
    finish_reason: "stop",
    token_ids: [...ids],
    logprobs: null,
  };
  return {
    ...model,
    generate_response: { request_id: "check", ...model, choices: [choice] },
    prompt_tokens: 1,
    prompt_token_ids: [ids[0]],
    chat_request: { ...model, messages: [{ role: "user", content: "Go on." }] },
  };
}

function plainChoice(choice: GeneratedChoice): ParsedChoice {
  return {
    message: { role: "assistant", content: choice.text ?? "" },
    finishReason: choice.finishReason,
    entries: choice.entries,
  };
}

/** The stop token is part of what was sampled and no part of the text: derender would write it out. */
function withoutStopTokens(json: Json): Json {
  const choices = Array.isArray(json["choices"]) ? (json["choices"] as unknown[]) : [];
  return {
    ...json,
    choices: choices.filter(isRecord).map((choice) => {
      const ids = choice["token_ids"];
      const stopped = choice["finish_reason"] === "stop" && typeof choice["stop_reason"] !== "string";
      return stopped && Array.isArray(ids) ? { ...choice, token_ids: ids.slice(0, -1) } : choice;
    }),
  };
}

/** What stands before the stop string that ended the answer; derender does not look for it. */
function beforeStopString(message: Message, stop: unknown): Message {
  const { content } = message;
  if (typeof stop !== "string" || typeof content !== "string") return message;
  const at = content.lastIndexOf(stop);
  return at === -1 ? message : { ...message, content: content.slice(0, at) };
}

/** derender says `stop` of an answer that calls tools. */
function parsedChoice(choice: GeneratedChoice, told: readonly unknown[]): ParsedChoice {
  const found = told.find((one) => isRecord(one) && one["index"] === choice.index);
  if (!isRecord(found) || !isRecord(found["message"])) {
    throw new CoppiceError("engine_error", `the engine parsed no message for choices[${choice.index}]`);
  }
  const message = beforeStopString(found["message"], choice.stopReason);
  const calls = message["tool_calls"];
  const callsTools = Array.isArray(calls) && calls.length > 0;
  const logprobs = isRecord(found["logprobs"]) ? found["logprobs"]["content"] : null;
  return {
    message,
    finishReason: callsTools && choice.finishReason === "stop" ? "tool_calls" : choice.finishReason,
    entries: Array.isArray(logprobs) ? (logprobs as unknown[]) : null,
  };
}

function kept(body: Json, fields: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    fields
      .filter((field) => body[field] !== undefined && body[field] !== null)
      .map((field) => [field, body[field]]),
  );
}
