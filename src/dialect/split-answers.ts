// One agent library sends an answer that had reasoning back in pieces: a message with the reasoning alone, one with the
// text, one with the tool calls. A template would render three turns where the model had one, and the history would go
// on from nothing. The pieces are joined again; a reasoning without any content (null, not empty) begins them.
import type { Message } from "../lineage/call.ts";

export interface JoinedMessages {
  /** The same list where nothing was joined. */
  readonly messages: readonly Message[];
  readonly notes: readonly string[];
}

export function joinSplitAnswers(messages: readonly Message[]): JoinedMessages {
  if (!messages.some(isReasoningAlone)) return { messages, notes: [] };
  const joined: Message[] = [];
  const notes: string[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at] as Message;
    const pieces = isReasoningAlone(message) ? piecesAfter(messages, at) : [];
    if (pieces.length === 0) joined.push(message);
    else {
      joined.push(pieces.reduce(joinPiece, message));
      notes.push(`joined: messages[${at}] to messages[${at + pieces.length}], the pieces of one answer`);
      at += pieces.length;
    }
  }
  return { messages: joined, notes };
}

function piecesAfter(messages: readonly Message[], at: number): readonly Message[] {
  const pieces: Message[] = [];
  const next = messages[at + 1];
  if (next !== undefined && isTextAlone(next)) pieces.push(next);
  const last = messages[at + 1 + pieces.length];
  if (last !== undefined && isAssistant(last) && last["content"] === null && hasCalls(last))
    pieces.push(last);
  return pieces;
}

/** The text stays as it came; copies of what stands beside it inside its parts say nothing new. */
function joinPiece(joined: Message, piece: Message): Message {
  const { content, ...rest } = piece;
  return { ...joined, ...rest, content: content ?? joined["content"] };
}

function isReasoningAlone(message: Message): boolean {
  const reasoning = message["reasoning"] ?? message["reasoning_content"];
  return (
    isAssistant(message) && typeof reasoning === "string" && message["content"] === null && !hasCalls(message)
  );
}

function isTextAlone(message: Message): boolean {
  const { content } = message;
  return (
    isAssistant(message) && !hasCalls(message) && (typeof content === "string" || Array.isArray(content))
  );
}

function isAssistant(message: Message): boolean {
  return message["role"] === "assistant";
}

function hasCalls(message: Message): boolean {
  return Array.isArray(message["tool_calls"]) && message["tool_calls"].length > 0;
}
