// A whole `chat.completion` of a vLLM server, read into what the gateway keeps and what the client gets. The body is
// parsed once; ids are taken out of the parsed value, so nothing that is large is built twice.
import { isRecord } from "../lineage/message.ts";
import { CoppiceError } from "../errors.ts";
import { trueFinishReason, whyUntrainable, type ToldAnswer, type ToldChoice } from "./completeness.ts";
import type { EngineChoice, EngineReply } from "./engine.ts";
import { readLogprobs, readTokenIds } from "./told-tokens.ts";
import type { VllmAsked } from "./vllm-request.ts";

/** A choice as it was read: what was told of its tokens, and the message. */
export type ReadChoice = ToldChoice & Pick<EngineChoice, "message" | "finishReason">;

/** Choices with the verdict on each; the text way of vLLM tells no weight versions. */
export function choicesOf(
  read: readonly ReadChoice[],
  answer: Omit<ToldAnswer, "choices">,
): readonly EngineChoice[] {
  const told: ToldAnswer = { ...answer, choices: read };
  return read.map((choice) => ({
    index: choice.index,
    tokenIds: choice.tokenIds ?? new Uint32Array(),
    logprobs: choice.logprobs ?? new Float32Array(),
    message: choice.message,
    finishReason: choice.finishReason,
    weightVersions: [],
    untrainable: whyUntrainable(choice, told),
  }));
}

export function completionTokens(usage: unknown): number | null {
  const count = isRecord(usage) ? usage["completion_tokens"] : null;
  return typeof count === "number" ? count : null;
}

/** Reads a whole answer. Throws `engine_error` where it is none. Takes the ids out of `json` unless they are kept. */
export function readWholeAnswer(json: unknown, asked: VllmAsked): EngineReply {
  if (!isRecord(json) || !Array.isArray(json["choices"])) {
    throw new CoppiceError("engine_error", `the engine's answer has no list of choices: ${excerpt(json)}`);
  }
  const prompt = readTokenIds(json["prompt_token_ids"], "prompt_token_ids");
  const read = json["choices"].map((choice: unknown, place) => readChoice(choice, place, asked));
  const usage = isRecord(json["usage"]) ? json["usage"] : null;
  if (!asked.keepIds) delete json["prompt_token_ids"];
  const choices = choicesOf(read, {
    promptTokenIds: prompt.ids,
    promptFault: prompt.fault,
    completionTokens: completionTokens(usage),
    ending: "whole",
  });
  return { ending: "complete", error: null, promptTokenIds: prompt.ids, choices, usage, json };
}

function readChoice(choice: unknown, place: number, asked: VllmAsked): ReadChoice {
  if (!isRecord(choice) || !isRecord(choice["message"])) {
    throw new CoppiceError(
      "engine_error",
      `the engine's answer has no message in choices[${place}]: ${excerpt(choice)}`,
    );
  }
  const index = typeof choice["index"] === "number" ? choice["index"] : place;
  const { ids: tokenIds, fault } = readTokenIds(choice["token_ids"], `choices[${index}].token_ids`);
  const logprobs = readLogprobs(choice["logprobs"]);
  const message = choice["message"];
  const told = typeof choice["finish_reason"] === "string" ? choice["finish_reason"] : null;
  const generatedLength = tokenIds?.length ?? logprobs?.length ?? 0;
  const finishReason = trueFinishReason({
    reason: told,
    generatedLength,
    maxTokens: asked.maxTokens,
    message,
  });
  if (finishReason !== told) choice["finish_reason"] = finishReason;
  if (!asked.keepIds) delete choice["token_ids"];
  return { index, tokenIds, logprobs, fault, finished: told !== null, message, finishReason };
}

function excerpt(json: unknown): string {
  return (JSON.stringify(json) ?? "nothing").slice(0, 120);
}
