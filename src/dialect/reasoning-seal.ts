// Reasoning in the wrappers that other APIs put it in: the signature of a thinking block, and a reasoning item's
// `encrypted_content`. Neither is a secret here. A signature is a mark that a client hands back untouched; a seal holds
// the reasoning itself, so that a client which throws the text away can still give it back.
import { createHash } from "node:crypto";

const SEAL = "coppice.1.";

/** For `encrypted_content`. */
export function seal(reasoning: string): string {
  return SEAL + Buffer.from(reasoning, "utf8").toString("base64url");
}

/** The reasoning that a seal holds; null where it is none of ours. */
export function readSealed(sealed: unknown): string | null {
  if (typeof sealed !== "string" || !sealed.startsWith(SEAL)) return null;
  return Buffer.from(sealed.slice(SEAL.length), "base64url").toString("utf8");
}

/** A signature for a thinking block: the same reasoning has the same. */
export function signatureOf(reasoning: string): string {
  return `coppice-${createHash("sha256").update(reasoning).digest("hex").slice(0, 40)}`;
}
