// Words between the gateways of one PostgreSQL: LISTEN and NOTIFY. Nothing rests on them: a word may be lost while the
// database is away, and a transaction pooler, which has no sessions to listen in, carries none.
import { randomUUID } from "node:crypto";
import type pg from "pg";
import type { LedgerWire } from "./ledger.ts";
import type { PostgresConnection } from "./postgres-connection.ts";

const CHANNEL = "coppice";
/** Words of so many milliseconds go together: NOTIFY takes a lock at its commit that all notifying sessions share. */
const GATHER_MS = 20;
/** PostgreSQL's bound on one notification is 8000 bytes. */
const MOST_BYTES = 7_500;
/** Words that wait; beyond it they are lost. */
const MOST_WAITING = 2_000;
const RECONNECT_MS = 1_000;

interface Hearer {
  readonly told: (text: string) => void;
  readonly onGap: () => void;
}

export class PostgresWire implements LedgerWire {
  readonly #connection: PostgresConnection;
  readonly #id = randomUUID();
  readonly #hearers = new Set<Hearer>();
  #waiting: string[] = [];
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> = Promise.resolve();
  #client: pg.Client | null = null;
  #reconnect: NodeJS.Timeout | null = null;
  #isClosed = false;

  constructor(connection: PostgresConnection) {
    this.#connection = connection;
  }

  send(text: string): void {
    if (this.#isClosed || this.#waiting.length >= MOST_WAITING) return;
    this.#waiting.push(text);
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#sending = this.#sending.then(() => this.#flush());
    }, GATHER_MS);
  }

  async listen(told: (text: string) => void, onGap: () => void): Promise<() => void> {
    const hearer = { told, onGap };
    this.#hearers.add(hearer);
    if (this.#client === null) await this.#connect();
    return () => this.#hearers.delete(hearer);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#reconnect !== null) clearTimeout(this.#reconnect);
    await this.#sending;
    await this.#client?.end();
  }

  /** Contract: must not throw; words that cannot be sent are lost. */
  async #flush(): Promise<void> {
    const texts = this.#waiting;
    this.#waiting = [];
    try {
      const bundles = bundlesOf(texts).map((bundle) => JSON.stringify([this.#id, ...bundle]));
      await this.#connection.write((tx) =>
        tx.query("SELECT pg_notify($1, word) FROM unnest($2::text[]) AS word", [CHANNEL, bundles]),
      );
    } catch {
      this.#tellGap();
    }
  }

  /** Contract: must not throw; it tries again until it is closed. */
  async #connect(): Promise<void> {
    const client = this.#connection.client();
    this.#client = client;
    let isOver = false;
    const lose = (): void => {
      if (isOver) return;
      isOver = true;
      client.end().catch(() => undefined);
      if (this.#isClosed) return;
      this.#reconnect = setTimeout(() => void this.#connect().then(() => this.#tellGap()), RECONNECT_MS);
      this.#reconnect.unref();
    };
    client.on("error", lose);
    client.on("end", lose);
    client.on("notification", ({ payload }) => this.#hear(payload ?? "[]"));
    try {
      await client.connect();
      await client.query(`LISTEN ${CHANNEL}`);
    } catch {
      lose();
    }
  }

  #hear(payload: string): void {
    const [sender, ...texts] = JSON.parse(payload) as readonly string[];
    if (sender === this.#id) return;
    for (const { told } of this.#hearers) for (const text of texts) told(text);
  }

  #tellGap(): void {
    for (const { onGap } of this.#hearers) onGap();
  }
}

/** As few as hold them; a word that is too long for any is lost. */
function bundlesOf(texts: readonly string[]): readonly (readonly string[])[] {
  const bundles: string[][] = [];
  let room = 0;
  for (const text of texts) {
    const bytes = Buffer.byteLength(JSON.stringify(text)) + 1;
    if (bytes > MOST_BYTES) continue;
    if (bytes > room) {
      bundles.push([]);
      room = MOST_BYTES;
    }
    bundles.at(-1)?.push(text);
    room -= bytes;
  }
  return bundles;
}
