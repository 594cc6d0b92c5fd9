// A gateway's presence in the ledger: a lease that it renews, so that others can tell when it is dead and mark as `unknown`
// what it left in flight. Leases are timed by the database's clock. After the database itself was away every lease has
// run out; so nobody declares another dead before it has itself been seen, without a gap, for as long as a lease.
import { hostname } from "node:os";
import type { PostgresConnection } from "./postgres-connection.ts";
import { settleUnknown } from "./postgres-verbs.ts";

/** Renewed three times within it. */
export const DEFAULT_LEASE_MS = 15_000;

const DIED = "its gateway died before this call settled";
const CLOSED = "the ledger was closed before this call settled";

export class Presence {
  readonly #connection: PostgresConnection;
  readonly #leaseMs: number;
  #key = 0;
  #seenSince = 0;
  #seenAt = 0;
  #timer: NodeJS.Timeout | null = null;
  #beating: Promise<void> | null = null;

  private constructor(connection: PostgresConnection, leaseMs: number) {
    this.#connection = connection;
    this.#leaseMs = leaseMs;
  }

  static async begin(connection: PostgresConnection, leaseMs: number): Promise<Presence> {
    const presence = new Presence(connection, leaseMs);
    await presence.#register();
    presence.#timer = setInterval(() => {
      presence.#beating ??= presence.#beat().finally(() => (presence.#beating = null));
    }, leaseMs / 3).unref();
    return presence;
  }

  /** Stands on what this gateway admits. */
  get key(): number {
    return this.#key;
  }

  /** Takes leave: what is in flight will never settle. */
  async end(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#beating;
    await this.#remove(this.#key, CLOSED);
  }

  async #register(): Promise<void> {
    this.#key = await this.#connection.write(async (tx) => {
      const { rows } = await tx.query<{ gateway_key: number }>(
        `INSERT INTO coppice_gateway (name, expires_at)
         VALUES ($1, clock_timestamp() + $2 * interval '1 millisecond') RETURNING gateway_key`,
        [`${hostname()}:${process.pid}`, this.#leaseMs],
      );
      return (rows[0] as { gateway_key: number }).gateway_key;
    });
    this.#seenSince = this.#seenAt = performance.now();
  }

  /** Contract: must not throw; a beat that fails is a gap. */
  async #beat(): Promise<void> {
    try {
      const known = await this.#connection.write(async (tx) => {
        const { rowCount } = await tx.query(
          `UPDATE coppice_gateway SET expires_at = clock_timestamp() + $2 * interval '1 millisecond'
           WHERE gateway_key = $1`,
          [this.#key, this.#leaseMs],
        );
        return rowCount === 1;
      });
      // Others took this gateway for dead, and marked its calls: what they bring now goes to the late bin.
      if (!known) return await this.#register();
      const now = performance.now();
      if (now - this.#seenAt > this.#leaseMs) this.#seenSince = now;
      this.#seenAt = now;
      if (now - this.#seenSince >= this.#leaseMs) await this.#buryDead();
    } catch {
      this.#seenSince = performance.now();
    }
  }

  async #buryDead(): Promise<void> {
    const dead = await this.#connection.read(async (tx) => {
      const { rows } = await tx.query<{ gateway_key: number }>(
        "SELECT gateway_key FROM coppice_gateway WHERE expires_at < clock_timestamp() ORDER BY gateway_key",
      );
      return rows.map((row) => row.gateway_key);
    });
    for (const key of dead) await this.#remove(key, DIED);
  }

  /** Nothing where the gateway lives after all, or another one is at it. */
  #remove(key: number, detail: string): Promise<void> {
    const isOwn = key === this.#key;
    return this.#connection.write(async (tx) => {
      const { rows } = await tx.query(
        `SELECT 1 FROM coppice_gateway WHERE gateway_key = $1 AND ($2 OR expires_at < clock_timestamp())
         FOR UPDATE SKIP LOCKED`,
        [key, isOwn],
      );
      if (rows.length === 0) return;
      await settleUnknown(tx, key, detail);
      await tx.query("DELETE FROM coppice_gateway WHERE gateway_key = $1", [key]);
    });
  }
}
