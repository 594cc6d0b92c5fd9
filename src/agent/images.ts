// Images in chat messages: counting them, and leaving them out with a note in their place, which is the one change that
// a view may make to what was said.
import { deepFreeze, type ChatMessage } from "./chat-client.ts";

const LEFT_OUT: Readonly<Record<string, string>> = Object.freeze({
  type: "text",
  text: "[image left out]",
});

function isImage(part: unknown): boolean {
  const type = typeof part === "object" && part !== null && "type" in part ? part.type : null;
  return type === "image_url" || type === "image" || type === "input_image";
}

export function imageCount({ content }: ChatMessage): number {
  return Array.isArray(content) ? content.filter(isImage).length : 0;
}

/** The message with a note for each image; the same object where it has none. */
export function withoutImages(message: ChatMessage): ChatMessage {
  const { content } = message;
  if (imageCount(message) === 0 || !Array.isArray(content)) return message;
  return deepFreeze({ ...message, content: content.map((part) => (isImage(part) ? LEFT_OUT : part)) });
}
