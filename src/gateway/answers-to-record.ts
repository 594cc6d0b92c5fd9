// From what the engine replied, and what of it the client got, to what is recorded: one answer a choice.
import { whyUntrainable } from "../engine/completeness.ts";
import type { EngineChoice, EngineReply } from "../engine/engine.ts";
import type { Message, WeightVersionSpan } from "../lineage/call.ts";
import type { AnswerToRecord } from "./recorder.ts";

/** What the trainer had told when the engine was asked, and when it had answered; null: nothing yet. */
export interface ToldWeights {
  readonly before: string | null;
  readonly after: string | null;
}

/** What reached the client of one choice. */
export interface Delivered {
  /** Null where something was delivered and the engine told no log-probs by which its tokens could be counted. */
  readonly tokens: number | null;
  readonly message: Message | null;
}

const NOTHING: Pick<AnswerToRecord, "tokenIds" | "logprobs" | "message" | "finishReason" | "untrainable"> = {
  tokenIds: new Uint32Array(),
  logprobs: new Float32Array(),
  message: null,
  finishReason: null,
  untrainable: null,
};

/** A whole answer. A choice that the engine left out has failed; one too many makes the others doubtful. */
export function committedAnswers(
  choices: number,
  reply: EngineReply,
  weights: ToldWeights,
): AnswerToRecord[] {
  const extra =
    reply.choices.length > choices
      ? `the engine gave ${reply.choices.length} choices where ${choices} were asked for`
      : null;
  return Array.from({ length: choices }, (_, index) => {
    const choice = reply.choices.find((candidate) => candidate.index === index);
    if (choice === undefined) return failedAnswer(`the engine gave no choice ${index}`);
    return {
      status: "committed",
      statusDetail: null,
      promptTokenIds: reply.promptTokenIds,
      tokenIds: choice.tokenIds,
      logprobs: choice.logprobs,
      message: choice.message,
      finishReason: choice.finishReason,
      untrainable: choice.untrainable ?? extra,
      ...weightsOf(choice, weights),
    };
  });
}

/**
 * An answer that broke off: each choice ends with the last token that was delivered, and trains only where ids and
 * log-probs agree up to there. `reply` is null where the engine had not begun.
 */
export function abortedAnswers(
  choices: number,
  reply: EngineReply | null,
  given: {
    readonly detail: string;
    readonly weights: ToldWeights;
    readonly delivered: (index: number) => Delivered;
  },
): AnswerToRecord[] {
  return Array.from({ length: choices }, (_, index) => {
    const choice = reply?.choices.find((candidate) => candidate.index === index);
    const base = { status: "aborted", statusDetail: given.detail, finishReason: "abort" } as const;
    const promptTokenIds = reply?.promptTokenIds ?? null;
    if (choice === undefined) {
      return { ...NOTHING, ...base, promptTokenIds, ...weightsOf(null, given.weights) };
    }
    return {
      ...base,
      promptTokenIds,
      ...deliveredOf(choice, promptTokenIds, given.delivered(index), given.weights),
    };
  });
}

function deliveredOf(
  choice: EngineChoice,
  promptTokenIds: Uint32Array | null,
  { tokens, message }: Delivered,
  weights: ToldWeights,
): Pick<AnswerToRecord, "tokenIds" | "logprobs" | "message" | "untrainable" | "weightVersions" | "notes"> {
  const { tokenIds, logprobs } = choice;
  if (tokens === null) {
    const untrainable = choice.untrainable ?? "which of its tokens were delivered is not known";
    return { tokenIds, logprobs, message, untrainable, ...weightsOf(choice, weights) };
  }
  const kept = { tokenIds: tokenIds.slice(0, tokens), logprobs: logprobs.slice(0, tokens) };
  return {
    ...kept,
    message: tokens > 0 && tokens >= tokenIds.length ? choice.message : message,
    untrainable: prefixFault(choice.index, promptTokenIds, kept, tokens),
    ...weightsOf(choice, weights, kept.tokenIds.length),
  };
}

export function failedAnswers(choices: number, detail: string): AnswerToRecord[] {
  return Array.from({ length: choices }, () => failedAnswer(detail));
}

function failedAnswer(detail: string): AnswerToRecord {
  return {
    ...NOTHING,
    status: "failed",
    statusDetail: detail,
    promptTokenIds: null,
    weightVersions: [],
    notes: [],
  };
}

function prefixFault(
  index: number,
  promptTokenIds: Uint32Array | null,
  { tokenIds, logprobs }: Pick<AnswerToRecord, "tokenIds" | "logprobs">,
  delivered: number,
): string | null {
  if (tokenIds.length < delivered) {
    return `${delivered} tokens of choices[${index}] were delivered, the engine told ${tokenIds.length} ids`;
  }
  const choice = { index, tokenIds, logprobs, finished: false, fault: null };
  return whyUntrainable(choice, {
    promptTokenIds,
    promptFault: null,
    choices: [choice],
    completionTokens: null,
    ending: "aborted",
  });
}

/** The engine's own word first, then what the trainer told, which cannot say where within an answer it changed. */
function weightsOf(
  choice: EngineChoice | null,
  { before, after }: ToldWeights,
  length = Number.POSITIVE_INFINITY,
): { readonly weightVersions: readonly WeightVersionSpan[]; readonly notes: readonly string[] } {
  const told = choice?.weightVersions ?? [];
  if (told.length > 0) {
    return { weightVersions: told.filter(({ start }) => start === 0 || start < length), notes: [] };
  }
  const weightVersions = [{ version: before ?? "unknown", start: 0 }];
  if (before === after) {
    return {
      weightVersions,
      notes: before === null ? [] : [`weights ${before} by the trainer's word, not the engine's`],
    };
  }
  const note = `weights went from ${before ?? "unknown"} to ${after ?? "unknown"} during the call; at which token is not known`;
  return { weightVersions, notes: [note] };
}
