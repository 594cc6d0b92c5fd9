// The embedded ledger: one SQLite file, written by one process. Verbs queue here and go, once a turn of the event loop,
// to a thread that holds the connection (sqlite-worker.ts), so that a sync never holds up the service. In that thread, or
// in this one where there is to be none, sqlite-engine.ts runs whatever has arrived as one transaction.
import { CoppiceError } from "../errors.ts";
import type { Call, CallId, CallSummary } from "../lineage/call.ts";
import type { PendingCall } from "../lineage/record-digest.ts";
import type { Outcome } from "../selection/outcome.ts";
import { pickFields } from "./pending-call.ts";
import type { Verb, VerbName, VerbResult } from "./ledger-verbs.ts";
import type {
  Admission,
  Admitted,
  AttemptKey,
  Claim,
  ClaimRequest,
  Ledger,
  OpenRollout,
  Rollout,
  RolloutFilter,
  Settled,
  SweepPolicy,
  SweepReport,
} from "./ledger.ts";
import { openHere, openInThread, type Connection } from "./sqlite-connection.ts";
import type { TransactionFacts } from "./sqlite-engine.ts";
import { IN_MEMORY, type FileOptions } from "./sqlite-file.ts";

export type { TransactionFacts } from "./sqlite-engine.ts";

export interface SqliteLedgerOptions {
  /**
   * For reading beside a process that serves the ledger, or after one: creates, migrates and marks nothing. Calls in
   * flight read as `admitted` while that process lives and as `unknown` when it is dead. Default false.
   */
  readonly readOnly?: boolean;
  /** The connection has a thread of its own. Default true, but for `:memory:`, which syncs nothing. */
  readonly worker?: boolean;
  /** The file grows no further than this; what does not fit is refused with `ledger_error`. Default: no bound. */
  readonly maxFileBytes?: number;
  /** Told after each transaction, before its verbs resolve. Must not throw. */
  readonly onTransaction?: (facts: TransactionFacts) => void;
}

/**
 * Opens the ledger at `path`, or one in memory for `:memory:`, making the file where there is none. Throws `conflict`
 * while another process serves it, and `ledger_error` for what is not a ledger, has a newer schema, or cannot be used.
 */
export async function openSqliteLedger(path: string, options: SqliteLedgerOptions = {}): Promise<Ledger> {
  const file: FileOptions = {
    readOnly: options.readOnly ?? false,
    maxFileBytes: options.maxFileBytes ?? null,
  };
  const threaded = options.worker ?? path !== IN_MEMORY;
  const connection = threaded ? await openInThread(path, file) : openHere(path, file);
  return new QueuedLedger(path, connection, options.onTransaction ?? (() => undefined));
}

interface Waiting {
  readonly verb: Verb;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

class QueuedLedger implements Ledger {
  readonly location: string;
  readonly #connection: Connection;
  /** Asked for in this turn of the event loop. */
  #queue: Waiting[] = [];
  /** Given to the connection and not answered, oldest first. */
  #given: Waiting[] = [];
  #lost: CoppiceError | null = null;
  #closing: Promise<void> | null = null;

  constructor(location: string, connection: Connection, onTransaction: (facts: TransactionFacts) => void) {
    this.location = location;
    this.#connection = connection;
    connection.listener = {
      done: (outcomes, facts) => {
        onTransaction(facts);
        const answered = this.#given.splice(0, outcomes.length);
        for (const [index, outcome] of outcomes.entries()) {
          const waiting = answered[index] as Waiting;
          if (outcome.ok) waiting.resolve(outcome.value);
          else waiting.reject(outcome.error);
        }
      },
      lost: (error) => {
        this.#lost = error;
        for (const waiting of [...this.#given.splice(0), ...this.#queue.splice(0)]) waiting.reject(error);
      },
    };
  }

  open(request: OpenRollout): Promise<Rollout> {
    return this.#ask("open", [request]);
  }

  admit(admissions: readonly Admission[]): Promise<readonly Admitted[]> {
    return this.#ask("admit", [admissions]);
  }

  async settle(call: PendingCall): Promise<Settled> {
    const pending = pickFields(call);
    const { late, ...place } = await this.#ask("settle", [pending]);
    return { call: Object.freeze({ ...pending, ...place }), late };
  }

  seal(outcome: Outcome, sealedAt: number): Promise<Rollout> {
    return this.#ask("seal", [outcome, sealedAt]);
  }

  rollout(key: AttemptKey): Promise<Rollout | null> {
    return this.#ask("rollout", [key]);
  }

  rollouts(filter: RolloutFilter): Promise<readonly Rollout[]> {
    return this.#ask("rollouts", [filter]);
  }

  summaries(key: AttemptKey, sinceOrder: number, most?: number): Promise<readonly CallSummary[]> {
    return this.#ask("summaries", [key, sinceOrder, most]);
  }

  calls(key: AttemptKey): Promise<readonly Call[]> {
    return this.#ask("calls", [key]);
  }

  call(callId: CallId): Promise<Call | null> {
    return this.#ask("call", [callId]);
  }

  lateCalls(key: AttemptKey): Promise<readonly Call[]> {
    return this.#ask("lateCalls", [key]);
  }

  sequence(callId: CallId): Promise<Uint32Array | null> {
    return this.#ask("sequence", [callId]);
  }

  sweep(key: AttemptKey): Promise<boolean> {
    return this.#ask("sweep", [key]);
  }

  claim(request: ClaimRequest): Promise<Claim | null> {
    return this.#ask("claim", [request]);
  }

  claimOf(claimId: string, now: number): Promise<Claim | null> {
    return this.#ask("claimOf", [claimId, now]);
  }

  acknowledge(claimId: string, now: number): Promise<Claim> {
    return this.#ask("acknowledge", [claimId, now]);
  }

  sweepOld(policy: SweepPolicy): Promise<SweepReport> {
    return this.#ask("sweepOld", [policy]);
  }

  setWeightVersion(version: string): Promise<void> {
    return this.#ask("setWeightVersion", [version]);
  }

  weightVersion(): Promise<string | null> {
    return this.#ask("weightVersion", []);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#flush();
    if (this.#lost === null) await this.#connection.close();
  }

  #ask<N extends VerbName>(
    name: N,
    args: Extract<Verb, { readonly name: N }>["args"],
  ): Promise<VerbResult<N>> {
    if (this.#closing !== null) {
      return Promise.reject(new CoppiceError("ledger_error", `the ledger ${this.location} is closed`));
    }
    if (this.#lost !== null) return Promise.reject(this.#lost);
    return new Promise((resolve, reject) => {
      if (this.#queue.length === 0) setImmediate(() => this.#flush());
      this.#queue.push({
        verb: { name, args } as Verb,
        resolve: resolve as (value: unknown) => void,
        reject,
      });
    });
  }

  #flush(): void {
    if (this.#queue.length === 0) return;
    const asked = this.#queue;
    this.#queue = [];
    this.#given.push(...asked);
    try {
      this.#connection.run(asked.map((waiting) => waiting.verb));
    } catch (error) {
      // Arguments that cannot go to a thread, which no parsed request has.
      this.#given.splice(-asked.length);
      for (const waiting of asked) waiting.reject(error);
    }
  }
}
