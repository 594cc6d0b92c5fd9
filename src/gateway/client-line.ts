// The client's end of each call in flight: is it still there, and the signal that tells the engine when it is not.
// Three things end a line early: the client goes away, the call's one deadline passes, the gateway shuts down.
import type { Socket } from "node:net";
import { CoppiceError } from "../errors.ts";
import { AnswerCopy } from "./answer-copy.ts";

export type LineEnding = "client_gone" | "deadline" | "shutdown";

export class ClientLine {
  readonly #controller = new AbortController();
  readonly #socket: Socket;
  readonly #onGone = (): void => this.end("client_gone");
  readonly #timer: NodeJS.Timeout;
  readonly #onClose: (line: ClientLine) => void;
  readonly deadlineMs: number;
  readonly copy: AnswerCopy = new AnswerCopy();
  /** The attempt in which the call was committed; null until then. What is left is to deliver the answer. */
  committedIn: number | null = null;
  #ended: LineEnding | null = null;

  constructor(socket: Socket, deadlineMs: number, onClose: (line: ClientLine) => void) {
    this.#socket = socket;
    this.#onClose = onClose;
    this.deadlineMs = deadlineMs;
    this.#timer = setTimeout(() => this.end("deadline"), deadlineMs);
    // `end` comes a turn of the event loop before `close`, and an HTTP/1.1 server answers no half-closed socket.
    socket.on("end", this.#onGone);
    socket.on("close", this.#onGone);
    if (socket.destroyed) this.end("client_gone");
  }

  /** Aborted once nobody waits for the answer any more. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Null while the client waits. */
  get ended(): LineEnding | null {
    return this.#ended;
  }

  end(ending: LineEnding): void {
    if (this.#ended !== null) return;
    this.#ended = ending;
    this.#controller.abort();
  }

  /** The call is answered: nothing that happens to the socket concerns it any more. May be called again. */
  close(): void {
    clearTimeout(this.#timer);
    this.#socket.off("end", this.#onGone);
    this.#socket.off("close", this.#onGone);
    this.#onClose(this);
  }

  /** What a call whose line has ended is answered with; a client that is gone hears nothing of it. */
  error(): CoppiceError {
    switch (this.#ended) {
      case "deadline":
        return new CoppiceError(
          "engine_timeout",
          `the call took longer than its deadline of ${this.deadlineMs} ms`,
        );
      case "shutdown":
        return new CoppiceError("unavailable", "the gateway is shutting down");
      case "client_gone":
      case null:
        return new CoppiceError("unavailable", "the client went away");
    }
  }

  /** For the record. */
  get endedDetail(): string {
    switch (this.#ended) {
      case "deadline":
        return `the call's deadline of ${this.deadlineMs} ms passed`;
      case "shutdown":
        return "the gateway shut down";
      case "client_gone":
      case null:
        return "the client went away";
    }
  }
}

/** All lines that are open: what shutting down waits for. */
export class ClientLines {
  readonly #open = new Set<ClientLine>();
  readonly #deadlineMs: number;
  #onEmpty: (() => void) | null = null;

  constructor(deadlineMs: number) {
    this.#deadlineMs = deadlineMs;
  }

  get size(): number {
    return this.#open.size;
  }

  open(socket: Socket): ClientLine {
    const line = new ClientLine(socket, this.#deadlineMs, (closed) => {
      this.#open.delete(closed);
      if (this.#open.size === 0) this.#onEmpty?.();
    });
    this.#open.add(line);
    return line;
  }

  /** Resolves once no line is open, or after `withinMs`. */
  async drained(withinMs: number): Promise<void> {
    if (this.#open.size === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, withinMs);
      this.#onEmpty = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#onEmpty = null;
  }

  endAll(): void {
    for (const line of this.#open) line.end("shutdown");
  }
}
