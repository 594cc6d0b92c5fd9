// An engine that does what a test says, without HTTP: for what no server does on demand.
import type { Engine, EngineReply, EngineRequest } from "../../engine/engine.ts";
import type { Json } from "./gateway-under-test.ts";

/** An engine whose `chat` is the given function; everything else is the engine's own. */
export function withChat(engine: Engine, chat: Engine["chat"]): Engine {
  return {
    kind: engine.kind,
    url: engine.url,
    logprobsMode: engine.logprobsMode,
    chat,
    models: (signal) => engine.models(signal),
    detokenize: (ids, signal) => engine.detokenize(ids, signal),
    rescore: (ids, signal) => engine.rescore(ids, signal),
    close: () => engine.close(),
  };
}

/** One chunk of choice 0 with one token. */
export function chunk(text: string, finishReason: string | null = null): Json {
  return {
    id: "engine-id",
    object: "chat.completion.chunk",
    created: 1,
    model: "engine-model",
    choices: [
      {
        index: 0,
        delta: { content: text },
        logprobs: { content: [{ token: text, logprob: -0.5, bytes: null, top_logprobs: [] }] },
        finish_reason: finishReason,
      },
    ],
  };
}

/** A reply of choice 0 with so many tokens. */
export function replyOf(
  ending: EngineReply["ending"],
  tokens: number,
  fields: Partial<EngineReply> = {},
): EngineReply {
  return {
    ending,
    error: null,
    promptTokenIds: Uint32Array.of(1, 2, 3),
    choices: [
      {
        index: 0,
        tokenIds: Uint32Array.from({ length: tokens }, (_, index) => 100 + index),
        logprobs: new Float32Array(tokens).fill(-0.5),
        message: { role: "assistant", content: "whole" },
        finishReason: ending === "complete" ? "stop" : null,
        weightVersions: [],
        untrainable: null,
      },
    ],
    usage: null,
    json: null,
    ...fields,
  };
}

/** Streams chunks for as long as anybody takes them, then says that it was stopped. */
export async function streamUntilAborted(
  request: EngineRequest,
  text: string,
  onTaken: (chunks: number) => void,
): Promise<EngineReply> {
  let taken = 0;
  while (!request.signal.aborted && taken < 1_000) {
    await request.onChunk?.({ json: chunk(text), terminal: false });
    taken += 1;
    onTaken(taken);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return replyOf("aborted", taken);
}
