// Where admissions and settles of one gateway wait for a transaction: all that have arrived share the next one, and while
// a few are under way the rest gathers. So few calls wait for nothing but their own commit, and many share theirs.
import type { CallId } from "../lineage/call.ts";
import { runBatch, type HotOutcome, type HotVerb } from "./postgres-batch.ts";
import { isFaultOfVerb, type PostgresConnection } from "./postgres-connection.ts";

/** Transactions under way at once, of the pool's connections. */
const LANES = 4;
/** Verbs that share a transaction: more do not make it cheaper, only longer. */
const MOST_VERBS = 64;

interface Waiting {
  readonly verb: HotVerb;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

export class HotQueue {
  readonly #connection: PostgresConnection;
  readonly #gatewayKey: () => number;
  readonly #waiting: Waiting[] = [];
  #lanes = 0;
  #isWoken = false;

  constructor(connection: PostgresConnection, gatewayKey: () => number) {
    this.#connection = connection;
    this.#gatewayKey = gatewayKey;
  }

  add(verb: HotVerb): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ verb, resolve, reject });
      this.#wake();
    });
  }

  /** At the end of this turn of the event loop: what else arrives in it goes along. */
  #wake(): void {
    if (this.#isWoken || this.#lanes >= LANES) return;
    this.#isWoken = true;
    setImmediate(() => {
      this.#isWoken = false;
      if (this.#waiting.length === 0) return;
      this.#lanes += 1;
      void this.#run(this.#next()).finally(() => {
        this.#lanes -= 1;
        if (this.#waiting.length > 0) this.#wake();
      });
      if (this.#waiting.length > 0) this.#wake();
    });
  }

  /** In order of arrival; what names a call again that is being admitted waits for that. */
  #next(): readonly Waiting[] {
    const admitted = new Set<CallId>();
    const batch: Waiting[] = [];
    while (batch.length < MOST_VERBS) {
      const { verb } = this.#waiting[0] ?? {};
      if (verb === undefined || (verb.name === "settle" && admitted.has(verb.pending.callId))) break;
      if (verb.name === "admit") for (const { callId } of verb.admissions) admitted.add(callId);
      batch.push(this.#waiting.shift() as Waiting);
    }
    return batch;
  }

  /** Contract: must not throw. */
  async #run(batch: readonly Waiting[]): Promise<void> {
    try {
      const outcomes = await this.#transact(batch.map(({ verb }) => verb));
      for (const [index, { resolve, reject }] of batch.entries()) {
        const outcome = outcomes[index] as HotOutcome;
        if (outcome.ok) resolve(outcome.value);
        else reject(outcome.error);
      }
    } catch (error) {
      // What the database cannot take of one verb must not be the fault of the others.
      if (batch.length > 1 && isFaultOfVerb(error)) for (const one of batch) await this.#run([one]);
      else for (const { reject } of batch) reject(error);
    }
  }

  #transact(verbs: readonly HotVerb[]): Promise<readonly HotOutcome[]> {
    return this.#connection.writeLast((tx, { maybeDone }) =>
      runBatch(tx, verbs, { maybeDone, gatewayKey: this.#gatewayKey() }),
    );
  }
}
