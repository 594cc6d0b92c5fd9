// The stand-in's routes: from a request that was read to an answer that is written, over the tokenizer, the template,
// the model and the faults that stand beside this file.
import { chatFrames, chatWhole } from "./chat-shape.ts";
import { completionFrames, completionWhole } from "./completion-shape.ts";
import { findFault, markedFaults, type Fault } from "./faults.ts";
import { contextOf, extendContext, FIRST_GENERATED, GENERATED_IDS, Model } from "./model.ts";
import type { StandInOptions } from "./options.ts";
import * as read from "./request.ts";
import { Sampler } from "./sampling.ts";
import { breakConnection, sendJson, type Exchange, type Handler, type StandInRequest } from "./server.ts";
import { tellChoice, tokensOf, writeBadLogprobs } from "./tell.ts";
import { renderChat, turnEndsOf, type ChatPrompt, type TemplateOptions } from "./template.ts";
import { derendered, generateFrames, generateWhole, readGenerate, rendered } from "./token-in.ts";
import { createTokenizer, VOCABULARY, type Tokenizer } from "./tokenizer.ts";
import type { ToldAnswer } from "./told.ts";
import { errorJson, writeFrames, writeWhole } from "./wire.ts";

const FINGERPRINT = "vllm-0.32.0-standin";
/** Every model of a vLLM server has the same. */
const PERMISSION = {
  allow_create_engine: false,
  allow_sampling: true,
  allow_logprobs: true,
  allow_search_indices: false,
  allow_view: true,
  allow_fine_tuning: false,
  organization: "*",
  group: null,
  is_blocking: false,
};
const DEFAULT_MAX_MODEL_LENGTH = 131_072;

export class StandInEngine {
  weightVersion = "default";
  readonly #options: StandInOptions;
  readonly #template: TemplateOptions;
  readonly #tokenizer: Tokenizer;
  readonly #model: Model;
  readonly #sampler: Sampler;
  readonly #name: string;
  readonly #maxModelLength: number;
  readonly #started = Math.floor(Date.now() / 1_000);
  /** Completions asked for, by user, whatever came of them. */
  readonly #asked = new Map<string, number>();
  #serial = 0;

