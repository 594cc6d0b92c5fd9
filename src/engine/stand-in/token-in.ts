// The stand-in's token-in routes, in the shapes of vLLM 0.32.0 with --enable-scale-out: what a chat request renders
// to, what is told of an answer that was generated from ids, and the message that is read out of ids.
import { isRecord } from "../../lineage/message.ts";
import { badField, type Body } from "./request.ts";
import { specialId, type Tokenizer } from "./tokenizer.ts";
import { allEntries, entryOf, inTurns, usageOf, wholeUsage, alternatives } from "./told.ts";
import type { LogprobEntry, ToldAnswer, ToldChoice } from "./told.ts";

/** Without a limit the stand-in answers in few tokens; not as many as vLLM's own default of 16, which is left out. */
const DEFAULT_MAX_TOKENS = 15;
/** What generating without a limit comes to. */
const UNLIMITED = 4_096;

/** The answer of `/v1/chat/completions/render`, which is a body for `/inference/v1/generate`. */
export function rendered(
  body: Body,
  ids: readonly number[],
  given: { readonly model: string; readonly room: number },
): string {
  const limit = body["max_completion_tokens"] ?? body["max_tokens"] ?? null;
  return JSON.stringify({
    request_id: "chatcmpl-rendered",
    token_ids: ids,
    token_offsets: null,
    features: null,
    sampling_params: {
      n: body["n"] ?? 1,
      temperature: body["temperature"] ?? 1,
      seed: body["seed"] ?? null,
      stop: body["stop"] ?? [],
      stop_token_ids: body["stop_token_ids"] ?? [],
      ignore_eos: body["ignore_eos"] ?? false,
      min_tokens: body["min_tokens"] ?? 0,
      // vLLM leaves out what is its own default, and takes what is left out for no limit.
      ...(limit === 16 ? {} : { max_tokens: limit ?? Math.min(DEFAULT_MAX_TOKENS, given.room) }),
      logprobs: body["logprobs"] === true ? (body["top_logprobs"] ?? 0) : null,
      output_kind: 2,
      // Who asks, and the marked faults: what a chat completion would have read from the request itself.
      extra_args: { user: body["user"] ?? "", last: lastMarked(body["messages"]) },
    },
    model: given.model,
    return_token_ids: null,
    output_mode: "tokens",
    stream: body["stream"] === true,
    cache_salt: body["cache_salt"] ?? null,
    priority: 0,
  });
}

function lastMarked(messages: unknown): string {
  const last = JSON.stringify(Array.isArray(messages) ? (messages as unknown[]).at(-1) : null) ?? "";
  return last.includes("@@fault:") ? last : "";
}

export interface GenerateAsked {
  /** The same settings where a text completion has them. */
  readonly body: Body;
  readonly ids: readonly unknown[];
  readonly mode: "tokens" | "text";
}

export function readGenerate(body: Body): GenerateAsked {
  const ids = body["token_ids"];
  if (!Array.isArray(ids)) throw badField("body.token_ids", "Field required");
  const sampling = isRecord(body["sampling_params"]) ? body["sampling_params"] : {};
  const { extra_args: extra, max_tokens: maxTokens, ...settings } = sampling;
  const { user = "", last = "" } = isRecord(extra) ? extra : {};
  return {
    ids: ids as unknown[],
    mode: body["output_mode"] === "text" ? "text" : "tokens",
    body: {
      ...settings,
      max_tokens: maxTokens ?? UNLIMITED,
      user,
      prompt: last,
      model: body["model"],
      stream: body["stream"],
      ...(body["stream"] === true ? { stream_options: { include_usage: true } } : {}),
      return_token_ids: body["return_token_ids"],
    },
  };
}

export interface GenerateTold {
  readonly answer: ToldAnswer;
  readonly mode: "tokens" | "text";
  /** Of the first token. */
  readonly weightVersion: string;
  readonly change: { readonly at: number; readonly version: string } | null;
  /** Answers end in a stop token. The `bare` template has none, and answers just end, which no real engine's do. */
  readonly stopToken: boolean;
}

export function generateWhole(told: GenerateTold): string {
  const { answer } = told;
  return JSON.stringify({
    request_id: `generate-tokens-${answer.head.id}`,
    model: answer.head.model,
    created: answer.head.created,
    ...wholeUsage(answer),
    prompt_logprobs: null,
    prompt_token_ids: answer.asked.tellIds ? answer.promptIds : null,
    output_mode: told.mode,
    choices: answer.choices.map((choice) => {
      const ids = choice.pieces.flatMap((piece) => piece.ids ?? []);
      return {
        index: choice.generated.index,
        finish_reason: finishOf(choice),
        stop_reason: stopReasonOf(choice, told),
        token_ids: ids,
        weight_versions: spansOf(told, ids.length),
        ...(told.mode === "text" ? { text: choice.pieces.map((piece) => textOf(piece.delta)).join("") } : {}),
        logprobs: logprobsOf(allEntries(choice), told),
      };
    }),
  });
}

