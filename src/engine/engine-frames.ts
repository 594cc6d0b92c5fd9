// The frames of an engine's event stream as they come, each parsed. What they mean is the adapters' business.
import { CoppiceError } from "../errors.ts";
import { parseEngineJson } from "../dialect/engine-json.ts";
import { SseReader } from "../dialect/sse.ts";
import { isRecord } from "../lineage/message.ts";
import { errorInside, type EngineAnswer } from "./engine-http.ts";
import { DONE, framesOf } from "./vllm-stream.ts";

export interface FrameOptions {
  readonly url: string;
  readonly maxEventBytes: number;
}

/**
 * Each frame up to `[DONE]` or the end. Throws `engine_error` for one that cannot be read and for an error that stands
 * in a frame; what the connection throws passes through. A reader that stops early closes the connection.
 */
export async function* readFrames(
  answer: EngineAnswer,
  { url, maxEventBytes }: FrameOptions,
): AsyncGenerator<Record<string, unknown>, void, void> {
  let texts: string[] = [];
  let count = 0;
  const reader = new SseReader((event) => texts.push(...framesOf(event)), { maxEventBytes });
  const parsed = (text: string): Record<string, unknown> => {
    count += 1;
    const json = parseEngineJson(text, `frame ${count} of the engine's stream`);
    if (!isRecord(json)) {
      throw new CoppiceError("engine_error", `frame ${count} of the engine's stream is no object: ${text}`);
    }
    const error = errorInside(json, url);
    if (error !== null) throw error;
    return json;
  };
  for await (const piece of answer.body as AsyncIterable<Uint8Array>) {
    reader.feed(piece);
    const fed = texts;
    texts = [];
    for (const text of fed) {
      if (text === DONE) return;
      yield parsed(text);
    }
  }
  reader.end();
  for (const text of texts) if (text !== DONE) yield parsed(text);
}
