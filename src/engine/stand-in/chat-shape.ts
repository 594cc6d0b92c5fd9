// The stand-in's chat completions, whole and as the frames of a stream.
import { MessageJoiner } from "../../dialect/chat.ts";
import { isRecord } from "../../lineage/message.ts";
import {
  allEntries,
  allIds,
  alternatives,
  entryOf,
  inTurns,
  usageFrame,
  usageOf,
  wholeUsage,
  type Asked,
  type LogprobEntry,
  type ToldAnswer,
  type ToldChoice,
} from "./told.ts";

function chatLogprobs(entries: readonly LogprobEntry[] | null, asked: Asked): unknown {
  if (asked.topLogprobs === null || entries === null || entries.length === 0) return null;
  return {
    content: entries.map((entry) => ({
      ...entryOf(entry.token.text, entry.logprob),
      top_logprobs: alternatives(entry, asked),
    })),
  };
}

/** A `chat.completion`. */
export function chatWhole(answer: ToldAnswer): string {
  const { head, asked } = answer;
  return JSON.stringify({
    id: head.id,
    object: "chat.completion",
    created: head.created,
    model: head.model,
    choices: answer.choices.map((choice) => ({
      index: choice.generated.index,
      message: wholeMessage(choice),
      logprobs: chatLogprobs(allEntries(choice), asked),
      finish_reason: choice.generated.finishReason,
      stop_reason: choice.generated.stopReason,
      token_ids: asked.tellIds ? allIds(choice) : null,
      routed_experts: null,
    })),
    service_tier: null,
    system_fingerprint: head.fingerprint,
    ...wholeUsage(answer),
    prompt_logprobs: null,
    prompt_token_ids: asked.tellIds ? answer.promptIds : null,
    prompt_text: null,
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  });
}

function wholeMessage(choice: ToldChoice): Record<string, unknown> {
  const joiner = new MessageJoiner();
  for (const piece of choice.pieces) joiner.add(piece.delta);
  const { content, reasoning, tool_calls: calls } = joiner.message();
  const toolCalls = Array.isArray(calls) ? (calls as unknown[]).map(wholeToolCall) : [];
  return {
    role: "assistant",
    content: content ?? (toolCalls.length > 0 ? null : ""),
    refusal: null,
    annotations: null,
    audio: null,
    function_call: null,
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
    reasoning: reasoning ?? null,
  };
}

/** A call whose arguments were cut off before their first byte still has the field. */
function wholeToolCall(call: unknown): unknown {
  if (!isRecord(call) || !isRecord(call["function"])) return call;
  const { name, arguments: given = "" } = call["function"];
  return { ...call, function: { name, arguments: given } };
}

/** The frames of a streamed chat completion, `[DONE]` the last. */
export function chatFrames(answer: ToldAnswer): string[] {
  const { head, asked } = answer;
  const chunk = (choices: readonly unknown[], rest: Record<string, unknown>): string =>
    JSON.stringify({
      id: head.id,
      object: "chat.completion.chunk",
      created: head.created,
      model: head.model,
      choices,
      ...rest,
    });
  const counted = (completionTokens: number): Record<string, unknown> =>
    asked.continuousUsage
      ? { usage: { ...usageOf(answer.promptIds.length, completionTokens), completion_tokens_details: null } }
      : {};
  const frames = answer.choices.map(({ generated: { index } }) =>
    chunk([{ index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }], {
      ...counted(0),
      prompt_token_ids: asked.tellIds ? answer.promptIds : null,
      prompt_text: null,
    }),
  );
  const pieces = inTurns(answer.choices);
  pieces.forEach(({ choice, piece, last, told }, place) => {
    const { index, finishReason, stopReason } = choice.generated;
    const finish = last ? { finish_reason: finishReason, stop_reason: stopReason } : { finish_reason: null };
    const logprobs = chatLogprobs(piece.entries, asked);
    const ids = asked.tellIds ? (piece.ids === null ? {} : { token_ids: piece.ids }) : { token_ids: null };
    const end = place === pieces.length - 1 && !asked.includeUsage;
    frames.push(
      chunk([{ index, delta: piece.delta, logprobs, ...finish, ...ids }], {
        ...counted(told),
        ...(end ? { system_fingerprint: head.fingerprint } : {}),
      }),
    );
  });
  return [...frames, ...usageFrame(answer, chunk), "[DONE]"];
}
