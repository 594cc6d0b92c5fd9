import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, test } from "vitest";
import { openLedgerFile, SCHEMA_VERSION } from "./sqlite-file.ts";
import { expectRefusal } from "./testing/contract-subject.ts";
import { ledgerPath } from "./testing/ledger-folder.ts";

const SERVING = { readOnly: false, maxFileBytes: null };
const READING = { readOnly: true, maxFileBytes: null };

function refusal(path: string, options = SERVING): ReturnType<typeof expectRefusal> {
  const opening = Promise.resolve().then(() => openLedgerFile(path, options).close());
  return expectRefusal(opening, "ledger_error");
}

describe("opening a ledger's file", () => {
  test("it keeps a write-ahead log and syncs at each commit, new and opened again", () => {
    const path = ledgerPath();
    for (const _time of ["new", "again"]) {
      const db = openLedgerFile(path, SERVING);
      expect(db.pragma("journal_mode", { simple: true })).toBe("wal");
      expect(db.pragma("synchronous", { simple: true }), "FULL").toBe(2);
      expect(db.pragma("busy_timeout", { simple: true })).toBeGreaterThan(0);
      expect(db.pragma("page_size", { simple: true })).toBe(4096);
      expect(db.pragma("user_version", { simple: true })).toBe(SCHEMA_VERSION);
      db.close();
    }
    expect(readdirSync(dirname(path))).toEqual(["ledger.db"]);
  });

  test("an empty file becomes a ledger", () => {
    const path = ledgerPath();
    writeFileSync(path, "");
    openLedgerFile(path, SERVING).close();
    openLedgerFile(path, READING).close();
  });

  test("a file that is no database is refused as it is", async () => {
    const path = ledgerPath();
    writeFileSync(path, "once upon a time ".repeat(500));
    for (const options of [SERVING, READING]) {
      expect((await refusal(path, options)).message).toMatch(/ledger\.db as a ledger: it is not a database/);
    }
    expect(readFileSync(path, "utf8")).toBe("once upon a time ".repeat(500));
  });

  test("a database of another application is refused as it is", async () => {
    const path = ledgerPath();
    const other = new Database(path);
    other.exec("CREATE TABLE attempt (a)");
    other.close();
    const before = readFileSync(path);
    for (const options of [SERVING, READING]) {
      expect((await refusal(path, options)).message).toContain("it is not a ledger");
    }
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  test("a newer schema is refused by both versions' numbers", async () => {
    const path = ledgerPath();
    const db = openLedgerFile(path, SERVING);
    db.pragma(`user_version = ${SCHEMA_VERSION + 4}`);
    db.close();
    for (const options of [SERVING, READING]) {
      const { message } = await refusal(path, options);
      expect(message).toContain(`schema ${SCHEMA_VERSION + 4}`);
      expect(message).toContain(`up to ${SCHEMA_VERSION};`);
    }
  });

  test("a missing folder, a folder in the file's place and a place that cannot be written are named", async () => {
    const path = ledgerPath();
    expect((await refusal(`${path}/x/ledger.db`)).message).toContain(`the folder ${path}/x does not exist`);
    mkdirSync(path);
    expect((await refusal(path)).message).toContain("it must be a file (not a folder)");
    expect((await refusal("/proc/ledger.db")).message).toContain("a folder that this process may write");
    await expectRefusal(
      Promise.resolve().then(() => openLedgerFile(" ", SERVING)),
      "invalid_request",
    );
  });

  test("reading makes nothing: a missing file is not found, an empty one is no ledger", async () => {
    const path = ledgerPath();
    await expectRefusal(
      Promise.resolve().then(() => openLedgerFile(path, READING)),
      "not_found",
    );
    expect(readdirSync(dirname(path))).toEqual([]);
    writeFileSync(path, "");
    expect((await refusal(path, READING)).message).toContain("it is not a ledger: it is empty");
    expect(readFileSync(path)).toHaveLength(0);
  });

  test("a ledger in memory cannot be opened for reading only", async () => {
    await expectRefusal(
      Promise.resolve().then(() => openLedgerFile(":memory:", READING)),
      "invalid_request",
    );
  });
});
