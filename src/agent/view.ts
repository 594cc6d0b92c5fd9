// Guards on the view that a policy chose, and whether a view goes on from an earlier one. What a template cannot
// render or what would put words into the model's mouth is refused here, before the engine is asked.
import { AgentError } from "./agent-error.ts";
import type { ChatMessage } from "./chat-client.ts";

/**
 * Throws `invalid_view` where the view is empty, lost the history's system message, holds an assistant or tool message
 * that history does not have, or a tool's result without its call before it.
 */
export function checkView(view: readonly ChatMessage[], history: readonly ChatMessage[]): void {
  if (!Array.isArray(view) || view.length === 0) throw fault("it must be a list of at least one message");
  const known = new Set(history);
  let written: Set<string> | null = null;
  const open = new Set<string>();
  for (const [index, message] of view.entries()) {
    if (typeof message?.role !== "string") throw fault(`message ${index} has no role`);
    const bound = message.role === "assistant" || message.role === "tool";
    if (bound && !known.has(message)) {
      written ??= new Set(history.map((said) => JSON.stringify(said)));
      if (!written.has(JSON.stringify(message))) {
        throw fault(`message ${index} (${message.role}) is not in the history, which a policy cannot edit`);
      }
    }
    for (const id of toolCallIds(message)) open.add(id);
    if (message.role === "tool" && !open.has(message.tool_call_id ?? "")) {
      throw fault(
        `message ${index} is the result of ${String(message.tool_call_id)}, whose call is not before it`,
      );
    }
  }
  const [first] = history;
  if (first !== undefined && isSystem(first) && !sameMessage(first, view[0] as ChatMessage)) {
    throw fault("it must start with the history's system message");
  }
}

function fault(why: string): AgentError {
  return new AgentError("invalid_view", `the policy's view cannot be asked: ${why}`);
}

function isSystem(message: ChatMessage): boolean {
  return message.role === "system" || message.role === "developer";
}

function toolCallIds(message: ChatMessage): readonly string[] {
  if (!Array.isArray(message.tool_calls)) return [];
  return message.tool_calls.flatMap((call: unknown) =>
    typeof call === "object" && call !== null && "id" in call && typeof call.id === "string" ? [call.id] : [],
  );
}

/** True where `view` starts with all of `start`. Messages that are the same object cost nothing to compare. */
export function continues(view: readonly ChatMessage[], start: readonly ChatMessage[]): boolean {
  return (
    start.length <= view.length &&
    start.every((message, index) => sameMessage(message, view[index] as ChatMessage))
  );
}

function sameMessage(one: ChatMessage, other: ChatMessage): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
