// A view cut into units that stay valid whichever of them are left out: an assistant message with all that follows it up
// to the next one, so that tool calls keep their results. What compaction policies choose among.
import type { ChatMessage } from "./chat-client.ts";
import { sameMessage } from "./view.ts";

export interface Units {
  /** The head's messages that the view begins with: system message and task. */
  readonly head: readonly ChatMessage[];
  /** The first may have no assistant message: a summary, or an observation before the first answer. */
  readonly units: readonly (readonly ChatMessage[])[];
}

export function unitsOf(view: readonly ChatMessage[], head: readonly ChatMessage[]): Units {
  const differs = head.findIndex(
    (message, index) => view[index] === undefined || !sameMessage(message, view[index]),
  );
  const start = differs === -1 ? head.length : differs;
  const units: ChatMessage[][] = [];
  for (const message of view.slice(start)) {
    const last = units.at(-1);
    if (last === undefined || message.role === "assistant") units.push([message]);
    else last.push(message);
  }
  return { head: view.slice(0, start), units };
}

/** JSON characters: what a view is weighed by where nobody counts tokens. */
export function sizeOf(messages: readonly ChatMessage[]): number {
  return messages.reduce((size, message) => size + JSON.stringify(message).length + 1, 0);
}
