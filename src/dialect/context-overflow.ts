// Recognises an engine's refusal of a prompt that is longer than its context, in the words of each engine. Agents live
// on it: they compact when they read it in their own API's words.
import type { CoppiceError } from "../errors.ts";
import { isRecord } from "../lineage/message.ts";

/** In tokens; null where the engine does not tell. */
export interface ContextOverflow {
  readonly prompt: number | null;
  readonly limit: number | null;
}

/** What engines write: vLLM (chat, generate), SGLang, llama.cpp, and gateways that pass OpenAI's on. */
const PATTERNS: readonly { readonly words: RegExp; readonly order: "limit first" | "prompt first" }[] = [
  {
    words:
      /maximum context length is (\d+) tokens[^]*?(?:prompt contains|requested|resulted in)(?: at least)? (\d+)/i,
    order: "limit first",
  },
  {
    words: /prompt \(length (\d+)\) is longer than the maximum model length of (\d+)/i,
    order: "prompt first",
  },
  {
    words: /input \((\d+) tokens\) is longer than the model's context length \((\d+) tokens\)/i,
    order: "prompt first",
  },
  {
    words: /request \((\d+) tokens\) exceeds the available context size \((\d+) tokens\)/i,
    order: "prompt first",
  },
  { words: /prompt is too long: (\d+) tokens > (\d+) maximum/i, order: "prompt first" },
];

const WITHOUT_NUMBERS =
  /maximum context length|exceeds the available context size|context[ _]length[ _]exceeded/i;

/** Null for every other error. */
export function contextOverflow(error: CoppiceError): ContextOverflow | null {
  if (error.code !== "engine_error" || error.status >= 500) return null;
  for (const { words, order } of PATTERNS) {
    const found = words.exec(error.message);
    if (found === null) continue;
    const one = Number(found[1]);
    const other = Number(found[2]);
    return order === "limit first" ? { prompt: other, limit: one } : { prompt: one, limit: other };
  }
  const { type, code } = isRecord(error.detail) ? error.detail : {};
  const named = type === "exceed_context_size_error" || code === "context_length_exceeded";
  return named || WITHOUT_NUMBERS.test(error.message) ? { prompt: null, limit: null } : null;
}
