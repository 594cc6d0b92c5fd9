// Connections to PostgreSQL and the one way in which the ledger uses them: whole transactions, tried again where the
// database says that another try may do, or where it is away for a while (a restart, a failover). Nothing outlives a
// transaction on a connection (settings are SET LOCAL, statements unnamed), so a transaction pooler may stand between.
import pg from "pg";
import { CoppiceError, messageOf } from "../errors.ts";

export interface PostgresOptions {
  /** Most connections of this process, not counting the one that listens. Default 8. */
  readonly connections?: number;
  /** The longest that one statement may take. Default 15 s. */
  readonly statementTimeoutMs?: number;
  /** How long a database that is away is waited for. Default 20 s. */
  readonly retryForMs?: number;
}

export type Transaction = pg.PoolClient;

/** What a transaction is told about the tries before it. */
export interface Try {
  /** An earlier try may have been committed all the same: the connection broke before the database said so. */
  readonly maybeDone: boolean;
}

/** `last`: what is sent and not waited for; where it fails, the commit is none. */
export type Work<T> = (
  tx: Transaction,
  made: Try,
) => Promise<{ readonly value: T; readonly last: Promise<unknown> | null }>;

type Tried<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: unknown; readonly committing: boolean };

const CONNECT_WITHIN_MS = 5_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;
/** Tries of a transaction that lost against another one. */
const MOST_CONFLICTS = 10;

/** `40`: serialisation and deadlocks. `23505`: another gateway wrote the same key first; the next try sees it. */
const LOST_RACE = /^(?:40|23505|55P03)/;
/** Connection faults, shutdowns, starting up, too many connections. */
const AWAY = /^(?:08|57P0[1-5]|53300|25P03|ECONN|EPIPE|ENOTFOUND|EAI_|ETIMEDOUT|EHOST|ENETUNREACH|ENOENT)/;
const AWAY_WORDS =
  /connection terminated|not queryable|timeout exceeded|connection ended|server closed|read timeout/i;

const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    oid === pg.types.builtins.INT8 && format !== "binary"
      ? Number
      : (pg.types.getTypeParser(oid, format) as (value: string) => unknown),
};

export class PostgresConnection {
  /** Host, port and database; nothing else of the URL may be told. */
  readonly location: string;
  readonly #pool: pg.Pool;
  readonly #begin: string;
  readonly #retryForMs: number;
  readonly #options: pg.ClientConfig;
  #ended = false;

