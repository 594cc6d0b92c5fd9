// Whether messages hold anything but text. Media expand to ids that depend on their bytes, so a spliced prompt would
// need the engine's own bookkeeping of them: such requests go the text way.
import { isRecord } from "../lineage/message.ts";

const TEXT_PARTS: ReadonlySet<unknown> = new Set([
  "text",
  "input_text",
  "output_text",
  "refusal",
  "reasoning",
  "thinking",
  "tool_call",
  "tool-call",
]);

export function hasMedia(messages: unknown): boolean {
  if (!Array.isArray(messages)) return false;
  return (messages as unknown[]).some((message) => {
    const content = isRecord(message) ? message["content"] : null;
    if (!Array.isArray(content)) return false;
    return (content as unknown[]).some(
      (part) => typeof part !== "string" && !(isRecord(part) && TEXT_PARTS.has(part["type"])),
    );
  });
}
