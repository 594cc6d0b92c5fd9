// Runs a ledger's verbs on one SQLite connection: all that are given at once in one transaction, so that they share one
// sync of the write-ahead log. A verb that is refused leaves no trace and the others go on; a transaction that fails (full
// disk, I/O error) refuses them all and leaves the file as it was. Synchronous: it belongs in a thread of its own.
import Database from "better-sqlite3";
import { CoppiceError, messageOf } from "../errors.ts";
import { kindOf, type Verb } from "./ledger-verbs.ts";
import { openLedgerFile, type FileOptions } from "./sqlite-file.ts";
import { abandonment, releaseOwnership, takeOwnership } from "./sqlite-owner.ts";
import { SqliteVerbs } from "./sqlite-verbs.ts";

export type VerbOutcome =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: unknown };

/** What one transaction did, for metrics. */
export interface TransactionFacts {
  readonly verbs: number;
  readonly settles: number;
  /** It was synced to disk before its verbs resolved. */
  readonly synced: boolean;
  /** It came to nothing: what it was to write was refused. */
  readonly failed: boolean;
  readonly durationMs: number;
}

export interface BatchDone {
  /** One a verb, in their order. */
  readonly outcomes: readonly VerbOutcome[];
  readonly facts: TransactionFacts;
}

interface Transacted {
  readonly outcomes: readonly VerbOutcome[];
  readonly failed: boolean;
}

/** Pages in the log before a durable commit moves them to the file: 8 MiB. */
const CHECKPOINT_PAGES = 2048;

/** SQLite's word on a single statement; whatever else it throws is about the file or the disk. */
const STATEMENT_FAULT = /^SQLITE_(?:CONSTRAINT|TOOBIG|MISMATCH|RANGE|ERROR)/;

export class SqliteEngine {
  readonly #db: Database.Database;
  readonly #location: string;
  readonly #readOnly: boolean;
  readonly #verbs: SqliteVerbs;
  readonly #statements: Readonly<
    Record<"begin" | "read" | "commit" | "save" | "release" | "back", Database.Statement>
  >;
  #synced: boolean | null = null;

