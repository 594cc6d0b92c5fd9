// A Chat Completions request as far as the gateway reads it, and the body that the engine is sent: the client's own
// fields as they came, with what was pinned for the rollout in place. Bodies are parsed here once and written by the
// engine's adapter once; both ends of that seam are in this file.
// Reference: https://platform.openai.com/docs/api-reference/chat/create
import { CoppiceError, messageOf } from "../errors.ts";
import type { Message, Sampling } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";
import { LENGTH_LIMITS } from "./context-room.ts";

export interface ChatAsk {
  readonly body: Readonly<Record<string, unknown>>;
  readonly messages: readonly Message[];
  readonly stream: boolean;
  /** `n`: choices that were asked for, 1 to 128. */
  readonly choices: number;
  /** The model's name as the client wrote it; null where it named none. */
  readonly model: string | null;
  /** What the client asked to see of what capture adds anyway. */
  readonly wantsLogprobs: boolean;
  readonly wantsUsage: boolean;
}

/** Settings that shape the distribution or the length of what is sampled; the record keeps them. */
const SAMPLING_FIELDS = [
  "temperature",
  "top_p",
  "top_k",
  "min_p",
  "typical_p",
  "frequency_penalty",
  "presence_penalty",
  "repetition_penalty",
  "length_penalty",
  "seed",
  "max_tokens",
  "max_completion_tokens",
  "min_tokens",
  "stop",
  "stop_token_ids",
  "ignore_eos",
  "logit_bias",
  "bad_words",
  "allowed_token_ids",
] as const;

/** Fields that are no sampling settings: a rollout cannot pin them. */
const NOT_PINNABLE: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "tools",
  "tool_choice",
  "stream",
  "stream_options",
  "n",
  "logprobs",
  "top_logprobs",
  "return_token_ids",
  "cache_salt",
]);

/** Throws `invalid_request` that names the field, its value and what would be right. */
export function parseChatBody(bytes: Buffer): ChatAsk {
  const body = parseJsonObject(bytes);
  const { model, messages, stream, n } = body;
  if (model !== undefined && model !== null && typeof model !== "string") {
    throw wrong("model", model, "a string");
  }
  if (stream !== undefined && stream !== null && typeof stream !== "boolean") {
    throw wrong("stream", stream, "true or false");
  }
  const choices = n ?? 1;
  if (typeof choices !== "number" || !Number.isInteger(choices) || choices < 1 || choices > 128) {
    throw wrong("n", n, "a whole number from 1 to 128");
  }
  const options = body["stream_options"];
  return {
    body,
    messages: parseMessages(messages),
    stream: stream === true,
    choices,
    model: model ?? null,
    wantsLogprobs: body["logprobs"] === true,
    wantsUsage: isRecord(options) && options["include_usage"] === true,
  };
}

/** Throws `invalid_request` for anything but a JSON object in UTF-8. */
export function parseJsonObject(bytes: Buffer): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString("utf8"));
  } catch (error) {
    const why = bytes.length === 0 ? "it is empty" : messageOf(error);
    throw new CoppiceError("invalid_request", `the body is no JSON: ${why}`, { cause: error });
  }
  if (!isRecord(value)) {
    throw new CoppiceError("invalid_request", `the body is ${shown(value)}; it must be a JSON object`);
  }
  return value;
}

function parseMessages(messages: unknown): readonly Message[] {
  if (!Array.isArray(messages)) throw wrong("messages", messages, "a list of messages");
  for (const [index, message] of messages.entries()) {
    if (!isRecord(message)) throw wrong(`messages[${index}]`, message, "an object");
    if (typeof message["role"] !== "string") {
      throw wrong(`messages[${index}].role`, message["role"], "a string such as user");
    }
  }
  return messages as Message[];
}

function wrong(field: string, value: unknown, right: string): CoppiceError {
  return new CoppiceError("invalid_request", `${field} is ${shown(value)}; it must be ${right}`, {
    param: field,
  });
}

/** The value on one short line. */
export function shown(value: unknown): string {
  if (value === undefined) return "missing";
  const json = JSON.stringify(value);
  return json.length > 60 ? `${json.slice(0, 57)}...` : json;
}

/** Throws `invalid_request` where a pinned setting is no sampling setting. */
export function checkPinned(pinned: Readonly<Record<string, unknown>>): void {
  const bad = Object.keys(pinned).find((field) => NOT_PINNABLE.has(field));
  if (bad !== undefined) {
    throw new CoppiceError("invalid_request", `sampling.${bad} is no sampling setting and cannot be pinned`, {
      param: `sampling.${bad}`,
    });
  }
}

export interface EngineBody {
  readonly body: Readonly<Record<string, unknown>>;
  readonly sampling: Sampling;
}

/**
 * The body for the engine. What is pinned wins; a pinned null takes the field out. `cacheSalt` keeps a prefix cache
 * that was filled under other weights from being used; a client's own salt is kept beside it.
 */
export function engineBody(
  ask: ChatAsk,
  given: {
    readonly model: string;
    readonly pinned: Readonly<Record<string, unknown>> | null;
    readonly cacheSalt: string | null;
  },
): EngineBody {
  const asked = samplingOf(ask.body);
  const body: Record<string, unknown> = { ...ask.body, model: given.model };
  let used = asked;
  if (given.pinned !== null) {
    // Two names of one limit: engines let the second win, so a pinned one takes both places.
    if (LENGTH_LIMITS.some((field) => Object.hasOwn(given.pinned as object, field))) {
      for (const field of LENGTH_LIMITS) delete body[field];
    }
    for (const [field, value] of Object.entries(given.pinned)) {
      if (value === null) delete body[field];
      else body[field] = value;
    }
    used = { ...samplingOf(body), ...withoutNulls(given.pinned) };
  }
  if (given.cacheSalt !== null) {
    const own = body["cache_salt"];
    body["cache_salt"] = typeof own === "string" ? `${own}:${given.cacheSalt}` : given.cacheSalt;
  }
  return { body, sampling: { asked, used } };
}

function samplingOf(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const sampling: Record<string, unknown> = {};
  for (const field of SAMPLING_FIELDS) {
    const value = body[field];
    if (value !== undefined && value !== null) sampling[field] = value;
  }
  return sampling;
}

function withoutNulls(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}
