// The messages that are rendered to find a splice: a history without its reasoning, an answer that ends in a marker,
// and the short conversations that show how a template joins an answer to what follows. Pure.
import { randomBytes } from "node:crypto";
import type { Message } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";

/**
 * Two words that begin and end in letters of their own, so that no token of one is a token of the other at either end;
 * new in each process, so that no agent can have written one. Letters alone: tokenizers part them from what follows.
 */
export const MARKER: string = `Q${randomWord()}z`;
export const OTHER_MARKER: string = `W${randomWord()}v`;

function randomWord(): string {
  return [...randomBytes(10)].map((byte) => "bcdfghjklmnprstx"[byte & 15]).join("");
}

/** `text`, or so many tool calls: answers of one kind are joined to what follows in one way. */
export interface AnswerKind {
  readonly toolCalls: number;
}

/** Null for an answer that this cannot mark: a legacy function call, a tool call without a function. */
export function answerKind(answer: Message): AnswerKind | null {
  if (isRecord(answer["function_call"])) return null;
  const calls = answer["tool_calls"];
  if (!Array.isArray(calls) || calls.length === 0) return { toolCalls: 0 };
  return calls.every((call: unknown) => isRecord(call) && isRecord(call["function"]))
    ? { toolCalls: calls.length }
    : null;
}

/** The answer as one of its kind that ends in the marker. */
export function markedAnswer(answer: Message, marker: string): Message {
  const calls = answer["tool_calls"];
  if (!Array.isArray(calls) || calls.length === 0) return { role: "assistant", content: marker };
  const given = JSON.stringify({ marker });
  return {
    ...withoutReasoning(answer),
    tool_calls: calls.map((call: unknown, index) => {
      if (index < calls.length - 1 || !isRecord(call) || !isRecord(call["function"])) return call;
      return { ...call, function: { ...call["function"], arguments: given } };
    }),
  };
}

/** Reasoning of an answer stands beside its content, or in front of it up to `</think>`. */
export function withoutReasoning(message: Message): Message {
  if (message["role"] !== "assistant") return message;
  const { reasoning: _reasoning, reasoning_content: _content, thinking: _thinking, ...rest } = message;
  const { content } = rest;
  if (typeof content !== "string") return rest;
  const end = content.lastIndexOf("</think>");
  return end === -1 ? rest : { ...rest, content: content.slice(end + "</think>".length).trimStart() };
}

export interface JointMessages {
  readonly base: readonly Message[];
  readonly otherAnswer: readonly Message[];
  readonly otherNext: readonly Message[] | null;
  readonly asText: readonly Message[] | null;
}

/** The conversations of `JointRenderings` in splice.ts. `nextRole` is null where nothing follows the answer. */
export function jointMessages(answer: Message, nextRole: string | null): JointMessages {
  const user: Message = { role: "user", content: "Go on." };
  const marked = markedAnswer(answer, MARKER);
  const next = nextMessages(answer, nextRole, MARKER);
  return {
    base: [user, marked, ...next],
    otherAnswer: [user, markedAnswer(answer, OTHER_MARKER), ...next],
    otherNext: nextRole === null ? null : [user, marked, ...nextMessages(answer, nextRole, OTHER_MARKER)],
    asText:
      (answerKind(answer)?.toolCalls ?? 0) === 0
        ? null
        : [user, { role: "assistant", content: MARKER }, ...next],
  };
}

/** One message of the role; for `tool`, one for each call that the answer made, since some templates count them. */
function nextMessages(answer: Message, role: string | null, content: string): readonly Message[] {
  if (role === null) return [];
  const calls = Array.isArray(answer["tool_calls"]) ? (answer["tool_calls"] as unknown[]) : [];
  if (role !== "tool" || calls.length === 0) return [{ role, content }];
  return calls.filter(isRecord).map((call) => ({
    role,
    tool_call_id: call["id"] ?? "call",
    content,
  }));
}
