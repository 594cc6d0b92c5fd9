// A ledger for many gateways: one PostgreSQL, and any number of processes beside one another. What arrives together at
// a gateway shares a transaction (postgres-batch.ts); every verb is committed, so seen by all gateways, when it resolves.
// Unlike the embedded ledger it syncs admissions too: a restart of the database must not forget a call that an engine
// is being asked for.
import { CoppiceError } from "../errors.ts";
import type { Call, CallId, CallSummary } from "../lineage/call.ts";
import type { PendingCall } from "../lineage/record-digest.ts";
import type { Outcome } from "../selection/outcome.ts";
import type { SettledPlace } from "./ledger-verbs.ts";
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
import { pickFields } from "./pending-call.ts";
import type { HotVerb } from "./postgres-batch.ts";
import { acknowledgeClaim, claimGroup, readClaim, sweepOld } from "./postgres-claims.ts";
import { PostgresConnection, type PostgresOptions } from "./postgres-connection.ts";
import { HotQueue } from "./postgres-hot-queue.ts";
import { DEFAULT_LEASE_MS, Presence } from "./postgres-presence.ts";
import { checkSchema, migrate } from "./postgres-schema.ts";
import { PostgresWire } from "./postgres-wire.ts";
import {
  openRollout,
  readCall,
  readCalls,
  readRollout,
  readRollouts,
  readSequence,
  readSummaries,
  sealRollout,
  sweepAttempt,
} from "./postgres-verbs.ts";

export interface PostgresLedgerOptions extends PostgresOptions {
  /** For reading beside gateways, or without any: creates, migrates and marks nothing. Default false. */
  readonly readOnly?: boolean;
  /** A gateway that was not seen for so long is dead. Default 15 s. */
  readonly leaseMs?: number;
}

/**
 * Opens the ledger in the database of a `postgres://` URL, making its tables where there are none. Throws `ledger_error`
 * for a database that cannot be reached or has a newer schema; no error tells the URL's user or password.
 */
export async function openPostgresLedger(url: string, options: PostgresLedgerOptions = {}): Promise<Ledger> {
  const connection = new PostgresConnection(url, options);
  const { location } = connection;
  try {
    if (options.readOnly === true) {
      await connection.read((tx) => checkSchema(tx, location));
      return new PostgresLedger(connection, null);
    }
    await connection.write((tx) => migrate(tx, location));
    const presence = await Presence.begin(connection, options.leaseMs ?? DEFAULT_LEASE_MS);
    return new PostgresLedger(connection, presence);
  } catch (error) {
    await connection.end();
    throw error;
  }
}

class PostgresLedger implements Ledger {
  readonly location: string;
  readonly wire: PostgresWire;
  readonly #connection: PostgresConnection;
  /** Null for reading only. */
  readonly #presence: Presence | null;
  readonly #hot: HotQueue;
  readonly #underWay = new Set<Promise<unknown>>();
  #closing: Promise<void> | null = null;

  constructor(connection: PostgresConnection, presence: Presence | null) {
    this.location = connection.location;
    this.wire = new PostgresWire(connection);
    this.#connection = connection;
    this.#presence = presence;
    this.#hot = new HotQueue(connection, () => presence?.key ?? 0);
  }

  open(request: OpenRollout): Promise<Rollout> {
    return this.#write((tx) => openRollout(tx, request));
  }

  admit(admissions: readonly Admission[]): Promise<readonly Admitted[]> {
    return this.#hotly<readonly Admitted[]>({ name: "admit", admissions });
  }

  async settle(call: PendingCall): Promise<Settled> {
    const pending = pickFields(call);
    const { late, ...place } = await this.#hotly<SettledPlace>({ name: "settle", pending });
    return { call: Object.freeze({ ...pending, ...place }), late };
  }

  seal(outcome: Outcome, sealedAt: number): Promise<Rollout> {
    return this.#write((tx) => sealRollout(tx, outcome, sealedAt));
  }

  rollout(key: AttemptKey): Promise<Rollout | null> {
    return this.#read((tx) => readRollout(tx, key));
  }

  rollouts(filter: RolloutFilter): Promise<readonly Rollout[]> {
    return this.#read((tx) => readRollouts(tx, filter));
  }

  summaries(key: AttemptKey, sinceOrder: number, most?: number): Promise<readonly CallSummary[]> {
    return this.#read((tx) => readSummaries(tx, key, { sinceOrder, most: most ?? null }));
  }

  calls(key: AttemptKey): Promise<readonly Call[]> {
    return this.#read((tx) => readCalls(tx, key, false));
  }

  call(callId: CallId): Promise<Call | null> {
    return this.#read((tx) => readCall(tx, callId));
  }

  lateCalls(key: AttemptKey): Promise<readonly Call[]> {
    return this.#read((tx) => readCalls(tx, key, true));
  }

  sequence(callId: CallId): Promise<Uint32Array | null> {
    return this.#read((tx) => readSequence(tx, callId));
  }

  sweep(key: AttemptKey): Promise<boolean> {
    return this.#write((tx) => sweepAttempt(tx, key));
  }

  claim(request: ClaimRequest): Promise<Claim | null> {
    return this.#write((tx) => claimGroup(tx, request));
  }

  claimOf(claimId: string, now: number): Promise<Claim | null> {
    return this.#read((tx) => readClaim(tx, claimId, now));
  }

  acknowledge(claimId: string, now: number): Promise<Claim> {
    return this.#write((tx) => acknowledgeClaim(tx, claimId, now));
  }

  sweepOld(policy: SweepPolicy): Promise<SweepReport> {
    return this.#noted(() => {
      this.#checkWritable();
      return sweepOld(this.#connection, policy);
    });
  }

  setWeightVersion(version: string): Promise<void> {
    return this.#write(async (tx) => {
      await tx.query(
        `INSERT INTO coppice_setting (name, value) VALUES ('weight_version', $1)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
        [JSON.stringify(version)],
      );
    });
  }

  weightVersion(): Promise<string | null> {
    return this.#read(async (tx) => {
      const { rows } = await tx.query<{ value: string }>(
        "SELECT value FROM coppice_setting WHERE name = 'weight_version'",
      );
      return rows[0] === undefined ? null : (JSON.parse(rows[0].value) as string);
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.allSettled(this.#underWay);
    try {
      await this.wire.close();
      await this.#presence?.end();
    } finally {
      await this.#connection.end();
    }
  }

  #hotly<T>(verb: HotVerb): Promise<T> {
    return this.#noted(() => {
      this.#checkWritable();
      return this.#hot.add(verb) as Promise<T>;
    });
  }

  #write<T>(work: Parameters<PostgresConnection["write"]>[0]): Promise<T> {
    return this.#noted(() => {
      this.#checkWritable();
      return this.#connection.write(work) as Promise<T>;
    });
  }

  #read<T>(work: (tx: Parameters<Parameters<PostgresConnection["read"]>[0]>[0]) => Promise<T>): Promise<T> {
    return this.#noted(() => this.#connection.read(work));
  }

  /** Closing waits for it. */
  #noted<T>(ask: () => Promise<T>): Promise<T> {
    if (this.#closing !== null) {
      return Promise.reject(new CoppiceError("ledger_error", `the ledger ${this.location} is closed`));
    }
    const asked = new Promise<T>((resolve) => resolve(ask()));
    this.#underWay.add(asked);
    const over = (): boolean => this.#underWay.delete(asked);
    asked.then(over, over);
    return asked;
  }

  #checkWritable(): void {
    if (this.#presence !== null) return;
    throw new CoppiceError("ledger_error", `the ledger ${this.location} is open read-only`);
  }
}
