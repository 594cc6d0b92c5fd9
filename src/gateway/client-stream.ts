// One server-sent-event answer on its way to a client: back-pressure, heartbeats, and an end that is either clean (with
// the dialect's terminator) or visibly not. It knows no dialect: whole events are handed to it as text.
import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { ClientLine } from "./client-line.ts";

/** How long a client may take to read why its stream broke. */
const FAIL_WITHIN_MS = 2000;

export class ClientStream {
  readonly #response: ServerResponse;
  readonly #signal: AbortSignal;
  readonly #copy: ClientLine["copy"];
  readonly #start: () => void;
  readonly #heartbeat: NodeJS.Timeout;
  #started = false;
  #ended = false;

  /**
   * @param line the client's end; its signal is aborted once nobody waits for the answer any more
   * @param heartbeat what is sent where nothing else was for so long
   * @param start sends status and headers; called before the first byte, which may be a heartbeat: past that time an
   *   idle connection is in more danger than a status that would have come later
   */
  constructor(
    response: ServerResponse,
    line: Pick<ClientLine, "signal" | "copy">,
    heartbeat: { readonly everyMs: number; readonly text: () => string },
    start: () => void,
  ) {
    this.#response = response;
    this.#signal = line.signal;
    this.#copy = line.copy;
    this.#start = start;
    this.#heartbeat = setTimeout(() => {
      // A client that does not read has bytes of ours waiting: no need for more.
      if (!this.#response.writableNeedDrain) this.#beat(heartbeat.text());
      this.#heartbeat.refresh();
    }, heartbeat.everyMs);
  }

  /** A byte was sent: from here on an error can only be an event. */
  get started(): boolean {
    return this.#started;
  }

  /** False where the client is gone, so that the text did not reach it. */
  write(text: string): boolean {
    if (!this.#ended) this.#copy.take(text);
    return this.#send(text);
  }

  /** Comments are no part of the answer; what some dialects send instead may begin it. */
  #beat(text: string): void {
    if (text.startsWith(":")) this.#send(text);
    else this.write(text);
  }

  #send(text: string): boolean {
    if (this.#ended || this.#response.destroyed) return false;
    if (!this.#started) {
      this.#started = true;
      this.#start();
    }
    this.#response.write(text);
    this.#heartbeat.refresh();
    return true;
  }

  /** Resolves once the client took what was written, or nobody waits; nothing where there is nothing to wait for. */
  drained(): Promise<void> | undefined {
    const response = this.#response;
    const signal = this.#signal;
    if (!response.writableNeedDrain || response.destroyed || signal.aborted) return undefined;
    return new Promise((resolve) => {
      const done = (): void => {
        response.off("drain", done);
        response.off("close", done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      response.on("drain", done);
      response.on("close", done);
      signal.addEventListener("abort", done);
    });
  }

  /** The clean end: `text` holds the terminator. */
  finish(text: string): void {
    this.write(text);
    this.stop();
    this.#response.end();
  }

  /**
   * The end after a failure: the event that tells it, then the connection breaks, so that nobody takes it for an end.
   * Resolves once it is broken.
   */
  async fail(event: string): Promise<void> {
    this.stop();
    const response = this.#response;
    if (response.destroyed) return;
    await new Promise<void>((resolve) => {
      // A client that reads nothing would keep the connection for ever.
      const bound = setTimeout(() => response.destroy(), FAIL_WITHIN_MS);
      response.once("close", () => {
        clearTimeout(bound);
        resolve();
      });
      response.write(event, () => response.destroy());
    });
  }

  /** No more heartbeats; nothing was sent, or nothing more will be. */
  stop(): void {
    this.#ended = true;
    clearTimeout(this.#heartbeat);
  }
}

export const STREAM_HEADERS: OutgoingHttpHeaders = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache",
  // nginx and its kin would collect the events otherwise.
  "x-accel-buffering": "no",
};