  /** Opens the file, and for serving takes it over from a dead process. Throws as `openLedgerFile`, and `conflict`. */
  constructor(path: string, options: FileOptions) {
    this.#location = path;
    this.#readOnly = options.readOnly;
    this.#db = openLedgerFile(path, options);
    try {
      this.#verbs = new SqliteVerbs(this.#db);
      this.#statements = {
        begin: this.#db.prepare("BEGIN IMMEDIATE"),
        read: this.#db.prepare("BEGIN"),
        commit: this.#db.prepare("COMMIT"),
        save: this.#db.prepare("SAVEPOINT verb"),
        release: this.#db.prepare("RELEASE verb"),
        back: this.#db.prepare("ROLLBACK TO verb"),
      };
      if (!this.#readOnly) {
        this.#db.transaction(() => this.#verbs.recover(takeOwnership(this.#db, path))).immediate();
      }
    } catch (error) {
      this.#db.close();
      throw this.#asRefusal(error);
    }
  }

  /** Never throws for what is wrong with a verb, the file or the disk: that is in the outcomes. */
  run(verbs: readonly Verb[]): BatchDone {
    const startedAt = performance.now();
    const kinds = new Set(verbs.map(kindOf));
    const durable = kinds.has("durable") && !this.#readOnly;
    const writes = durable || (kinds.has("admit") && !this.#readOnly);
    const { outcomes, failed } = this.#transact(verbs, durable, writes);
    const settles = verbs.filter((verb) => verb.name === "settle").length;
    const synced = writes && !failed && this.#isSynced();
    return {
      outcomes,
      facts: { verbs: verbs.length, settles, synced, failed, durationMs: performance.now() - startedAt },
    };
  }

  #transact(verbs: readonly Verb[], durable: boolean, writes: boolean): Transacted {
    try {
      if (writes) {
        this.#setSynced(durable);
        this.#statements.begin.run();
      } else {
        this.#statements.read.run();
        if (this.#readOnly) this.#verbs.abandoned = abandonment(this.#db);
      }
      const outcomes = verbs.map((verb) => this.#attempt(verb));
      this.#statements.commit.run();
      return { outcomes, failed: false };
    } catch (error) {
      const refusal: VerbOutcome = { ok: false, error: this.#asRefusal(error) };
      this.#rollBack();
      // What only reads can be read all the same, from before; a damaged page is the fault of those who read it.
      const others = writes || verbs.length > 1;
      const outcomes = verbs.map((verb) =>
        others && kindOf(verb) === "read" ? this.#readAlone(verb) : refusal,
      );
      return { outcomes, failed: true };
    }
  }

  /** Throws only what the whole transaction dies of. */
  #attempt(verb: Verb): VerbOutcome {
    if (kindOf(verb) === "read") return this.#read(verb);
    if (this.#readOnly) return { ok: false, error: this.#notWritable(verb) };
    this.#statements.save.run();
    try {
      const value = this.#call(verb);
      this.#statements.release.run();
      return { ok: true, value };
    } catch (error) {
      const aboutFile = error instanceof Database.SqliteError && !STATEMENT_FAULT.test(error.code);
      if (aboutFile || !this.#db.inTransaction) throw error;
      this.#statements.back.run();
      this.#statements.release.run();
      return { ok: false, error: this.#asRefusal(error) };
    }
  }

  #read(verb: Verb): VerbOutcome {
    try {
      return { ok: true, value: this.#call(verb) };
    } catch (error) {
      if (!this.#db.inTransaction) throw error;
      return { ok: false, error: this.#asRefusal(error) };
    }
  }

  #readAlone(verb: Verb): VerbOutcome {
    return this.#transact([verb], false, false).outcomes[0] as VerbOutcome;
  }

  #call(verb: Verb): unknown {
    const method = this.#verbs[verb.name] as (...args: readonly unknown[]) => unknown;
    return method.apply(this.#verbs, verb.args);
  }

  /**
   * FULL syncs the log at each commit, NORMAL leaves that to the next one. A checkpoint syncs too, so only durable
   * commits may set one off. (The first write after the log starts over syncs its header in either mode.)
   */
  #setSynced(synced: boolean): void {
    if (this.#synced === synced) return;
    this.#db.pragma(`synchronous = ${synced ? "FULL" : "NORMAL"}`);
    this.#db.pragma(`wal_autocheckpoint = ${synced ? CHECKPOINT_PAGES : 0}`);
    this.#synced = synced;
  }

  /** As the connection itself says, not as it was asked. */
  #isSynced(): boolean {
    return (this.#db.pragma("synchronous", { simple: true }) as number) >= 2;
  }

  #rollBack(): void {
    if (this.#db.inTransaction) this.#db.exec("ROLLBACK");
  }

  #notWritable(verb: Verb): CoppiceError {
    return new CoppiceError(
      "ledger_error",
      `the ledger ${this.#location} is open read-only; ${verb.name} would write`,
    );
  }

  #asRefusal(error: unknown): unknown {
    if (!(error instanceof Database.SqliteError)) return error;
    const why =
      error.code === "SQLITE_FULL"
        ? "the disk, or the size that the ledger may have, is full"
        : `${messageOf(error)} (${error.code})`;
    return new CoppiceError("ledger_error", `the ledger ${this.#location} could not do it: ${why}`, {
      cause: error,
      detail: { sqlite_code: error.code },
    });
  }

  /** Gives the file up. Calls still in flight will be read as `unknown`. */
  close(): void {
    if (!this.#db.open) return;
    try {
      if (!this.#readOnly) this.#db.transaction(() => releaseOwnership(this.#db)).immediate();
    } finally {
      this.#db.close();
    }
  }
}