  constructor(options: StandInOptions) {
    const mode = options.mode ?? "sampler";
    this.#options = options;
    this.#template = { template: options.template ?? "bare", dropReasoning: options.dropReasoning ?? false };
    this.#tokenizer = createTokenizer({
      drift: options.drift ?? false,
      ...(options.sameTexts === true ? { sameTexts: { first: FIRST_GENERATED, count: GENERATED_IDS } } : {}),
    });
    this.#model = new Model(mode);
    this.#sampler = new Sampler({
      mode,
      model: this.#model,
      tokenizer: this.#tokenizer,
      turnEnds: turnEndsOf(this.#template.template),
    });
    this.#name = options.model ?? "stand-in";
    this.#maxModelLength = options.maxModelLength ?? DEFAULT_MAX_MODEL_LENGTH;
  }

  routes(): ReadonlyMap<string, Handler> {
    return new Map<string, Handler>([
      ["POST /v1/chat/completions", (exchange) => this.#complete(exchange, "chat")],
      ["POST /v1/completions", (exchange) => this.#complete(exchange, "text")],
      ["POST /v1/chat/completions/render", (exchange) => this.#render(exchange)],
      ["POST /inference/v1/generate", (exchange) => this.#generate(exchange)],
      ["POST /v1/chat/completions/derender", (exchange) => this.#derender(exchange)],
      ["POST /tokenize", (exchange) => this.#tokenize(exchange)],
      ["POST /detokenize", (exchange) => this.#detokenize(exchange)],
      ["GET /v1/models", ({ response }) => sendJson(response, 200, this.#models())],
      ["GET /version", ({ response }) => sendJson(response, 200, '{"version":"0.32.0+stand-in"}')],
      ["GET /health", ({ response }) => void response.writeHead(200, { "content-length": 0 }).end()],
      ["GET /weight_info", ({ response }) => sendJson(response, 200, this.#weights())],
      ["POST /update_weight_version", (exchange) => this.#updateWeights(exchange)],
    ]);
  }

  async #complete(exchange: Exchange, kind: "chat" | "text"): Promise<void> {
    const body = exchange.request.body ?? read.parseBody("{}");
    const faults = this.#faults(exchange.request, body);
    if (await refuse(exchange, faults)) return;
    this.#checkModel(body);
    const sampling = read.readSampling(body);
    const topLogprobs = kind === "chat" ? read.chatTopLogprobs(body) : read.completionTopLogprobs(body);
    const prompt = kind === "chat" ? readChat(body) : null;
    const promptIds =
      prompt === null ? this.#readPrompt(body) : renderChat(prompt, this.#tokenizer, this.#template);
    this.#checkLength(promptIds.length);
    const rescoring = kind === "text" && read.integerField(body, "prompt_logprobs", 0) !== null;
    const answer = this.#answer(exchange, {
      sampling,
      topLogprobs,
      promptIds,
      faults,
      kind,
      counts: !rescoring,
    });
    const delayMs = findFault(faults, "slow")?.delayMs ?? this.#options.delayMs ?? 0;
    const wire = { delayMs, gone: exchange.gone };
    const mended = (json: string): string => writeBadLogprobs(json, faults);
    if (sampling.stream) {
      const frames = (kind === "chat" ? chatFrames(answer) : completionFrames(answer)).map(mended);
      const before = kind === "chat" ? sampling.n : 0;
      await writeFrames(exchange.response, frames, faults, { ...wire, before });
      return;
    }
    const scores = rescoring ? this.#promptLogprobs(promptIds) : null;
    const json = mended(kind === "chat" ? chatWhole(answer) : completionWhole(answer, scores));
    await writeWhole(exchange.response, json, faults, { ...wire, tokens: tokensOf(answer.choices).length });
  }

  async #render(exchange: Exchange): Promise<void> {
    const body = exchange.request.body ?? read.parseBody("{}");
    if (await refuse(exchange, this.#stepFaults(exchange.request))) return;
    this.#checkModel(body);
    const ids = renderChat(readChat(body), this.#tokenizer, this.#template);
    this.#checkLength(ids.length);
    const model = typeof body["model"] === "string" ? body["model"] : this.#name;
    const room = this.#maxModelLength - ids.length;
    sendJson(exchange.response, 200, rendered(body, ids, { model, room }));
  }

  async #generate(exchange: Exchange): Promise<void> {
    const asked = readGenerate(exchange.request.body ?? read.parseBody("{}"));
    this.#checkScaleOut();
    const faults = this.#faults(exchange.request, asked.body);
    if (await refuse(exchange, faults)) return;
    const promptIds = this.#readIds(asked.ids, "token_ids");
    this.#checkLength(promptIds.length);
    const sampling = read.readSampling(asked.body);
    const topLogprobs = read.completionTopLogprobs(asked.body);
    const answer = this.#answer(exchange, {
      sampling,
      topLogprobs,
      promptIds,
      faults,
      kind: "text",
      counts: true,
    });
    const change = findFault(faults, "weights");
    const told = {
      answer,
      mode: asked.mode,
      weightVersion: this.weightVersion,
      change: change ?? null,
      stopToken: turnEndsOf(this.#template.template).afterText !== null,
    };
    const wire = {
      delayMs: findFault(faults, "slow")?.delayMs ?? this.#options.delayMs ?? 0,
      gone: exchange.gone,
    };
    const mended = (json: string): string => writeBadLogprobs(json, faults);
    if (sampling.stream) {
      await writeFrames(exchange.response, generateFrames(told).map(mended), faults, { ...wire, before: 0 });
      return;
    }
    const tokens = tokensOf(answer.choices).length;
    await writeWhole(exchange.response, mended(generateWhole(told)), faults, { ...wire, tokens });
  }

  async #derender(exchange: Exchange): Promise<void> {
    const body = exchange.request.body ?? read.parseBody("{}");
    if (await refuse(exchange, this.#stepFaults(exchange.request))) return;
    const serial = (this.#serial += 1).toString(16).padStart(16, "0");
    const options = { readsReasoning: this.#options.reasoningParser ?? true, idPrefix: `tool-${serial}` };
    sendJson(exchange.response, 200, derendered(body, this.#tokenizer, options));
  }

  /** Faults of the steps before and after sampling, which do not count as completions. */
  #stepFaults(request: StandInRequest): readonly Fault[] {
    this.#checkScaleOut();
    const scripted = this.#options.script?.(request, 0) ?? [];
    return "kind" in scripted ? [scripted] : scripted;
  }

  #checkScaleOut(): void {
    if (this.#options.scaleOut ?? true) return;
    const message = "This route requires --enable-scale-out.";
    throw new read.Refused(403, "PermissionDeniedError", message);
  }

  #answer(
    exchange: Exchange,
    asked: {
      readonly sampling: read.Sampling;
      readonly topLogprobs: number | null;
      readonly promptIds: readonly number[];
      readonly faults: readonly Fault[];
      readonly kind: "chat" | "text";
      readonly counts: boolean;
    },
  ): ToldAnswer {
    const { sampling, faults, promptIds } = asked;
    const serial = (this.#serial += 1).toString(16).padStart(16, "0");
    const given = exchange.request.headers["x-request-id"];
    const room = this.#maxModelLength - promptIds.length;
    const choices = this.#sampler
      .sample(promptIds, sampling, { faults, serial, room, counts: asked.counts })
      .map((generated) => tellChoice(generated, faults));
    const noIds = findFault(faults, "no_ids");
    const lacksIds = noIds !== undefined && (noIds.when === "always" || sampling.stream);
    const name = exchange.request.body?.["model"];
    return {
      head: {
        id: `${asked.kind === "chat" ? "chatcmpl" : "cmpl"}-${typeof given === "string" ? given : serial}`,
        created: Math.floor(Date.now() / 1_000),
        model: typeof name === "string" ? name : this.#name,
        fingerprint: FINGERPRINT,
      },
      asked: {
        topLogprobs: asked.topLogprobs,
        tellIds: sampling.returnTokenIds && !lacksIds,
        includeUsage: sampling.includeUsage,
        continuousUsage: sampling.continuousUsage,
        wordText: (id) => this.#tokenizer.detokenize([id]) ?? "",
      },
      promptIds,
      choices,
      completionTokens: tokensOf(choices).length + (findFault(faults, "counts")?.usage ?? 0),
    };
  }

  #faults(request: StandInRequest, body: read.Body): readonly Fault[] {
    const user = typeof body["user"] === "string" ? body["user"] : "";
    const count = (this.#asked.get(user) ?? 0) + 1;
    this.#asked.set(user, count);
    const scripted = this.#options.script?.(request, count) ?? [];
    const faults: readonly Fault[] = "kind" in scripted ? [scripted] : scripted;
    if (this.#options.markers === false) return faults;
    const messages = Array.isArray(body["messages"]) ? (body["messages"] as unknown[]) : [];
    const last = messages.at(-1) ?? body["prompt"];
    return [...faults, ...markedFaults(typeof last === "string" ? last : JSON.stringify(last ?? ""))];
  }

  #checkModel(body: read.Body): void {
    const name = body["model"];
    if (this.#options.strictModel !== true || name === undefined || name === this.#name) return;
    const message = `The model \`${typeof name === "string" ? name : JSON.stringify(name)}\` does not exist. Valid aliases: ${this.#name}.`;
    throw new read.Refused(404, "NotFoundError", message, "model");
  }

  #checkLength(length: number): void {
    if (length === 0) throw new read.Refused(400, "BadRequestError", "You must pass at least one prompt");
    if (length >= this.#maxModelLength) throw read.tooLong(length, this.#maxModelLength);
  }

  /** The prompt of a text completion: a text, or ids. */
  #readPrompt(body: read.Body): readonly number[] {
    const prompt = body["prompt"];
    if (typeof prompt === "string") return this.#tokenizer.tokenize(prompt);
    if (!Array.isArray(prompt))
      throw new read.Refused(400, "BadRequestError", "You must pass at least one prompt");
    return this.#readIds(prompt, "prompt");
  }

  #readIds(ids: readonly unknown[], name: string): readonly number[] {
    const wrong = ids.findIndex((id) => typeof id !== "number" || !Number.isInteger(id) || id < 0);
    if (wrong !== -1) {
      const message = `1 validation error:\n  {'loc': 'body.${name}.${wrong}', 'msg': 'Input should be a token id'}`;
      throw new read.Refused(400, "Bad Request", message, `body.${name}.${wrong}`);
    }
    const unknown = (ids as number[]).find((id) => id >= VOCABULARY);
    if (unknown === undefined) return ids as number[];
    throw new read.Refused(400, "BadRequestError", `Token id ${unknown} is out of vocabulary`);
  }

  #promptLogprobs(ids: readonly number[]): unknown[] {
    let context = contextOf([]);
    return ids.map((id, index) => {
      const logprob = this.#model.rescored(context, id);
      context = extendContext(context, id);
      const text = this.#tokenizer.detokenize([id]);
      return index === 0 ? null : { [id]: { logprob, rank: 1, decoded_token: text } };
    });
  }

  #tokenize({ request, response }: Exchange): void {
    const body = request.body ?? read.parseBody("{}");
    const ids =
      typeof body["prompt"] === "string"
        ? this.#tokenizer.tokenize(body["prompt"])
        : renderChat(readChat(body), this.#tokenizer, this.#template);
    const texts =
      body["return_token_strs"] === true ? ids.map((id) => this.#tokenizer.detokenize([id])) : null;
    const told = { count: ids.length, max_model_len: this.#maxModelLength, tokens: ids, token_strs: texts };
    sendJson(response, 200, JSON.stringify(told));
  }

  #detokenize({ request, response }: Exchange): void {
    const tokens = request.body?.["tokens"];
    if (!Array.isArray(tokens))
      throw new read.Refused(400, "Bad Request", "tokens: Field required", "body.tokens");
    const text = this.#tokenizer.detokenize(tokens as number[]);
    sendJson(response, 200, JSON.stringify({ prompt: text ?? "" }));
  }

  #models(): string {
    const created = this.#started;
    const head = { id: this.#name, object: "model", created, owned_by: "coppice-stand-in", root: this.#name };
    const permission = { id: "modelperm-stand-in", object: "model_permission", created, ...PERMISSION };
    const model = { ...head, parent: null, max_model_len: this.#maxModelLength, permission: [permission] };
    return JSON.stringify({ object: "list", data: [model] });
  }

  #weights(): string {
    return JSON.stringify({ weight_version: this.weightVersion });
  }

  #updateWeights({ request, response }: Exchange): void {
    const version = request.body?.["new_version"];
    if (typeof version !== "string") {
      throw new read.Refused(400, "Bad Request", "new_version: Field required", "body.new_version");
    }
    this.weightVersion = version;
    sendJson(response, 200, JSON.stringify({ success: true, new_version: version }));
  }
}

function readChat(body: read.Body): ChatPrompt {
  return {
    messages: read.messagesField(body),
    tools: Array.isArray(body["tools"]) ? (body["tools"] as unknown[]) : [],
    continueFinalMessage: body["continue_final_message"] === true,
    addGenerationPrompt: body["add_generation_prompt"] !== false,
  };
}

/** Faults that stand in place of an answer. True where one was met. */
async function refuse({ response, gone }: Exchange, faults: readonly Fault[]): Promise<boolean> {
  for (const fault of faults) {
    if (fault.kind === "refuse") {
      breakConnection(response);
      return true;
    }
    if (fault.kind === "hang") {
      await new Promise<void>((resolve) => {
        gone.addEventListener("abort", () => resolve(), { once: true });
      });
      return true;
    }
    if (fault.kind === "status") {
      const retry: Record<string, string> =
        fault.retryAfter === undefined ? {} : { "retry-after": fault.retryAfter };
      const json =
        fault.message === undefined
          ? errorJson(fault.status)
          : new read.Refused(fault.status, "Error", fault.message).json();
      sendJson(response, fault.status, json, retry);
      return true;
    }
    if (fault.kind === "body") {
      response.writeHead(fault.status ?? 200, { "content-type": fault.contentType ?? "text/plain" });
      response.end(fault.body);
      return true;
    }
  }
  return false;
}
