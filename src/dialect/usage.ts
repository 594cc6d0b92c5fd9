// Counts of tokens, from the Chat Completions shape into the other dialects'. Agents compact by these: they are the
// engine's own.
import { isRecord } from "../lineage/message.ts";
import type { Json } from "./dialect.ts";

export interface UsageCounts {
  readonly prompt: number;
  readonly cached: number;
  readonly completion: number;
  readonly reasoning: number;
}

export function usageCounts(usage: unknown): UsageCounts {
  const told = isRecord(usage) ? usage : {};
  return {
    prompt: count(told["prompt_tokens"]),
    cached: Math.min(count(told["prompt_tokens"]), countIn(told["prompt_tokens_details"], "cached_tokens")),
    completion: count(told["completion_tokens"]),
    reasoning: countIn(told["completion_tokens_details"], "reasoning_tokens"),
  };
}

export function responsesUsage(usage: Json | null): Json | null {
  if (usage === null) return null;
  const { prompt, cached, completion, reasoning } = usageCounts(usage);
  return {
    input_tokens: prompt,
    input_tokens_details: { cached_tokens: cached },
    output_tokens: completion,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: prompt + completion,
  };
}

/** `input_tokens` leaves out what came from the cache, as the Messages API counts. */
export function messagesUsage(usage: Json | null): Json {
  const { prompt, cached, completion } = usageCounts(usage);
  return {
    input_tokens: prompt - cached,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
    output_tokens: completion,
  };
}

function countIn(details: unknown, name: string): number {
  return isRecord(details) ? count(details[name]) : 0;
}

function count(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) && value > 0 ? value : 0;
}
