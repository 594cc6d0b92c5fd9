// The token-in way of any server whose `/v1/completions` takes ids as its prompt and tells ids: chats are rendered in
// this process, once the engine was seen to tokenise as it does here. Tool calls are read from the text (tool-text.ts).
import { randomUUID } from "node:crypto";
import { CoppiceError, messageOf } from "../errors.ts";
import { isRecord } from "../lineage/message.ts";
import type { Engine, EngineReply } from "./engine.ts";
import type { LocalRendering } from "./local-rendering.ts";
import { hasMedia } from "./media-content.ts";
import { commonPrefix } from "./splice.ts";
import type {
  Generated,
  GenerateAsk,
  ParseAsk,
  ParsedChoice,
  RenderAsk,
  Rendering,
  TokenIn,
} from "./token-in.ts";
import { readAnswerText } from "./tool-text.ts";

type Json = Readonly<Record<string, unknown>>;
/** What of an engine is asked. */
export type CompletionsEngine = Required<Pick<Engine, "complete">> & Pick<Engine, "models">;

/** Fields of a chat that a text completion does not have, or has otherwise. */
const CHAT_ONLY: ReadonlySet<string> = new Set([
  "messages",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "chat_template",
  "chat_template_kwargs",
  "add_generation_prompt",
  "continue_final_message",
  "documents",
  "reasoning_effort",
  "logprobs",
  "top_logprobs",
  "max_completion_tokens",
  "max_tokens",
]);

/** Numerals, scripts, signs and line ends that tokenizers are known to differ in. */
const SAMPLES = "Héllo  wörld\n\n1234 ١٢٣ ４５ x² ½ 世界。日本語 😀👨‍👩‍👧 naïve\t{}[]();  'tis I'm\r\n…— ﬁ";

export class CompletionsTokenIn implements TokenIn {
  readonly tellsWeightVersions = false;
  readonly textTellsIds = true;
  readonly defaults = {};
  readonly #engine: CompletionsEngine;
  readonly #rendering: LocalRendering;
  #checking: Promise<void> | null = null;
  #longest: number | null = null;

  constructor(engine: CompletionsEngine, rendering: LocalRendering) {
    this.#engine = engine;
    this.#rendering = rendering;
  }

  unfit(body: Json): string | null {
    if (hasMedia(body["messages"])) return "the messages have media";
    const choice = body["tool_choice"];
    if (choice === "required" || isRecord(choice))
      return "tool_choice forces a call, which needs the chat route";
    return typeof body["chat_template"] === "string" ? "the request has a chat template of its own" : null;
  }

  async render({ body, messages, ending, signal }: RenderAsk): Promise<Rendering> {
    this.#checking ??= this.#check(body["model"], signal);
    await this.#checking.catch((error: unknown) => {
      this.#checking = null;
      throw error;
    });
    return { ids: this.#tokenize(messages, body, ending), sampling: null };
  }

  #tokenize(messages: RenderAsk["messages"], body: Json, ending: RenderAsk["ending"]): Uint32Array {
    try {
      return this.#rendering.tokenize(this.#rendering.render(messages, body, ending));
    } catch (error) {
      throw new CoppiceError("engine_error", `the chat template cannot render this: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }

  /** Throws where the engine tokenises the samples otherwise than this process does. */
  async #check(model: unknown, signal: AbortSignal): Promise<void> {
    const text = this.#rendering.render([{ role: "user", content: SAMPLES }], {}, "as asked");
    const own = this.#rendering.tokenize(text);
    const body = { model, prompt: text, max_tokens: 1, add_special_tokens: false };
    const { promptTokenIds: told } = await this.#engine.complete({ body, stream: false, signal });
    if (told === null) throw new CoppiceError("engine_error", "the engine tells no ids of a text prompt");
    const same = commonPrefix(own, told);
    if (same === own.length && same === told.length) {
      this.#longest = (await this.#engine.models(signal))[0]?.maxModelLength ?? null;
      return;
    }
    throw new CoppiceError(
      "engine_error",
      `the tokenizer in ${this.#rendering.name} gives other ids than the engine's from token ${same} on`,
    );
  }

  async generate({ body, ids, stream, signal, onChunk }: GenerateAsk): Promise<Generated> {
    const kept = Object.fromEntries(Object.entries(body).filter(([field]) => !CHAT_ONLY.has(field)));
    const limit = body["max_completion_tokens"] ?? body["max_tokens"];
    // Without a limit a text completion ends after 16 tokens; a chat goes on to the model's length.
    const room =
      typeof limit === "number" ? limit : this.#longest === null ? null : this.#longest - ids.length;
    const asked = {
      ...kept,
      prompt: [...ids],
      ...(room === null ? {} : { max_tokens: Math.max(1, room) }),
      logprobs: typeof body["top_logprobs"] === "number" ? body["top_logprobs"] : 0,
    };
    const streams = stream && !hasTools(body);
    const reply = await this.#engine.complete({
      body: asked,
      stream: streams,
      signal,
      ...(streams && onChunk !== undefined ? { onChunk } : {}),
    });
    return generatedOf(reply, streams);
  }

  async parse({ body, generated }: ParseAsk): Promise<readonly ParsedChoice[]> {
    const idPrefix = `call_${randomUUID().replaceAll("-", "").slice(0, 20)}`;
    return generated.choices.map(({ text, finishReason, entries }) => {
      if (!hasTools(body)) {
        return { message: { role: "assistant", content: text ?? "" }, finishReason, entries };
      }
      const message = readAnswerText(text ?? "", { tools: true, reasoning: false, idPrefix });
      const calls = message["tool_calls"] !== undefined && finishReason === "stop";
      return { message, finishReason: calls ? "tool_calls" : finishReason, entries };
    });
  }
}

function hasTools(body: Json): boolean {
  return Array.isArray(body["tools"]) && body["tools"].length > 0 && body["tool_choice"] !== "none";
}

function generatedOf(reply: EngineReply, streamed: boolean): Generated {
  const told = Array.isArray(reply.json?.["choices"]) ? (reply.json["choices"] as unknown[]) : [];
  return {
    ending: reply.ending,
    error: reply.error,
    promptTokenIds: reply.promptTokenIds,
    promptLength: null,
    choices: reply.choices.map((choice, place) => {
      const logprobs = isRecord(told[place]) ? told[place]["logprobs"] : null;
      return {
        index: choice.index,
        tokenIds: choice.tokenIds,
        logprobs: choice.logprobs,
        fault: choice.untrainable,
        finishReason: choice.finishReason,
        stopReason: isRecord(told[place]) ? (told[place]["stop_reason"] ?? null) : null,
        text: typeof choice.message["content"] === "string" ? choice.message["content"] : "",
        entries:
          isRecord(logprobs) && Array.isArray(logprobs["content"])
            ? (logprobs["content"] as unknown[])
            : null,
        weightVersions: choice.weightVersions,
      };
    }),
    usage: reply.usage,
    streamed: streamed && reply.json === null,
    json: reply.json,
  };
}
