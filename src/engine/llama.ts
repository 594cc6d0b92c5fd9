// The adapter for the llama.cpp server: token-in alone. Its chat completions tell no prompt ids, so a call that goes
// the text way is answered and cannot train. `/apply-template` and `/tokenize` render, `/completion` generates from
// ids. Shapes as the server in xllamacpp 2026.10 writes them (docs/engines/llama-cpp.md).
import { CoppiceError } from "../errors.ts";
import { parseEngineJson } from "../dialect/engine-json.ts";
import { isRecord } from "../lineage/message.ts";
import { EngineHttp, type EngineHttpOptions } from "./engine-http.ts";
import type { Engine } from "./engine.ts";
import { LlamaTokenIn } from "./llama-token-in.ts";
import { vllmEngine } from "./vllm.ts";

/** Limit for the short questions that have no signal of their own, in milliseconds. */
const QUESTION_TIMEOUT_MS = 10_000;

export function llamaEngine(options: EngineHttpOptions): Engine {
  const chat = vllmEngine({ ...options, kind: "llama.cpp", askWhole: false });
  const http = new EngineHttp(options);
  return {
    kind: "llama.cpp",
    url: http.url,
    // Before temperature and all other samplers.
    logprobsMode: "raw",
    tokenIn: new LlamaTokenIn(http),
    chat: (request) => chat.chat(request),
    models: (signal) => chat.models(signal),
    detokenize: (ids, signal) => detokenize(http, ids, signal),
    async rescore() {
      throw new CoppiceError(
        "engine_error",
        `the llama.cpp server at ${http.url} tells no log-probs of a prompt, so nothing can be re-scored`,
      );
    },
    async close() {
      await Promise.all([chat.close(), http.close()]);
    },
  };
}

async function detokenize(
  http: EngineHttp,
  ids: Uint32Array,
  signal: AbortSignal = AbortSignal.timeout(QUESTION_TIMEOUT_MS),
): Promise<string | null> {
  if (ids.length === 0) return "";
  try {
    const answer = await http.send("POST", "/detokenize", JSON.stringify({ tokens: [...ids] }), signal);
    const json = parseEngineJson(await http.text(answer), "the engine's answer to /detokenize");
    const content = isRecord(json) ? json["content"] : null;
    return typeof content === "string" ? content : null;
  } catch (error) {
    if (error instanceof CoppiceError || signal.aborted) return null;
    throw error;
  }
}
