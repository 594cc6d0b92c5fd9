// The choices of an internal answer or chunk, as far as codecs read them.
import { isRecord } from "../lineage/message.ts";
import type { Json } from "./dialect.ts";

export function choicesOf(json: Json): readonly Json[] {
  const choices = json["choices"];
  return Array.isArray(choices) ? choices.filter(isRecord) : [];
}

/** The first choice; null for a chunk without any, such as the one that tells the usage. */
export function choiceOf(json: Json): Json | null {
  return choicesOf(json).find(({ index }) => index === 0 || typeof index !== "number") ?? null;
}

export function indexOf(choice: Json): number {
  return typeof choice["index"] === "number" ? choice["index"] : 0;
}

export function isFinish(choice: Json): choice is Json & { readonly finish_reason: string } {
  return typeof choice["finish_reason"] === "string";
}
