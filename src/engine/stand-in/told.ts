// What is told of an answer, and the parts that chat and text completions have in common. The byte shapes are those of
// vLLM 0.32.0: order of fields, nulls and what is left out as recorded in ../testing/fixtures.
import type { Delta, Generated, GeneratedToken } from "./answer.ts";
import { mix } from "./model.ts";

/** What of an answer is told, after faults: lists may be shorter or longer than the tokens. */
export interface ToldChoice {
  readonly generated: Generated;
  readonly pieces: readonly ToldPiece[];
}

/** One chunk's worth of a choice. */
export interface ToldPiece {
  readonly delta: Delta;
  /** Null: the field is left out. */
  readonly ids: readonly number[] | null;
  /** Tokens whose log-probs stand here; null: no log-probs. */
  readonly entries: readonly LogprobEntry[] | null;
}

export interface LogprobEntry {
  readonly token: GeneratedToken;
  readonly logprob: number;
}

export interface AnswerHead {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly fingerprint: string;
}

export interface Asked {
  /** Null: no log-probs; else so many alternatives. */
  readonly topLogprobs: number | null;
  /** Ids were asked for and are told. */
  readonly tellIds: boolean;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  /** Text of a word that was not sampled, for alternatives. */
  readonly wordText: (id: number) => string;
}

export interface ToldAnswer {
  readonly head: AnswerHead;
  readonly asked: Asked;
  readonly promptIds: readonly number[];
  readonly choices: readonly ToldChoice[];
  /** Null: usage is not told. */
  readonly completionTokens: number | null;
}

export interface Entry {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}

export function entryOf(token: string, logprob: number): Entry {
  return { token, logprob, bytes: [...Buffer.from(token)] };
}

/** Alternatives are words a little less likely than the sampled one. */
export function alternatives({ token, logprob }: LogprobEntry, asked: Asked): Entry[] {
  const top = asked.topLogprobs ?? 0;
  const others = Array.from({ length: Math.max(0, top - 1) }, (_, rank) => {
    const id = 1_000 + ((mix(token.context.a, rank + 1) >>> 0) % 50_000);
    return entryOf(asked.wordText(id), Math.fround(logprob - 0.5 * (rank + 1)));
  });
  return top === 0 ? [] : [entryOf(token.text, logprob), ...others];
}

export function usageOf(promptTokens: number, completionTokens: number): Record<string, unknown> {
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
    completion_tokens: completionTokens,
  };
}

export function wholeUsage(answer: ToldAnswer): Record<string, unknown> {
  if (answer.completionTokens === null) return {};
  const usage = usageOf(answer.promptIds.length, answer.completionTokens);
  return { usage: { ...usage, prompt_tokens_details: null, completion_tokens_details: null } };
}

export function allIds(choice: ToldChoice): number[] | null {
  return choice.pieces.some((piece) => piece.ids !== null)
    ? choice.pieces.flatMap((piece) => piece.ids ?? [])
    : choice.pieces.length === 0
      ? []
      : null;
}

export function allEntries(choice: ToldChoice): LogprobEntry[] | null {
  return choice.pieces.some((piece) => piece.entries !== null)
    ? choice.pieces.flatMap((piece) => piece.entries ?? [])
    : null;
}

export function usageFrame(
  answer: ToldAnswer,
  chunk: (choices: readonly unknown[], rest: Record<string, unknown>) => string,
): string[] {
  if (!answer.asked.includeUsage || answer.completionTokens === null) return [];
  const usage = usageOf(answer.promptIds.length, answer.completionTokens);
  return [chunk([], { usage, system_fingerprint: answer.head.fingerprint })];
}

export interface Turn {
  readonly choice: ToldChoice;
  readonly piece: ToldPiece;
  readonly last: boolean;
  /** Pieces of this choice up to and including this one. */
  readonly told: number;
}

const EMPTY_PIECE: ToldPiece = { delta: {}, ids: [], entries: null };

/** The choices' pieces in turns, as they are generated side by side. A choice without any still tells its end. */
export function inTurns(choices: readonly ToldChoice[]): Turn[] {
  const turns: Turn[] = [];
  const longest = Math.max(0, ...choices.map((choice) => Math.max(1, choice.pieces.length)));
  for (let place = 0; place < longest; place++) {
    for (const choice of choices) {
      const length = Math.max(1, choice.pieces.length);
      if (place >= length) continue;
      const piece = choice.pieces[place] ?? EMPTY_PIECE;
      turns.push({ choice, piece, last: place === length - 1, told: place + 1 });
    }
  }
  return turns;
}
