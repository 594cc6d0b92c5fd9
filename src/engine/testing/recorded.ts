// Exchanges recorded from a real vLLM 0.32.0 server with a small model (SmolLM2-135M), bodies byte for byte.
import { readFileSync } from "node:fs";

export interface Recorded {
  readonly name: string;
  readonly request: { readonly method: string; readonly path: string; readonly body: unknown };
  readonly response: { readonly status: number; readonly content_type: string | null; readonly body: string };
}

const FILE = new URL("fixtures/vllm-0.32.0.json", import.meta.url);

export const RECORDED: readonly Recorded[] = JSON.parse(readFileSync(FILE, "utf8")) as Recorded[];

/** The body of one recorded answer. */
export function recordedBody(name: string): string {
  return recorded(name).response.body;
}

export function recorded(name: string): Recorded {
  const found = RECORDED.find((exchange) => exchange.name === name);
  if (found === undefined) throw new Error(`no recorded exchange is called ${name}`);
  return found;
}
