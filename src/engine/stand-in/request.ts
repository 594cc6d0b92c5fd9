// What the stand-in understands of a request, and what it refuses, in vLLM's words. Unknown fields are accepted in
// silence, as vLLM does.
import { isRecord } from "../../lineage/message.ts";
import type { Limits } from "./answer.ts";

/** A refusal in vLLM's envelope. */
export class Refused extends Error {
  readonly status: number;
  readonly type: string;
  readonly param: string | null;

  constructor(status: number, type: string, message: string, param: string | null = null) {
    super(message);
    this.status = status;
    this.type = type;
    this.param = param;
  }

  json(): string {
    const { message, type, param, status: code } = this;
    return JSON.stringify({ error: { message, type, param, code } });
  }
}

export type Body = Readonly<Record<string, unknown>>;

export function parseBody(text: string): Body {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new Refused(
      400,
      "Bad Request",
      `1 validation error:\n  JSON decode error: ${error.message}`,
      "body",
    );
  }
  if (isRecord(json)) return json;
  throw badField("body", "Input should be a valid dictionary");
}

/** A field that does not validate, as vLLM words it. */
export function badField(loc: string, message: string): Refused {
  return new Refused(
    400,
    "Bad Request",
    `1 validation error:\n  {'loc': '${loc}', 'msg': '${message}'}`,
    loc,
  );
}

/** A whole number of at least `least`; absent and null read as null. */
export function integerField(body: Body, name: string, least: number): number | null {
  const value = body[name];
  if (value === undefined || value === null) return null;
  if (typeof value !== "number" || !Number.isInteger(value)) {
    throw badField(`body.${name}`, "Input should be a valid integer");
  }
  if (value >= least) return value;
  const message = `${name} must be at least ${least}, got ${value}. (parameter=${name}, value=${value})`;
  throw new Refused(400, "BadRequestError", message, name);
}

export function numberField(body: Body, name: string): number | null {
  const value = body[name];
  if (value === undefined || value === null) return null;
  if (typeof value === "number") return value;
  throw badField(`body.${name}`, "Input should be a valid number");
}

function listField(body: Body, name: string): readonly unknown[] {
  const value = body[name];
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? (value as unknown[]) : [value];
}

export function messagesField(body: Body): readonly Body[] {
  const messages = body["messages"];
  if (messages === undefined) throw badField("body.messages", "Field required");
  if (!Array.isArray(messages)) throw badField("body.messages", "Input should be a valid list");
  return messages.map((message: unknown, index) => {
    if (isRecord(message) && typeof message["role"] === "string") return message;
    throw badField(`body.messages.${index}.role`, "Field required");
  });
}

/** What both kinds of completion have in common. */
export interface Sampling {
  readonly limits: Limits;
  readonly n: number;
  readonly seed: number | null;
  readonly temperature: number | null;
  readonly user: string;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  readonly returnTokenIds: boolean;
  readonly ignoreEos: boolean;
  readonly minTokens: number;
}

/** The stand-in answers in few tokens unless it is asked for more. */
const DEFAULT_MAX_TOKENS = 16;

export function readSampling(body: Body): Sampling {
  const maxTokens = integerField(body, "max_completion_tokens", 1) ?? integerField(body, "max_tokens", 1);
  const stream = body["stream"] === true;
  const streamOptions = isRecord(body["stream_options"]) ? body["stream_options"] : null;
  if (streamOptions !== null && !stream) {
    throw new Refused(
      400,
      "BadRequestError",
      "Stream options can only be defined when `stream=True`.",
      "stream_options",
    );
  }
  return {
    limits: {
      maxTokens: maxTokens ?? DEFAULT_MAX_TOKENS,
      stop: listField(body, "stop").filter((stop): stop is string => typeof stop === "string" && stop !== ""),
      stopTokenIds: listField(body, "stop_token_ids").filter((id): id is number => typeof id === "number"),
      includeStop: body["include_stop_str_in_output"] === true,
    },
    n: integerField(body, "n", 1) ?? 1,
    seed: integerField(body, "seed", Number.MIN_SAFE_INTEGER),
    temperature: numberField(body, "temperature"),
    user: typeof body["user"] === "string" ? body["user"] : "",
    stream,
    includeUsage: streamOptions?.["include_usage"] === true,
    continuousUsage: streamOptions?.["continuous_usage_stats"] === true,
    returnTokenIds: body["return_token_ids"] === true,
    ignoreEos: body["ignore_eos"] === true,
    minTokens: integerField(body, "min_tokens", 0) ?? 0,
  };
}

const MAX_LOGPROBS = 20;

/** Log-probs of alternatives that a chat completion asks for: null for none at all, 0 for the sampled token alone. */
export function chatTopLogprobs(body: Body): number | null {
  const top = integerField(body, "top_logprobs", 0) ?? 0;
  if (body["logprobs"] === true) return checkTop(top);
  if (top === 0) return null;
  throw new Refused(
    400,
    "BadRequestError",
    "when using `top_logprobs`, `logprobs` must be set to true.",
    "top_logprobs",
  );
}

/** The same for a text completion, which asks with a number. */
export function completionTopLogprobs(body: Body): number | null {
  const logprobs = integerField(body, "logprobs", 0);
  return logprobs === null ? null : checkTop(logprobs);
}

function checkTop(top: number): number {
  if (top <= MAX_LOGPROBS) return top;
  const message = `Requested sample logprobs of ${top}, which is greater than max allowed: ${MAX_LOGPROBS} (parameter=logprobs, value=${top})`;
  throw new Refused(400, "BadRequestError", message, "logprobs");
}

export function tooLong(length: number, maxModelLength: number): Refused {
  const message =
    `This model's maximum context length is ${maxModelLength} tokens. However, your prompt contains ${length} input ` +
    "tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. " +
    `(parameter=input_tokens, value=${length})`;
  return new Refused(400, "BadRequestError", message, "input_tokens");
}
