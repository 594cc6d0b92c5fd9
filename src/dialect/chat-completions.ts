// The Chat Completions API, which is the internal form too: a request goes on as it came, an answer comes back under
// the ids that the gateway minted, without what capture added.
// Reference: https://platform.openai.com/docs/api-reference/chat
import type { CoppiceError } from "../errors.ts";
import type { Message } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";
import { choicesOf } from "./chat-choices.ts";
import type { AnswerHead, AnswerWriter, Dialect, Json, StreamWriter } from "./dialect.ts";
import { openAiErrors } from "./openai-errors.ts";
import { choicesAsked, optionalFlag, optionalString, wrong } from "./request-fields.ts";
import { joinSplitAnswers } from "./split-answers.ts";
import { sseComment } from "./sse-write.ts";

/** What the client asked to see of what capture adds anyway. */
export interface ChatAsked {
  readonly wantsLogprobs: boolean;
  readonly wantsUsage: boolean;
}

/** The terminator of a stream. */
export const DONE = "data: [DONE]\n\n";

export const chatDialect: Dialect = {
  name: "chat",
  idPrefix: "chatcmpl-",
  errors: openAiErrors,
  neededAnswers: () => [],
  decode: (body) => {
    const { messages, notes } = joinSplitAnswers(readMessages(body["messages"]));
    return {
      body: messages === body["messages"] ? body : { ...body, messages },
      kind: "chat",
      messages,
      stream: optionalFlag(body, "stream"),
      choices: choicesAsked(body),
      model: optionalString(body, "model"),
      notes,
      writer: chatWriter({ wantsLogprobs: body["logprobs"] === true, wantsUsage: asksForUsage(body) }),
    };
  },
};

export function asksForUsage(body: Json): boolean {
  const options = body["stream_options"];
  return isRecord(options) && options["include_usage"] === true;
}

/** Engines know no developers: their templates know `system`. */
function readMessages(messages: unknown): readonly Message[] {
  if (!Array.isArray(messages)) throw wrong("messages", messages, "a list of messages");
  let developers = false;
  for (const [index, message] of messages.entries()) {
    if (!isRecord(message)) throw wrong(`messages[${index}]`, message, "an object");
    const role = message["role"];
    if (typeof role !== "string") throw wrong(`messages[${index}].role`, role, "a string such as user");
    developers ||= role === "developer";
  }
  const read = messages as Message[];
  if (!developers) return read;
  return read.map((message) => (message["role"] === "developer" ? { ...message, role: "system" } : message));
}

export function chatWriter(asked: ChatAsked): AnswerWriter {
  return {
    whole: (json, head) => {
      const answer: Record<string, unknown> = { ...json, id: head.responseId, model: head.model };
      if (!asked.wantsLogprobs) answer["choices"] = withoutLogprobs(json["choices"]);
      return JSON.stringify(answer);
    },
    stream: (head) => new ChatStream(asked, head),
  };
}

class ChatStream implements StreamWriter {
  readonly #asked: ChatAsked;
  readonly #head: AnswerHead;

  constructor(asked: ChatAsked, head: AnswerHead) {
    this.#asked = asked;
    this.#head = head;
  }

  /** Empty for the usage chunk that the client did not ask for. */
  chunk(json: Json): string {
    const { wantsUsage, wantsLogprobs } = this.#asked;
    const { responseId, model } = this.#head;
    const chunk: Record<string, unknown> = { ...json, id: responseId, model };
    const choices = json["choices"];
    if (!wantsUsage && "usage" in chunk) {
      if (Array.isArray(choices) && choices.length === 0) return "";
      delete chunk["usage"];
    }
    if (!wantsLogprobs) chunk["choices"] = withoutLogprobs(choices);
    return `data: ${JSON.stringify(chunk)}\n\n`;
  }

  end(held: readonly Json[], usage: Json | null): string {
    const chunks = this.#asked.wantsUsage ? this.#withUsage(held, usage) : withoutUsageChunk(held);
    return chunks.map((json) => this.chunk(json)).join("") + DONE;
  }

  fail(error: CoppiceError): string {
    return `data: ${openAiErrors.body(error)}\n\n`;
  }

  heartbeat(): string {
    return sseComment("keep-alive");
  }

  /** Where the engine told no usage in its stream, what the gateway knows. */
  #withUsage(held: readonly Json[], usage: Json | null): readonly Json[] {
    const last = held.at(-1);
    if (usage === null || last === undefined || held.some((json) => isRecord(json["usage"]))) return held;
    return [...held, { ...last, choices: [], usage }];
  }
}

/** Log-probs that nobody asked for read as an engine writes them then: null, where the field is there at all. */
function withoutLogprobs(choices: unknown): unknown {
  if (!Array.isArray(choices)) return choices;
  return choices.map((choice: unknown) =>
    isRecord(choice) && "logprobs" in choice ? { ...choice, logprobs: null } : choice,
  );
}

/** The chunk that is the last without usage tells the engine's fingerprint, as it does where usage is not asked for. */
function withoutUsageChunk(chunks: readonly Json[]): readonly Json[] {
  const usage = chunks.at(-1);
  const last = chunks.at(-2);
  if (usage === undefined || last === undefined || choicesOf(usage).length > 0) return chunks;
  const { system_fingerprint } = usage;
  if (system_fingerprint === undefined) return chunks.slice(0, -1);
  return [...chunks.slice(0, -2), { ...last, system_fingerprint }];
}

/** An answer that the engine gave whole, as chunks, for a client that asked for a stream. */
export function chunksOfWhole(json: Json): Json[] {
  const { choices, usage, object: _object, ...head } = json;
  const chunk = { ...head, object: "chat.completion.chunk" };
  const chunks: Json[] = [];
  for (const choice of Array.isArray(choices) ? choices.filter(isRecord) : []) {
    const { message, finish_reason, stop_reason, logprobs, ...rest } = choice;
    const delta = deltaOf(isRecord(message) ? message : {});
    const stopped = stop_reason === undefined ? {} : { stop_reason };
    chunks.push({ ...chunk, choices: [{ ...rest, delta, logprobs: logprobs ?? null, finish_reason: null }] });
    chunks.push({ ...chunk, choices: [{ ...rest, delta: {}, logprobs: null, finish_reason, ...stopped }] });
  }
  if (isRecord(usage)) chunks.push({ ...chunk, choices: [], usage });
  return chunks;
}

/** In a delta each tool call says which one it is. */
function deltaOf(message: Json): Json {
  const calls = message["tool_calls"];
  if (!Array.isArray(calls)) return message;
  return {
    ...message,
    tool_calls: calls.map((call: unknown, index) => (isRecord(call) ? { index, ...call } : call)),
  };
}
