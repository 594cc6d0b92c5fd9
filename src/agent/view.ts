// Guards on the view that a policy chose, and whether a view goes on from an earlier one. What a template cannot
// render or what would put words into the model's mouth is refused here, before the engine is asked.
import { AgentError } from "./agent-error.ts";
import type { ChatMessage } from "./chat-client.ts";
import { withoutImages } from "./images.ts";

/**
 * Throws `invalid_view` where the view is empty, lost the history's system message, holds an assistant or tool message
 * that history does not have (images may be left out), parts a tool call from its result, or is longer, in JSON
 * characters, than the view that it replaces.
 */
export function checkView(
  view: readonly ChatMessage[],
  history: readonly ChatMessage[],
  before: readonly ChatMessage[] = history,
): void {
  if (!Array.isArray(view) || view.length === 0) throw fault("it must be a list of at least one message");
  checkKnown(view, history);
  checkToolPairs(view);
  const [first] = history;
  if (first !== undefined && isSystem(first) && !sameMessage(first, view[0] as ChatMessage)) {
    throw fault("it must start with the history's system message");
  }
  if (view === before || continues(before, view)) return;
  const length = JSON.stringify(view).length;
  const allowed = JSON.stringify(before).length;
  if (length > allowed) {
    throw fault(`it has ${length} characters, and going on without a rewrite would have ${allowed}`);
  }
}

function checkKnown(view: readonly ChatMessage[], history: readonly ChatMessage[]): void {
  const known = new Set(history);
  let written: Set<string> | null = null;
  for (const [index, message] of view.entries()) {
    if (typeof message?.role !== "string") throw fault(`message ${index} has no role`);
    if ((message.role !== "assistant" && message.role !== "tool") || known.has(message)) continue;
    written ??= new Set(
      history.flatMap((said) => [JSON.stringify(said), JSON.stringify(withoutImages(said))]),
    );
    if (!written.has(JSON.stringify(message))) {
      throw fault(`message ${index} (${message.role}) is not in the history, which a policy cannot edit`);
    }
  }
}

/** Each result behind its call, and no other message between a call and its results. */
function checkToolPairs(view: readonly ChatMessage[]): void {
  const called = new Set<string>();
  let open = new Set<string>();
  for (const [index, message] of view.entries()) {
    if (message.role === "tool") {
      const id = String(message.tool_call_id);
      if (!called.has(id))
        throw fault(`message ${index} is the result of ${id}, whose call is not before it`);
      open.delete(id);
      continue;
    }
    if (open.size > 0) {
      const ids = [...open].join(", ");
      throw fault(`message ${index} (${message.role}) comes before the result of the tool call ${ids}`);
    }
    open = new Set(toolCallIds(message));
    for (const id of open) called.add(id);
  }
  if (open.size > 0) throw fault(`it ends without the result of the tool call ${[...open].join(", ")}`);
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

export function sameMessage(one: ChatMessage, other: ChatMessage): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
