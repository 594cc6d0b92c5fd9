// What a chat template renders beside the messages. Two requests with equal messages under other tools or template
// options are no continuation of one another, so the digest of these begins the digests of the messages.
import { createHash } from "node:crypto";
import { canonicalJson, NO_MESSAGES } from "../lineage/message.ts";

const TEMPLATE_FIELDS = [
  "tools",
  "functions",
  "documents",
  "chat_template",
  "chat_template_kwargs",
  "reasoning_effort",
  "enable_thinking",
  "thinking",
] as const;

/** `NO_MESSAGES` where the body has nothing of the kind. */
export function contextDigest(body: Readonly<Record<string, unknown>>): string {
  const given = TEMPLATE_FIELDS.flatMap((field) => (isGiven(body[field]) ? [[field, body[field]]] : []));
  // Engines leave the tools out of the prompt where none may be called.
  if (given.some(([field]) => field === "tools") && body["tool_choice"] === "none")
    given.push(["tool_choice", "none"]);
  if (given.length === 0) return NO_MESSAGES;
  return createHash("sha256").update(canonicalJson(given)).digest("hex").slice(0, 32);
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0);
}