export function generateFrames(told: GenerateTold): string[] {
  const { answer } = told;
  const head = { request_id: `generate-tokens-${answer.head.id}`, output_mode: told.mode };
  const begun = new Set<number>();
  const frames = inTurns(answer.choices).map(({ choice, piece, last, told: count }) => {
    const first = begun.size === 0;
    begun.add(choice.generated.index);
    const body = {
      index: choice.generated.index,
      finish_reason: last ? finishOf(choice) : null,
      stop_reason: last ? stopReasonOf(choice, told) : null,
      token_ids: piece.ids ?? [],
      weight_versions: last ? spansOf(told, count) : null,
      ...(told.mode === "text" ? { text: textOf(piece.delta) } : {}),
      logprobs: logprobsOf(piece.entries, told),
    };
    return JSON.stringify({
      ...head,
      usage: null,
      ...(first && answer.asked.tellIds ? { prompt_token_ids: answer.promptIds } : {}),
      choices: [body],
    });
  });
  const usage = usageOf(answer.promptIds.length, answer.completionTokens ?? 0);
  return [...frames, JSON.stringify({ ...head, usage, choices: [] }), "[DONE]"];
}

/** A stop string of no length says that the last token is none. */
function stopReasonOf({ generated }: ToldChoice, { stopToken }: GenerateTold): string | number | null {
  return stopToken ? generated.stopReason : (generated.stopReason ?? "");
}

/** Whoever generates from ids reads no tool calls. */
function finishOf({ generated }: ToldChoice): string {
  return generated.finishReason === "tool_calls" ? "stop" : generated.finishReason;
}

function textOf(delta: Readonly<Record<string, unknown>>): string {
  return typeof delta["content"] === "string" ? delta["content"] : "";
}

function spansOf({ weightVersion, change }: GenerateTold, length: number): readonly unknown[] {
  if (length === 0) return [];
  if (change === null || change.at >= length) return [{ version: weightVersion, start: 0, end: length }];
  return [
    { version: weightVersion, start: 0, end: change.at },
    { version: change.version, start: change.at, end: length },
  ];
}

function logprobsOf(entries: readonly LogprobEntry[] | null, { answer, mode }: GenerateTold): unknown {
  if (answer.asked.topLogprobs === null || entries === null || entries.length === 0) return null;
  return {
    content: entries.map((entry) =>
      mode === "text"
        ? {
            ...entryOf(entry.token.text, entry.logprob),
            top_logprobs: alternatives(entry, answer.asked),
          }
        : { token_id: entry.token.id, logprob: entry.logprob, rank: 1, top_logprobs: [] },
    ),
  };
}

/** The answer of `/v1/chat/completions/derender`: messages read out of ids. */
export function derendered(
  body: Body,
  tokenizer: Tokenizer,
  options: { readonly readsReasoning: boolean; readonly idPrefix: string },
): string {
  const response = body["generate_response"];
  const choices =
    isRecord(response) && Array.isArray(response["choices"]) ? (response["choices"] as unknown[]) : null;
  if (choices === null) throw badField("body.generate_response.choices", "Field required");
  return JSON.stringify({
    id: isRecord(response) ? (response["request_id"] ?? "derendered") : "derendered",
    object: "chat.completion",
    created: 0,
    model: body["model"] ?? null,
    choices: choices.filter(isRecord).map((choice, place) => {
      const ids = Array.isArray(choice["token_ids"]) ? (choice["token_ids"] as number[]) : [];
      return {
        index: choice["index"] ?? place,
        message: readMessage(ids, tokenizer, options),
        logprobs: namedLogprobs(choice["logprobs"], tokenizer),
        // As vLLM has it: `stop` where there are tool calls too.
        finish_reason: choice["finish_reason"] ?? null,
        stop_reason: choice["stop_reason"] ?? null,
        token_ids: null,
      };
    }),
    prompt_token_ids: null,
  });
}

function namedLogprobs(logprobs: unknown, tokenizer: Tokenizer): unknown {
  const content = isRecord(logprobs) ? logprobs["content"] : null;
  if (!Array.isArray(content)) return null;
  return {
    content: (content as unknown[]).filter(isRecord).map((entry) => ({
      ...entryOf(tokenizer.detokenize([Number(entry["token_id"])]) ?? "", Number(entry["logprob"])),
      logprob: entry["logprob"],
      top_logprobs: [],
    })),
  };
}

function readMessage(
  ids: readonly number[],
  tokenizer: Tokenizer,
  options: { readonly readsReasoning: boolean; readonly idPrefix: string },
): Record<string, unknown> {
  // A stop token at the end is written out like any other, as vLLM does where there are tools.
  let rest = [...ids];
  let reasoning: string | null = null;
  const thoughtEnd = rest.indexOf(specialId("</think>"));
  if (options.readsReasoning && rest[0] === specialId("<think>") && thoughtEnd !== -1) {
    reasoning = tokenizer.detokenize(rest.slice(1, thoughtEnd));
    rest = rest.slice(thoughtEnd + 1);
  }
  const calls: unknown[] = [];
  for (;;) {
    const start = rest.indexOf(specialId("<tool_call>"));
    const end = rest.indexOf(specialId("</tool_call>"), start);
    if (start === -1 || end === -1) break;
    calls.push(
      readToolCall(
        tokenizer.detokenize(rest.slice(start + 1, end)) ?? "",
        `${options.idPrefix}${calls.length}`,
      ),
    );
    rest = [...rest.slice(0, start), ...rest.slice(end + 1)];
  }
  const content = tokenizer.detokenize(rest) ?? "";
  return {
    role: "assistant",
    content: content === "" && calls.length > 0 ? null : content,
    refusal: null,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    reasoning,
  };
}

/** `{"name":"...","arguments":...}`: the arguments stay as they were written. */
function readToolCall(text: string, id: string): Record<string, unknown> {
  const at = text.indexOf(',"arguments":');
  const name: unknown = JSON.parse(text.slice('{"name":'.length, at));
  return { id, type: "function", function: { name, arguments: text.slice(at + ',"arguments":'.length, -1) } };
}