  constructor(url: string, options: PostgresOptions = {}) {
    this.location = locationOf(url);
    const timeout = options.statementTimeoutMs ?? 15_000;
    this.#retryForMs = options.retryForMs ?? 20_000;
    this.#begin = `; SET LOCAL statement_timeout = ${timeout}; SET LOCAL lock_timeout = ${timeout}; SET LOCAL idle_in_transaction_session_timeout = ${2 * timeout}`;
    this.#options = {
      connectionString: url,
      application_name: "coppice",
      connectionTimeoutMillis: CONNECT_WITHIN_MS,
      // The server's own timeout comes first; this is for a server that does not answer at all.
      query_timeout: timeout + 5_000,
      keepAlive: true,
      pipeline: true,
      types,
    };
    this.#pool = new pg.Pool({ ...this.#options, max: options.connections ?? 8, allowExitOnIdle: true });
    // An idle connection that breaks is replaced by the next one that is needed.
    this.#pool.on("error", () => undefined);
  }

  /** A connection of its own, for listening. */
  client(): pg.Client {
    return new pg.Client({ ...this.#options, pipeline: false });
  }

  /** Runs a transaction that writes, until it is committed or fails for good. */
  write<T>(work: (tx: Transaction, made: Try) => Promise<T>): Promise<T> {
    return this.writeLast(async (tx, made) => ({ value: await work(tx, made), last: null }));
  }

  /** The same, where the last statement need not be waited for: the commit is sent right behind it. */
  writeLast<T>(work: Work<T>): Promise<T> {
    return this.#transact("BEGIN", work);
  }

  /** Runs reads that see the ledger as it was at one moment. */
  read<T>(work: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.#transact("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", async (tx) => ({
      value: await work(tx),
      last: null,
    }));
  }

  async end(): Promise<void> {
    this.#ended = true;
    await this.#pool.end();
  }

  async #transact<T>(begin: string, work: Work<T>): Promise<T> {
    const giveUpAt = performance.now() + this.#retryForMs;
    let conflicts = 0;
    let pause = FIRST_PAUSE_MS;
    let maybeDone = false;
    for (;;) {
      if (this.#ended) throw new CoppiceError("ledger_error", `the ledger ${this.location} is closed`);
      const tried: Tried<T> = await this.#try(begin, work, maybeDone);
      if (tried.ok) return tried.value;
      const error: unknown = tried.error;
      if (error instanceof CoppiceError) throw error;
      maybeDone ||= tried.committing && isAway(error);
      if (LOST_RACE.test(codeOf(error)) && conflicts < MOST_CONFLICTS) conflicts += 1;
      else if (isAway(error) && performance.now() + pause < giveUpAt) {
        await new Promise((resolve) => setTimeout(resolve, pause));
        pause = Math.min(LONGEST_PAUSE_MS, pause * 2);
      } else throw this.#asRefusal(error);
    }
  }

  async #try<T>(begin: string, work: Work<T>, maybeDone: boolean): Promise<Tried<T>> {
    let client: Transaction | null = null;
    let committing = false;
    try {
      client = await this.#pool.connect();
      // Sent with the first statement of the work, which waits for it anyway.
      const begun = client.query(begin + this.#begin);
      const { value, last } = await both(begun, work(client, { maybeDone }));
      committing = true;
      const { command } = await both(Promise.resolve(last), client.query("COMMIT"));
      if (command !== "COMMIT") throw new Error("the transaction was rolled back at its commit");
      client.release();
      return { ok: true, value };
    } catch (error) {
      if (client !== null) await leave(client, error);
      return { ok: false, error, committing };
    }
  }

  #asRefusal(error: unknown): CoppiceError {
    const code = codeOf(error);
    const away = isAway(error);
    // The words of a connection fault may hold the URL; those of a statement may hold values.
    const why = away ? "it cannot be reached" : withoutSecrets(messageOf(error), this.#options);
    return new CoppiceError(
      "ledger_error",
      `the ledger ${this.location} could not do it: ${why}${code === "" ? "" : ` (${code})`}`,
      { cause: error, detail: { postgres_code: code }, ...(away ? { status: 503 } : {}) },
    );
  }
}

/** Both are awaited whatever becomes of the other; the first's error comes first. */
async function both<T>(first: Promise<unknown>, second: Promise<T>): Promise<T> {
  const [begun, done] = await Promise.allSettled([first, second]);
  if (begun.status === "rejected") throw begun.reason;
  if (done.status === "rejected") throw done.reason;
  return done.value;
}

/** Gives a connection back: usable where it can be rolled back, else not at all. */
async function leave(client: Transaction, error: unknown): Promise<void> {
  if (isAway(error)) return client.release(true);
  try {
    await client.query("ROLLBACK");
    client.release();
  } catch (rollbackError) {
    client.release(rollbackError instanceof Error ? rollbackError : true);
  }
}

/** SQLSTATE, or the system's word for a connection that failed; empty where there is none. */
export function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return typeof code === "string" ? code : "";
}

export function isAway(error: unknown): boolean {
  return AWAY.test(codeOf(error)) || (codeOf(error) === "" && AWAY_WORDS.test(messageOf(error)));
}

/** A fault of what was sent, not of the database: data, constraints, sizes. */
export function isFaultOfVerb(error: unknown): boolean {
  const code = error instanceof CoppiceError ? codeOf(error.cause) : codeOf(error);
  return /^(?:22|23|54)/.test(code);
}

/** Throws `invalid_request` for what is no URL of a database. The message does not repeat it. */
export function locationOf(url: string): string {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new CoppiceError(
      "invalid_request",
      "the ledger's URL cannot be read; it must be postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special characters of the password as %XX",
    );
  }
  const { hostname, port, pathname } = parsed;
  const host = hostname === "" ? (parsed.searchParams.get("host") ?? "localhost") : hostname;
  return `postgres://${host}:${port === "" ? "5432" : port}${pathname === "" ? "/" : pathname}`;
}

function withoutSecrets(text: string, { connectionString = "" }: pg.ClientConfig): string {
  let shown = text;
  const { password, searchParams } = new URL(connectionString);
  for (const secret of [password, decodeURIComponent(password), searchParams.get("password") ?? ""]) {
    if (secret !== "") shown = shown.replaceAll(secret, "***");
  }
  return shown;
}
