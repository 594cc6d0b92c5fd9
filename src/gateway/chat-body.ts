// The body that the engine is sent: the request's own fields, with what was pinned for the rollout in place, and the
// sampling settings of both for the record.
import { CoppiceError } from "../errors.ts";
import type { Json } from "../dialect/dialect.ts";
import type { Sampling } from "../lineage/call.ts";
import { LENGTH_LIMITS } from "./context-room.ts";

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
  ask: { readonly body: Json },
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
