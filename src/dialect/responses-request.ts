// A Responses request as the one internal form. Fields that engines know under other names are translated, those that
// only mean something on OpenAI's own servers are set aside by name (docs/dialects.md has the table), the rest goes on.
import type { Message } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";
import type { ClientRequest, Json, StoredAnswer } from "./dialect.ts";
import { optionalFlag, optionalString, refused, shown, without, wrong } from "./request-fields.ts";
import { readItemId } from "./responses-ids.ts";
import { messagesOfInput } from "./responses-items.ts";
import { readToolChoice, readTools, type ResponsesTools } from "./responses-tools.ts";

/** What of a request its answer repeats, or is written by. */
export interface ResponsesAsked {
  readonly echoed: Json;
  readonly namespaced: ResponsesTools["namespaced"];
  /** The reasoning is told as a summary, because one was asked for. */
  readonly asSummary: boolean;
  readonly sealsReasoning: boolean;
  readonly wantsLogprobs: boolean;
}

/** Read into other fields of the engine's request. */
const TRANSLATED = [
  "input",
  "instructions",
  "tools",
  "tool_choice",
  "max_output_tokens",
  "reasoning",
  "text",
  "include",
  "previous_response_id",
  "stream",
  "stream_options",
  "top_logprobs",
];

/** They steer OpenAI's own servers and change nothing of what a model is asked. */
const SET_ASIDE = [
  "store",
  "metadata",
  "client_metadata",
  "prompt_cache_key",
  "prompt_cache_retention",
  "safety_identifier",
  "service_tier",
  "user",
  "truncation",
  "max_tool_calls",
  "background",
];

const NOT_PASSED: ReadonlySet<string> = new Set([...TRANSLATED, ...SET_ASIDE]);

const REFUSED: Readonly<Record<string, string>> = {
  conversation: "conversations are not kept; send the items, or previous_response_id",
  prompt: "there are no stored prompts; send the instructions and the input",
  context_management: "the context is the agent's own; compact it there",
};

/** Of a call whose first message begins with the request's `instructions`. */
const INSTRUCTIONS_NOTE = "its instructions are the first part of messages[0]";

export function neededResponses(body: Json): readonly string[] {
  const ids = new Set<string>();
  const { previous_response_id: previous, input } = body;
  if (typeof previous === "string" && previous !== "") ids.add(previous);
  for (const item of Array.isArray(input) ? (input as unknown[]) : []) {
    if (!isRecord(item) || item["type"] !== "item_reference") continue;
    const reference = readItemId(item["id"]);
    if (reference !== null) ids.add(reference.responseId);
  }
  return [...ids];
}

export interface DecodedResponses extends Omit<ClientRequest, "writer"> {
  readonly asked: ResponsesAsked;
}

export function decodeResponses(body: Json, stored: ReadonlyMap<string, StoredAnswer>): DecodedResponses {
  for (const [field, why] of Object.entries(REFUSED)) {
    if (body[field] !== undefined && body[field] !== null) throw refused(field, why);
  }
  if (optionalFlag(body, "background")) throw refused("background", "answers are given while you wait");
  const tools = readTools(body["tools"]);
  const { messages, notes } = readMessages(body, stored);
  const include = readInclude(body["include"]);
  const choice = readToolChoice(body["tool_choice"]);
  const reasoning = isRecord(body["reasoning"]) ? body["reasoning"] : {};
  const wantsLogprobs = include.has("message.output_text.logprobs") || positive(body["top_logprobs"]);
  const chat: Record<string, unknown> = {
    ...without(body, NOT_PASSED),
    messages,
    ...(tools.tools.length === 0 ? {} : { tools: tools.tools }),
    ...(choice === undefined || tools.tools.length === 0 ? {} : { tool_choice: choice }),
    ...lengthLimit(body["max_output_tokens"]),
    ...effort(reasoning["effort"], "reasoning.effort"),
    ...responseFormat(body["text"]),
    ...(wantsLogprobs ? { logprobs: true, top_logprobs: topLogprobs(body["top_logprobs"]) } : {}),
  };
  if (tools.tools.length === 0) delete chat["parallel_tool_calls"];
  return {
    body: chat,
    kind: "chat",
    messages,
    stream: optionalFlag(body, "stream"),
    choices: 1,
    model: optionalString(body, "model"),
    notes: [...notes, ...tools.notes],
    asked: {
      echoed: echoed(body),
      namespaced: tools.namespaced,
      asSummary: wantsSummary(reasoning),
      sealsReasoning: include.has("reasoning.encrypted_content"),
      wantsLogprobs,
    },
  };
}

