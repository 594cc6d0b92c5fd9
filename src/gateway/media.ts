// Digests of the media in a request's messages, in order. Two images of one size expand to the same token ids, so the
// ids alone do not say what the model saw.
import { createHash } from "node:crypto";
import type { Message } from "../lineage/call.ts";
import { canonicalJson, isRecord } from "../lineage/message.ts";

const TEXT_PARTS: ReadonlySet<unknown> = new Set([
  "text",
  "input_text",
  "output_text",
  "refusal",
  "reasoning",
  "thinking",
  "tool-call",
  "tool_call",
]);

/**
 * Hex SHA-256 of each image, sound, video or file part: over its bytes where the part holds them (a data URL), over
 * its address where it names them. How finely an image is looked at (`detail`) changes its tokens, not what it is.
 */
export function mediaDigests(messages: readonly Message[]): readonly string[] {
  const digests: string[] = [];
  for (const { content } of messages as readonly { readonly content?: unknown }[]) {
    if (!Array.isArray(content)) continue;
    for (const part of content as readonly unknown[]) {
      if (isRecord(part) && !TEXT_PARTS.has(part["type"])) digests.push(mediaDigest(part));
    }
  }
  return digests;
}

function mediaDigest(part: Readonly<Record<string, unknown>>): string {
  const { cache_control: _hint, detail: _detail, ...rest } = part;
  const image = rest["image_url"] ?? rest["video_url"] ?? rest["audio_url"];
  const url = isRecord(image) ? image["url"] : image;
  const hash = createHash("sha256");
  return hash.update(typeof url === "string" ? url : canonicalJson(rest)).digest("hex");
}
