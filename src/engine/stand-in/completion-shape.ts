// The stand-in's text completions, whole and as the frames of a stream.
import type { Delta } from "./answer.ts";
import {
  allEntries,
  allIds,
  alternatives,
  inTurns,
  usageFrame,
  wholeUsage,
  type Asked,
  type LogprobEntry,
  type ToldAnswer,
} from "./told.ts";

/** `logprobs` of a text completion; offsets count characters from the start of the answer. */
function textLogprobs(entries: readonly LogprobEntry[] | null, asked: Asked, offset: number): unknown {
  if (asked.topLogprobs === null || entries === null || entries.length === 0) return null;
  let at = offset;
  const offsets = entries.map(({ token }) => {
    const start = at;
    at += token.text.length;
    return start;
  });
  // 0 asks for the sampled token's own, which stands among the top ones all the same.
  const top = { ...asked, topLogprobs: Math.max(1, asked.topLogprobs) };
  return {
    text_offset: offsets,
    token_logprobs: entries.map(({ logprob }) => logprob),
    tokens: entries.map(({ token }) => token.text),
    top_logprobs: entries.map((entry) =>
      Object.fromEntries(alternatives(entry, top).map(({ token, logprob }) => [token, logprob])),
    ),
  };
}

function textOf(delta: Delta): string {
  return typeof delta["content"] === "string" ? delta["content"] : "";
}

/** A `text_completion`; `promptLogprobs` where they were asked for. */
export function completionWhole(answer: ToldAnswer, promptLogprobs: readonly unknown[] | null): string {
  const { head, asked } = answer;
  return JSON.stringify({
    id: head.id,
    object: "text_completion",
    created: head.created,
    model: head.model,
    choices: answer.choices.map((choice) => ({
      index: choice.generated.index,
      text: choice.pieces.map((piece) => textOf(piece.delta)).join(""),
      logprobs: textLogprobs(allEntries(choice), asked, 0),
      finish_reason: choice.generated.finishReason,
      stop_reason: choice.generated.stopReason,
      token_ids: asked.tellIds ? allIds(choice) : null,
      prompt_logprobs: promptLogprobs,
      prompt_token_ids: asked.tellIds ? answer.promptIds : null,
      routed_experts: null,
    })),
    service_tier: null,
    system_fingerprint: head.fingerprint,
    ...wholeUsage(answer),
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  });
}

/** The frames of a streamed text completion, `[DONE]` the last. */
export function completionFrames(answer: ToldAnswer): string[] {
  const { head, asked } = answer;
  const chunk = (choices: readonly unknown[], rest: Record<string, unknown>): string =>
    JSON.stringify({
      id: head.id,
      object: "text_completion",
      created: head.created,
      model: head.model,
      choices,
      ...rest,
    });
  const offsets = new Map<number, number>();
  const pieces = inTurns(answer.choices);
  const frames = pieces.map(({ choice, piece, last, told }, place) => {
    const { index, finishReason, stopReason } = choice.generated;
    const offset = offsets.get(index) ?? 0;
    offsets.set(
      index,
      (piece.entries ?? []).reduce((sum, { token }) => sum + token.text.length, offset),
    );
    const end = place === pieces.length - 1 && !asked.includeUsage;
    const body = {
      index,
      text: textOf(piece.delta),
      logprobs: textLogprobs(piece.entries, asked, offset),
      finish_reason: last ? finishReason : null,
      stop_reason: last ? stopReason : null,
      prompt_token_ids: asked.tellIds && told === 1 ? answer.promptIds : null,
      token_ids: asked.tellIds ? piece.ids : null,
    };
    return chunk([body], end ? { system_fingerprint: head.fingerprint } : {});
  });
  return [...frames, ...usageFrame(answer, chunk), "[DONE]"];
}