function readMessages(
  body: Json,
  stored: ReadonlyMap<string, StoredAnswer>,
): { readonly messages: readonly Message[]; readonly notes: readonly string[] } {
  const instructions = optionalString(body, "instructions");
  const previous = optionalString(body, "previous_response_id");
  const history: Message[] = instructions === null ? [] : [{ role: "system", content: instructions }];
  if (previous !== null) {
    const answer = stored.get(previous);
    if (answer === undefined) {
      throw wrong("previous_response_id", previous, "the id of an earlier answer of this rollout");
    }
    history.push(...withoutInstructions(answer), answer.answer);
  }
  const messages = joinSystemMessages([...history, ...messagesOfInput(body["input"] ?? [], stored)]);
  if (messages.length === 0) throw wrong("input", body["input"], "a text or items, at least one");
  return { messages, notes: instructions === null ? [] : [INSTRUCTIONS_NOTE] };
}

/** Instructions are of one request only: those of the earlier one do not go on. */
function withoutInstructions({ messages, notes }: StoredAnswer): readonly Message[] {
  const [first, ...others] = messages;
  if (first === undefined || !notes.includes(INSTRUCTIONS_NOTE)) return messages;
  const parts = Array.isArray(first["content"]) ? first["content"].slice(1) : [];
  return parts.length === 0 ? others : [{ ...first, content: parts }, ...others];
}

/** System messages at the head are one: many templates allow no second. */
function joinSystemMessages(messages: readonly Message[]): readonly Message[] {
  const end = messages.findIndex(({ role }) => role !== "system");
  const count = end === -1 ? messages.length : end;
  if (count < 2) return messages;
  const parts = messages.slice(0, count).flatMap(({ content }) => {
    return typeof content === "string" ? [{ type: "text", text: content }] : content;
  });
  return [{ role: "system", content: parts }, ...messages.slice(count)];
}

function readInclude(include: unknown): ReadonlySet<unknown> {
  if (include === undefined || include === null) return new Set();
  if (!Array.isArray(include)) throw wrong("include", include, "a list of texts");
  return new Set<unknown>(include);
}

export function lengthLimit(limit: unknown): Json {
  return limit === undefined || limit === null ? {} : { max_tokens: limit };
}

/** Engines know three efforts, and none at all. */
const EFFORTS: Readonly<Record<string, string>> = {
  none: "none",
  minimal: "low",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
  max: "high",
};

export function effort(asked: unknown, field: string): Json {
  if (asked === undefined || asked === null) return {};
  const known = typeof asked === "string" && Object.hasOwn(EFFORTS, asked) ? EFFORTS[asked] : undefined;
  if (known === undefined) throw wrong(field, asked, `one of ${Object.keys(EFFORTS).join(", ")}`);
  return { reasoning_effort: known };
}

function responseFormat(text: unknown): Json {
  const format = isRecord(text) ? text["format"] : undefined;
  if (format === undefined || format === null) return {};
  if (!isRecord(format)) throw wrong("text.format", format, "an object");
  const { type, ...schema } = format;
  if (type === "text") return {};
  if (type === "json_object") return { response_format: { type } };
  if (type === "json_schema") return { response_format: { type, json_schema: schema } };
  throw refused("text.format.type", `engines know no format ${shown(type)}`);
}

function wantsSummary({ summary, generate_summary: older }: Json): boolean {
  return typeof (summary ?? older) === "string";
}

function positive(value: unknown): boolean {
  return typeof value === "number" && value > 0;
}

function topLogprobs(asked: unknown): unknown {
  return asked ?? 0;
}

/** Fields of a response that repeat the request, with what they are where it does not say. */
function echoed(body: Json): Json {
  const or = (field: string, other: unknown): unknown => body[field] ?? other;
  const reasoning = isRecord(body["reasoning"]) ? body["reasoning"] : {};
  const text = isRecord(body["text"]) ? body["text"] : {};
  return {
    instructions: or("instructions", null),
    max_output_tokens: or("max_output_tokens", null),
    max_tool_calls: or("max_tool_calls", null),
    metadata: or("metadata", {}),
    parallel_tool_calls: or("parallel_tool_calls", true),
    previous_response_id: or("previous_response_id", null),
    prompt_cache_key: or("prompt_cache_key", null),
    reasoning: { effort: reasoning["effort"] ?? null, summary: reasoning["summary"] ?? null },
    safety_identifier: or("safety_identifier", null),
    service_tier: or("service_tier", "default"),
    store: or("store", true),
    temperature: or("temperature", null),
    text: { ...text, format: text["format"] ?? { type: "text" } },
    tool_choice: or("tool_choice", "auto"),
    tools: or("tools", []),
    top_logprobs: or("top_logprobs", 0),
    top_p: or("top_p", null),
    truncation: or("truncation", "disabled"),
    user: or("user", null),
  };
}
