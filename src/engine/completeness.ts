// Decides whether the tokens of an answer may train. An engine's ids, log-probs and count of tokens must agree, every
// log-prob must be a real one, and the answer must have come to its end; otherwise the reason says what was missing.
// Nothing is ever padded, cut or guessed to make them agree. Pure.
import type { Message } from "../lineage/call.ts";
import { hasCutToolCall } from "../dialect/chat.ts";

/** Some engines write this or less where a log-prob could not be told. */
const NO_LOGPROB = -9999;

/** What an engine told of one choice. */
export interface ToldChoice {
  readonly index: number;
  /** Null where the engine told none. */
  readonly tokenIds: Uint32Array | null;
  /** Null where the engine told none; NaN where one could not be read. */
  readonly logprobs: Float32Array | null;
  /** A finish reason was told. */
  readonly finished: boolean;
  /** What could not be read of the ids, in words. */
  readonly fault: string | null;
}

export interface ToldAnswer {
  /** Null where the engine told none. */
  readonly promptTokenIds: Uint32Array | null;
  readonly promptFault: string | null;
  readonly choices: readonly ToldChoice[];
  /** `usage.completion_tokens`, which counts all choices; null where it was not told. */
  readonly completionTokens: number | null;
  /**
   * - `whole`: the answer came to its end
   * - `aborted`: it was stopped on purpose, so neither its end nor its count of tokens can be there
   * - `broken`: it ended early or could not be read
   */
  readonly ending: "whole" | "aborted" | "broken";
}

/** Why the choice must not train, in one sentence; null for a complete one. */
export function whyUntrainable(choice: ToldChoice, answer: ToldAnswer): string | null {
  const name = `choices[${choice.index}]`;
  if (answer.ending === "broken")
    return "the answer has no terminal event: it ended early or could not be read";
  if (answer.promptFault !== null) return answer.promptFault;
  if (answer.promptTokenIds === null) return "the engine told no prompt ids (prompt_token_ids is missing)";
  if (choice.fault !== null) return choice.fault;
  if (choice.tokenIds === null) return `the engine told no generated ids (${name}.token_ids is missing)`;
  if (choice.logprobs === null && choice.tokenIds.length > 0) {
    return `the engine told no log-probs (${name}.logprobs.content is missing)`;
  }
  return (
    whyNotEnded(choice, answer, name) ??
    whyCountsDiffer(choice, answer, name) ??
    whyNoLogprob(choice.logprobs, name)
  );
}

function whyNotEnded(choice: ToldChoice, answer: ToldAnswer, name: string): string | null {
  if (answer.ending === "broken")
    return "the answer has no terminal event: it ended early or could not be read";
  if (answer.ending === "whole" && !choice.finished) {
    return `the answer has no terminal event (${name}.finish_reason was never told)`;
  }
  return null;
}

function whyCountsDiffer(choice: ToldChoice, answer: ToldAnswer, name: string): string | null {
  const ids = choice.tokenIds?.length ?? 0;
  const logprobs = choice.logprobs?.length ?? 0;
  // Usage counts all choices together, so its share of one choice is known only where the others' ids are.
  const others = answer.choices.reduce((sum, other) => sum + (other.tokenIds?.length ?? 0), -ids);
  const { completionTokens } = answer;
  const agreed = ids === logprobs && (answer.ending === "aborted" || completionTokens === ids + others);
  if (agreed) return null;
  const counted = completionTokens === null ? "not told" : String(completionTokens);
  const along = others > 0 ? ` with ${others} ids in the other choices` : "";
  return `counts disagree: ${name} has ${ids} ids and ${logprobs} log-probs, usage.completion_tokens is ${counted}${along}`;
}

function whyNoLogprob(logprobs: Float32Array | null, name: string): string | null {
  if (logprobs === null) return null;
  for (let index = 0; index < logprobs.length; index++) {
    const logprob = logprobs[index] as number;
    if (Number.isFinite(logprob) && logprob > NO_LOGPROB) continue;
    const told = Number.isNaN(logprob) ? "NaN or null" : String(logprob);
    return `${name} has no log-prob for generated token ${index} (the engine told ${told})`;
  }
  return null;
}

export interface Finish {
  readonly reason: string | null;
  /** Tokens that the choice generated, as far as they are known. */
  readonly generatedLength: number;
  /** The request's limit; null where it set none. */
  readonly maxTokens: number | null;
  readonly message: Message;
}

/**
 * The finish reason that the tokens bear out. Some engines say `tool_calls` of an answer that ran into the limit in
 * the middle of a tool call; a client would then run half a call.
 */
export function trueFinishReason(finish: Finish): string | null {
  if (finish.reason !== "tool_calls" || finish.maxTokens === null) return finish.reason;
  return finish.generatedLength >= finish.maxTokens && hasCutToolCall(finish.message)
    ? "length"
    : finish.reason;
}
