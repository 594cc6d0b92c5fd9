// From what an engine generated from ids, and how it was parsed, to the reply that the text way gives too: a Chat
// Completions body, and for each choice its tokens with the verdict on them. Pure.
import type { WeightVersionSpan } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";
import { trueFinishReason, whyUntrainable, type ToldAnswer } from "./completeness.ts";
import type { EngineChoice, EngineReply } from "./engine.ts";
import { commonPrefix } from "./splice.ts";
import type { Generated, GeneratedChoice, ParsedChoice } from "./token-in.ts";
import { completionTokens } from "./vllm-answer.ts";

export interface TokenInReply {
  readonly body: Readonly<Record<string, unknown>>;
  /** The prompt that was sent. */
  readonly ids: Uint32Array;
  readonly generated: Generated;
  /** One a generated choice. */
  readonly parsed: readonly ParsedChoice[];
}

export function tokenInReply(told: TokenInReply): EngineReply {
  const { body, ids, generated } = told;
  const promptFault = promptFaultOf(ids, generated);
  const answer: ToldAnswer = {
    promptTokenIds: ids,
    promptFault,
    choices: generated.choices.map((choice) => ({ ...choice, finished: choice.finishReason !== null })),
    completionTokens: completionTokens(generated.usage),
    ending: generated.ending === "complete" ? "whole" : generated.ending,
  };
  const maxTokens = body["max_completion_tokens"] ?? body["max_tokens"];
  const choices = generated.choices.map((choice, place): EngineChoice => {
    const { message, finishReason } = told.parsed[place] as ParsedChoice;
    return {
      index: choice.index,
      tokenIds: choice.tokenIds ?? new Uint32Array(),
      logprobs: choice.logprobs ?? new Float32Array(),
      message,
      finishReason: trueFinishReason({
        reason: finishReason,
        generatedLength: choice.tokenIds?.length ?? 0,
        maxTokens: typeof maxTokens === "number" ? maxTokens : null,
        message,
      }),
      weightVersions: choice.weightVersions,
      untrainable: whyUntrainable(answer.choices[place] as (typeof answer.choices)[number], answer),
    };
  });
  const { ending, error, usage, streamed } = generated;
  const json = streamed || ending !== "complete" ? null : completionJson(told, choices);
  return { ending, error, promptTokenIds: ids, choices, usage, json };
}

/** Ids in must be ids read: an engine that adds or cuts any has answered another prompt. */
function promptFaultOf(ids: Uint32Array, { promptTokenIds, promptLength }: Generated): string | null {
  if (promptTokenIds !== null) {
    const same = commonPrefix(ids, promptTokenIds);
    if (same < ids.length || same < promptTokenIds.length) {
      return `the engine read another prompt than it was sent: from token ${same} on`;
    }
  } else if (promptLength !== null && promptLength !== ids.length) {
    return `the engine read ${promptLength} prompt tokens, it was sent ${ids.length}`;
  }
  return null;
}

function completionJson(told: TokenInReply, choices: readonly EngineChoice[]): Record<string, unknown> {
  const { body, ids, generated, parsed } = told;
  const keepIds = body["return_token_ids"] === true;
  return {
    object: "chat.completion",
    created: createdOf(generated),
    choices: choices.map((choice, place) => ({
      index: choice.index,
      message: choice.message,
      logprobs: logprobsOf((parsed[place] as ParsedChoice).entries),
      finish_reason: choice.finishReason,
      stop_reason: (generated.choices[place] as GeneratedChoice).stopReason ?? null,
      ...(keepIds ? { token_ids: [...choice.tokenIds] } : {}),
    })),
    ...(generated.usage === null ? {} : { usage: generated.usage }),
    ...(keepIds ? { prompt_token_ids: [...ids] } : {}),
  };
}

function createdOf({ json }: Generated): number {
  const created = json?.["created"];
  return typeof created === "number" ? created : Math.floor(Date.now() / 1000);
}

function logprobsOf(entries: readonly unknown[] | null): unknown {
  return entries === null || entries.length === 0 ? null : { content: entries };
}

/** Spans as engines tell them. `default` alone is an engine's word for "nobody has told me". */
export function readWeightVersions(told: unknown): readonly WeightVersionSpan[] {
  if (!Array.isArray(told)) return [];
  const spans = (told as unknown[]).filter(isRecord).map(({ version, start }) => ({
    version: String(version),
    start: typeof start === "number" ? start : Number.NaN,
  }));
  const readable = spans.every(({ start }, place) => {
    const least = place === 0 ? 0 : (spans[place - 1] as WeightVersionSpan).start + 1;
    return Number.isInteger(start) && (place === 0 ? start === 0 : start >= least);
  });
  return readable && spans.some(({ version }) => version !== "default") ? spans : [];
}
