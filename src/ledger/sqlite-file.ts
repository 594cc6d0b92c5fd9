// Opens the file of an embedded ledger: tells a ledger from any other file, brings an older one to the present schema
// and sets what durability rests on. What the tables mean is said where they are read and written; who may serve the
// file is sqlite-owner.ts.
import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import Database from "better-sqlite3";
import { CoppiceError, messageOf } from "../errors.ts";

export const IN_MEMORY = ":memory:";

/** `PRAGMA application_id` of a ledger: "Copp". */
const APPLICATION_ID = 0x436f7070;

/** Small, since a commit writes whole pages: five or six for a call. */
export const PAGE_BYTES = 4096;

/** Other processes only read, and WAL readers block nobody; this is for two that open the file at once. */
const BUSY_TIMEOUT_MS = 5_000;

/**
 * Step n brings schema n to n + 1. `call` and its payload are only appended to, in order of `call_key`: that fills their
 * pages, where rows clustered by attempt left a third empty. Admitted calls wait in `in_flight`, so that no row grows.
 */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE owner (pid INTEGER NOT NULL, process_start TEXT);
  CREATE TABLE attempt (
    attempt_key INTEGER PRIMARY KEY,
    rollout_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    newest INTEGER NOT NULL,
    state TEXT NOT NULL,
    group_id TEXT, group_size INTEGER, generation_index INTEGER,
    sampling TEXT, deadline_at INTEGER, deadline_ms INTEGER, tags TEXT,
    opened_at INTEGER NOT NULL, sealed_at INTEGER,
    outcome TEXT, reward REAL,
    weight_version TEXT, usual_sampling TEXT,
    last_order INTEGER NOT NULL DEFAULT 0,
    last_late_order INTEGER NOT NULL DEFAULT 0,
    admitted INTEGER NOT NULL DEFAULT 0,
    committed INTEGER NOT NULL DEFAULT 0,
    aborted INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    unknown INTEGER NOT NULL DEFAULT 0,
    late INTEGER NOT NULL DEFAULT 0
  );
  CREATE UNIQUE INDEX attempt_of_rollout ON attempt (rollout_id, attempt);
  CREATE UNIQUE INDEX attempt_of_group ON attempt (group_id, generation_index) WHERE newest = 1;
  CREATE INDEX attempt_by_state ON attempt (state, opened_at) WHERE newest = 1;
  CREATE TABLE in_flight (
    attempt_key INTEGER NOT NULL,
    late INTEGER NOT NULL,
    admitted_order INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    admission TEXT NOT NULL,
    PRIMARY KEY (attempt_key, late, admitted_order)
  ) WITHOUT ROWID;
  CREATE UNIQUE INDEX in_flight_of_id ON in_flight (call_id);
  CREATE TABLE call (
    call_key INTEGER PRIMARY KEY,
    attempt_key INTEGER NOT NULL,
    late INTEGER NOT NULL,
    settled_order INTEGER NOT NULL,
    admitted_order INTEGER NOT NULL,
    parent_order INTEGER,
    call_id NOT NULL,
    response_id TEXT, response_tail INTEGER,
    status INTEGER NOT NULL,
    admitted_at INTEGER, settled_at INTEGER,
    carried_length INTEGER NOT NULL, generated_length INTEGER NOT NULL, sequence_length INTEGER NOT NULL,
    address BLOB, fingerprint INTEGER NOT NULL,
    finish_reason TEXT, weight_version TEXT, way INTEGER NOT NULL, logprobs_mode TEXT,
    agent TEXT, class INTEGER,
    request_digest BLOB, history_digest BLOB, message_count INTEGER NOT NULL, messages_from INTEGER NOT NULL,
    sampling TEXT, more TEXT, digest BLOB NOT NULL
  );
  CREATE TABLE call_tokens (piece_key INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
  CREATE TABLE call_texts (call_key INTEGER PRIMARY KEY, messages TEXT, answer TEXT);
  CREATE UNIQUE INDEX call_of_attempt ON call (attempt_key, late, settled_order);
  CREATE UNIQUE INDEX call_of_id ON call (call_id) WHERE late = 0;
  CREATE INDEX late_call_of_id ON call (call_id) WHERE late = 1;
  `,
  `
  ALTER TABLE attempt ADD COLUMN published_at REAL;
  CREATE INDEX attempt_to_publish ON attempt (coalesce(group_id, rollout_id))
    WHERE newest = 1 AND published_at IS NULL;
  CREATE TABLE claim (
    claim_id TEXT PRIMARY KEY, group_id TEXT NOT NULL, consumer TEXT NOT NULL, state TEXT NOT NULL,
    claimed_at REAL NOT NULL, expires_at REAL NOT NULL, acknowledged_at REAL, members TEXT NOT NULL
  );
  CREATE UNIQUE INDEX claim_held ON claim (group_id) WHERE state = 'held';
  `,
];

export const SCHEMA_VERSION: number = MIGRATIONS.length;

export interface FileOptions {
  /** Creates, migrates and marks nothing. */
  readonly readOnly: boolean;
  /** The file grows no further than this, rounded down to whole pages; null: as far as the disk goes. */
  readonly maxFileBytes: number | null;
}

/**
 * Throws `ledger_error` for a path that cannot be used, a file that is not a ledger, one of a newer schema, and a place
 * that cannot keep the promises; `not_found` for a file that is to be read and is not there.
 */
export function openLedgerFile(path: string, options: FileOptions): Database.Database {
  checkPath(path, options.readOnly);
  let db: Database.Database | null = null;
  try {
    db = new Database(path === IN_MEMORY ? path : resolve(path), {
      readonly: options.readOnly,
      fileMustExist: options.readOnly,
      timeout: BUSY_TIMEOUT_MS,
    });
    checkSchema(db, path, options.readOnly);
    if (!options.readOnly) {
      makeDurable(db, path);
      migrate(db);
      if (options.maxFileBytes !== null) {
        db.pragma(`max_page_count = ${Math.max(1, Math.floor(options.maxFileBytes / PAGE_BYTES))}`);
      }
    }
    return db;
  } catch (error) {
    db?.close();
    throw error instanceof CoppiceError ? error : unusable(path, whyNot(error), error);
  }
}

function unusable(path: string, why: string, cause?: unknown): CoppiceError {
  return new CoppiceError("ledger_error", `cannot use ${path} as a ledger: ${why}`, { cause });
}

function whyNot(error: unknown): string {
  const code = error instanceof Database.SqliteError ? error.code : "";
  if (code === "SQLITE_NOTADB") return "it is not a database";
  if (code.startsWith("SQLITE_CANTOPEN")) {
    return "it cannot be opened or made; it must be a file (not a folder) in a folder that this process may write";
  }
  if (code.startsWith("SQLITE_READONLY")) return "this process may not write it";
  if (code.startsWith("SQLITE_CORRUPT")) return `it is damaged (${messageOf(error)})`;
  return messageOf(error);
}

function checkPath(path: string, readOnly: boolean): void {
  if (path === IN_MEMORY) {
    if (!readOnly) return;
    throw new CoppiceError(
      "invalid_request",
      "a ledger in memory cannot be opened read-only: it is always new",
    );
  }
  if (path.trim() === "") throw new CoppiceError("invalid_request", "the path of the ledger is empty");
  const folder = dirname(resolve(path));
  if (!existsSync(folder)) throw unusable(path, `the folder ${folder} does not exist`);
  if (readOnly && !existsSync(path)) throw new CoppiceError("not_found", `there is no ledger at ${path}`);
}

function checkSchema(db: Database.Database, path: string, readOnly: boolean): void {
  const applicationId = db.pragma("application_id", { simple: true }) as number;
  const version = db.pragma("user_version", { simple: true }) as number;
  if (applicationId !== APPLICATION_ID) {
    const tables = db.prepare<[], number>("SELECT count(*) FROM sqlite_schema").pluck().get();
    if (!readOnly && applicationId === 0 && version === 0 && tables === 0) return;
    throw unusable(path, "it is not a ledger: it is empty, or a SQLite file of another application");
  }
  if (version > SCHEMA_VERSION) {
    throw unusable(
      path,
      `it has schema ${version} and this version of Coppice knows schemas up to ${SCHEMA_VERSION}; use a newer Coppice`,
    );
  }
  if (readOnly && version < SCHEMA_VERSION) {
    throw unusable(
      path,
      `it has schema ${version} and is to be read as schema ${SCHEMA_VERSION}; serve it once to bring it up to date`,
    );
  }
}

function makeDurable(db: Database.Database, path: string): void {
  // Takes effect in a new file only.
  db.pragma(`page_size = ${PAGE_BYTES}`);
  const mode = db.pragma("journal_mode = WAL", { simple: true }) as string;
  if (mode !== "wal" && path !== IN_MEMORY) {
    throw unusable(
      path,
      `its folder has no write-ahead log (journal mode is ${mode}); use a local file system`,
    );
  }
  // SQLite falls back to NORMAL when it opens a file that is in WAL mode already.
  db.pragma("synchronous = FULL");
  const synchronous = db.pragma("synchronous", { simple: true }) as number;
  if (synchronous !== 2) throw unusable(path, `synchronous is ${synchronous} where it must be 2 (FULL)`);
}

function migrate(db: Database.Database): void {
  db.transaction(() => {
    const version = db.pragma("user_version", { simple: true }) as number;
    if (version >= SCHEMA_VERSION) return;
    for (const step of MIGRATIONS.slice(version)) db.exec(step);
    db.pragma(`user_version = ${SCHEMA_VERSION}`);
    db.pragma(`application_id = ${APPLICATION_ID}`);
  }).immediate();
}
