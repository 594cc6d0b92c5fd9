// Where the verbs of an embedded ledger are run: in a thread of their own, or on the event loop itself. Verbs are answered
// in the order in which they are given; what they do is sqlite-engine.ts.
import { Worker } from "node:worker_threads";
import { CoppiceError } from "../errors.ts";
import type { Verb } from "./ledger-verbs.ts";
import { SqliteEngine, type TransactionFacts, type VerbOutcome } from "./sqlite-engine.ts";
import type { FileOptions } from "./sqlite-file.ts";
import {
  fromPlainError,
  type PlainOutcome,
  type WorkerReply,
  type WorkerRequest,
} from "./worker-messages.ts";

/** Told about what was given. Set before the first verb. */
export interface Listener {
  /** The oldest verbs that were given are done. */
  done(outcomes: readonly VerbOutcome[], facts: TransactionFacts): void;
  /** Nothing more will be done. */
  lost(error: CoppiceError): void;
}

export interface Connection {
  listener: Listener | null;
  /** Contract: throws only where the arguments cannot be sent; then nothing was given. */
  run(verbs: readonly Verb[]): void;
  /** Waits for what was given, then lets go of the file. */
  close(): Promise<void>;
}

/** Runs verbs on the event loop: for ledgers in memory, and for tests. */
export function openHere(path: string, file: FileOptions): Connection {
  const engine = new SqliteEngine(path, file);
  const connection: Connection = {
    listener: null,
    run: (verbs) => {
      const { outcomes, facts } = engine.run(verbs);
      connection.listener?.done(outcomes, facts);
    },
    close: async () => engine.close(),
  };
  return connection;
}

/** Throws what opening the file throws. */
export function openInThread(path: string, file: FileOptions): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const connection = new ThreadConnection(path, file, (error) =>
      error === null ? resolve(connection) : reject(error),
    );
  });
}

class ThreadConnection implements Connection {
  listener: Listener | null = null;
  readonly #worker: Worker;
  readonly #opened: (error: Error | null) => void;
  #given = 0;
  #closed: ((error: Error | null) => void) | null = null;

  constructor(path: string, file: FileOptions, opened: (error: Error | null) => void) {
    this.#opened = opened;
    // The file that stands beside this one, whether built or not.
    const extension = import.meta.url.slice(import.meta.url.lastIndexOf("."));
    this.#worker = new Worker(new URL(`./sqlite-worker${extension}`, import.meta.url), {
      workerData: { path, options: file },
      name: "coppice ledger",
    });
    const lose = (cause: unknown): void => {
      const error = new CoppiceError("ledger_error", `the thread of the ledger ${path} has ended`, { cause });
      this.#opened(error);
      this.#closed?.(error);
      this.listener?.lost(error);
    };
    this.#worker.on("message", (reply: WorkerReply) => this.#receive(reply));
    this.#worker.on("error", lose);
    this.#worker.on("exit", (code) => lose(new Error(`it exited with ${code}`)));
  }

  run(verbs: readonly Verb[]): void {
    this.#post({ verbs, close: false });
    this.#given += verbs.length;
  }

  close(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#closed = (error) => (error === null ? resolve() : reject(error));
      this.#post({ verbs: [], close: true });
    });
  }

  #post(request: WorkerRequest): void {
    this.#worker.postMessage(request, []);
    // A program that has nothing else to do waits for what it asked for, but not for the thread as such.
    this.#worker.ref();
  }

  #receive(reply: WorkerReply): void {
    switch (reply.kind) {
      case "open":
        this.#worker.unref();
        this.#opened(null);
        return;
      case "refused":
        this.#opened(fromPlainError(reply.error));
        return;
      case "done":
        this.#given -= reply.outcomes.length;
        if (this.#given === 0 && this.#closed === null) this.#worker.unref();
        this.listener?.done(reply.outcomes.map(fromPlain), reply.facts);
        return;
      case "closed":
        this.#closed?.(reply.error === null ? null : fromPlainError(reply.error));
    }
  }
}

function fromPlain(outcome: PlainOutcome): VerbOutcome {
  return outcome.ok ? outcome : { ok: false, error: fromPlainError(outcome.error) };
}
