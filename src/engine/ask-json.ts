// One question to an engine and its JSON answer: what refuses, breaks off or cannot be read is one CoppiceError.
import { CoppiceError } from "../errors.ts";
import { parseEngineJson } from "../dialect/engine-json.ts";
import { isRecord } from "../lineage/message.ts";
import { errorInside, type EngineHttp } from "./engine-http.ts";

export interface Question {
  readonly path: string;
  /** Null asks with GET. */
  readonly body: Readonly<Record<string, unknown>> | null;
  readonly signal: AbortSignal;
}

/** Throws `engine_error` or `engine_unreachable`; where the signal fired, what it gives as its reason. */
export async function askJson(
  http: EngineHttp,
  { path, body, signal }: Question,
): Promise<Readonly<Record<string, unknown>>> {
  const sent = body === null ? null : JSON.stringify(body);
  const answer = await http.send(body === null ? "GET" : "POST", path, sent, signal);
  return readObject(await http.text(answer), http, path);
}

/** The object that an answer is. Throws `engine_error` where it is none, or holds an error. */
export function readObject(
  text: string,
  http: Pick<EngineHttp, "url">,
  path: string,
): Readonly<Record<string, unknown>> {
  const json = parseEngineJson(text, `the answer of the engine at ${http.url} to ${path}`);
  if (!isRecord(json)) {
    throw new CoppiceError(
      "engine_error",
      `the engine's answer to ${path} is no object: ${text.slice(0, 80)}`,
    );
  }
  const error = errorInside(json, http.url);
  if (error !== null) throw error;
  return json;
}
