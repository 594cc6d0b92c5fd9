// One stream of a vLLM server being read: events in, chunks handed on with the back-pressure of whoever takes them. What
// the chunks hold is gathered by vllm-stream.ts.
import { CoppiceError, messageOf } from "../errors.ts";
import { SseReader, type SseEvent } from "../dialect/sse.ts";
import { errorInside, type EngineAnswer } from "./engine-http.ts";
import type { EngineRequest } from "./engine.ts";
import { DONE, framesOf, type StreamGathering } from "./vllm-stream.ts";

/** One of the two ways to ask for text. */
export interface CompletionApi {
  readonly kind: "chat" | "text";
  readonly path: string;
  /** An answer, or a chunk of it, in the chat shape. */
  readonly asChat: (json: Record<string, unknown>, streamed: boolean) => Record<string, unknown>;
}

/** One stream being read: what of it has been handed on. */
export class StreamReading {
  /** `[DONE]`, or the end of a stream whose choices had all finished. */
  done = false;
  /** Chunks that were handed on. */
  chunks = 0;
  /** What `onChunk` threw. */
  callerError: Error | null = null;
  readonly #gathering: StreamGathering;
  readonly #request: EngineRequest;
  readonly #url: string;
  readonly #api: CompletionApi;
  #events: SseEvent[] = [];

  constructor(
    gathering: StreamGathering,
    request: EngineRequest,
    from: { readonly url: string; readonly api: CompletionApi },
  ) {
    this.#gathering = gathering;
    this.#request = request;
    this.#url = from.url;
    this.#api = from.api;
  }

  /** Returns at the end of the answer, throws where it is broken or aborted. */
  async read(answer: EngineAnswer, maxEventBytes: number): Promise<void> {
    const reader = new SseReader((event) => this.#events.push(event), { maxEventBytes });
    const pieces = answer.body.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>;
    for await (const piece of pieces) {
      let fault: unknown = null;
      try {
        reader.feed(piece);
      } catch (error) {
        fault = error;
      }
      // Events before the faulty one are whole, wherever the pieces were cut.
      await this.#handOn();
      if (fault !== null) throw fault;
      if (this.done) return this.#checkFinished();
    }
    reader.end();
    await this.#handOn();
    this.done = true;
    this.#checkFinished();
  }

  async #handOn(): Promise<void> {
    if (this.#events.length === 0) return;
    const events = this.#events;
    this.#events = [];
    for (const event of events) {
      for (const frame of framesOf(event)) {
        if (this.done) return;
        if (frame === DONE) this.done = true;
        else await this.#takeFrame(frame);
      }
    }
  }

  async #takeFrame(frame: string): Promise<void> {
    this.#request.signal.throwIfAborted();
    const json = this.#gathering.parse(frame);
    const error = errorInside(json, this.#url);
    if (error !== null) throw error;
    const chunk = this.#gathering.take(this.#api.asChat(json, true));
    this.chunks += 1;
    try {
      // Awaited only where there is something to wait for: a turn of the event loop per token adds up.
      const delivered = this.#request.onChunk?.(chunk);
      if (delivered !== undefined) await delivered;
    } catch (error) {
      this.callerError = error instanceof Error ? error : new Error(messageOf(error));
      throw error;
    }
  }

  #checkFinished(): void {
    if (this.#gathering.finished) return;
    throw new CoppiceError(
      "engine_error",
      `the stream of the engine at ${this.#url} ended before every choice had told its finish reason`,
    );
  }
}
