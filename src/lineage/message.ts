// Messages compared by meaning. Agents re-serialise what they send back: a string becomes a list of text parts,
// arguments lose their spaces, `reasoning` comes back as `reasoning_content` or not at all. What must stay equal is
// the role, the text, media, tool names, tool-call ids and the parsed arguments; everything else is set aside.
// A digest chain over a request's messages tells in one lookup whether it goes on from an earlier request.
import { createHash } from "node:crypto";
import type { Message } from "./call.ts";

/** Digest before the first message. */
export const NO_MESSAGES = "";

/** The digest of a history with one more message: hex of SHA-256(previous, meaning). */
export function extendMessages(previous: string, message: Message): string {
  return createHash("sha256").update(previous).update(meaningOf(message)).digest("hex").slice(0, 32);
}

/**
 * The digest after each message: `result[i]` covers messages 0 to i. It starts from the digest of what else a prompt is
 * rendered from (tools, template options), so that equal messages under other tools are no continuation.
 */
export function digestMessages(messages: readonly Message[], context: string = NO_MESSAGES): string[] {
  let digest = context;
  return messages.map((message) => (digest = extendMessages(digest, message)));
}

export function sameMeaning(one: Message, other: Message): boolean {
  return meaningOf(one) === meaningOf(other);
}

/** A canonical text of what the message means; equal exactly for messages that mean the same. */
export function meaningOf(message: Message): string {
  const role = message["role"] === "developer" ? "system" : message["role"];
  const toolCalls = Array.isArray(message["tool_calls"]) ? message["tool_calls"].map(toolCallMeaning) : [];
  const parts = contentParts(message["content"] ?? message["refusal"]);
  const legacy = message["function_call"];
  if (isRecord(legacy)) toolCalls.push(toolCallMeaning({ function: legacy }));
  return JSON.stringify([role ?? null, parts, toolCalls, message["tool_call_id"] ?? null]);
}

/** The text of a message without its media, as a person would read it. */
export function textOf(message: Message): string {
  return contentParts(message["content"])
    .map((part) => (typeof part === "string" ? part : ""))
    .join("");
}

/** Text parts that stand side by side are one text; the outer blanks do not count. */
function contentParts(content: unknown): (string | { readonly media: string })[] {
  if (content === null || content === undefined) return [];
  if (typeof content === "string") return trimmed([content]);
  if (!Array.isArray(content)) return [{ media: canonicalJson(content) }];
  const parts: (string | { readonly media: string })[] = [];
  for (const part of content) {
    const text = partText(part);
    const last = parts.at(-1);
    if (text === null) parts.push({ media: canonicalJson(withoutHints(part)) });
    else if (typeof last === "string") parts[parts.length - 1] = last + text;
    else parts.push(text);
  }
  return trimmed(parts);
}

function trimmed(parts: (string | { readonly media: string })[]): (string | { readonly media: string })[] {
  return parts.map((part) => (typeof part === "string" ? part.trim() : part)).filter((part) => part !== "");
}

function partText(part: unknown): string | null {
  if (typeof part === "string") return part;
  if (!isRecord(part)) return null;
  const type = part["type"];
  if (type === "text" || type === "input_text" || type === "output_text") return stringOr(part["text"]);
  if (type === "refusal") return stringOr(part["refusal"]);
  // Copies of tool calls and reasoning inside the content repeat what stands beside it.
  if (type === "tool-call" || type === "tool_call" || type === "reasoning" || type === "thinking") return "";
  return null;
}

function stringOr(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function withoutHints(part: unknown): unknown {
  if (!isRecord(part)) return part;
  const { cache_control: _cacheControl, ...rest } = part;
  return rest;
}

function toolCallMeaning(call: unknown): unknown {
  if (!isRecord(call)) return call;
  const target = isRecord(call["function"])
    ? call["function"]
    : isRecord(call["custom"])
      ? call["custom"]
      : call;
  const given = target["arguments"] ?? target["input"] ?? null;
  return [call["id"] ?? null, target["name"] ?? null, argumentsMeaning(given)];
}

/** Arguments that parse are compared as values (1.0 is 1, key order is free), others as they stand. */
function argumentsMeaning(given: unknown): string {
  if (typeof given !== "string") return canonicalJson(given);
  try {
    return canonicalJson(JSON.parse(given));
  } catch (error) {
    if (error instanceof SyntaxError) return JSON.stringify(given);
    throw error;
  }
}

/** JSON with sorted keys, without nulls in objects. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) => {
    if (!isRecord(inner)) return inner;
    const entries = Object.entries(inner).filter(([, entry]) => entry !== null && entry !== undefined);
    return Object.fromEntries(entries.sort(([one], [other]) => (one < other ? -1 : 1)));
  });
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
