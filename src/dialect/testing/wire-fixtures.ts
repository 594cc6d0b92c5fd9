// Request bodies in the shapes that public clients really send, prose replaced (`wire/`): for parsing, linking and
// comparing, not for token counts. `answered_with` says what the server had answered.
import { readFileSync } from "node:fs";

export interface WireRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
  readonly answered_with?: Readonly<Record<string, unknown>>;
}

/** @param name of the file, without its ending */
export function wireRequests(name: string): readonly WireRequest[] {
  const text = readFileSync(new URL(`./wire/${name}.json`, import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly requests: readonly WireRequest[] }).requests;
}
