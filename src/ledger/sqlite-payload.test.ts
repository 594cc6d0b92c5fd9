import type Database from "better-sqlite3";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { openLedgerFile } from "./sqlite-file.ts";
import { PayloadTable } from "./sqlite-payload.ts";

function openTable(): { readonly db: Database.Database; readonly table: PayloadTable } {
  const db = openLedgerFile(":memory:", { readOnly: false, maxFileBytes: null });
  return { db, table: new PayloadTable(db) };
}

function bytesOf(length: number, seed: number): Buffer {
  return Buffer.from(Array.from({ length }, (_, index) => (index * 31 + seed * 17) & 255));
}

describe("payloads", () => {
  test("tokens of any length come back whole, whatever stands before and after, and are deleted alone", () => {
    const anyLength = fc.oneof(
      fc.nat({ max: 300 }),
      fc.nat({ max: 5000 }),
      fc.constantFrom(4053, 4057, 4058, 40_000),
    );
    fc.assert(
      fc.property(fc.array(anyLength, { minLength: 1, maxLength: 12 }), (lengths) => {
        const { db, table } = openTable();
        for (const [index, length] of lengths.entries()) {
          const texts = {
            messages: index % 2 === 0 ? null : `[${index}]`,
            answer: index % 3 === 0 ? null : "{}",
          };
          table.write(index + 1, bytesOf(length, index), texts);
          expect(table.texts(index + 1)).toEqual(texts);
        }
        table.delete(2);
        for (const [index, length] of lengths.entries()) {
          expect(bytesOf(index === 1 ? 0 : length, index).equals(table.tokens(index + 1))).toBe(true);
        }
        expect(table.texts(2)).toEqual({ messages: null, answer: null });
        db.close();
      }),
      { numRuns: 100 },
    );
  });

  test("more tokens than there are pieces of a page are kept in longer pieces", () => {
    const { db, table } = openTable();
    const tokens = Buffer.alloc(4096 * 4096 + 5, 7);
    table.write(1, tokens, { messages: null, answer: null });
    table.write(2, bytesOf(10, 1), { messages: null, answer: null });
    expect(tokens.equals(table.tokens(1))).toBe(true);
    expect(bytesOf(10, 1).equals(table.tokens(2))).toBe(true);
    db.close();
  });

  test.each([64, 1320, 1536, 2560, 4057, 9000])("pages are full of calls of %i bytes", (length) => {
    const { db, table } = openTable();
    const calls = Math.ceil(2_000_000 / length);
    db.transaction(() => {
      for (let key = 1; key <= calls; key++) {
        table.write(key, bytesOf(length, key), { messages: null, answer: null });
      }
    })();
    const room = db
      .prepare<[], number>("SELECT sum(pgsize) FROM dbstat WHERE name = 'call_tokens'")
      .pluck()
      .get();
    // A piece's own 12 bytes weigh on the smallest calls.
    expect((room as number) / (calls * (length + 12))).toBeLessThan(1.03);
    db.close();
  });

  test("after a rollback it goes on, and at worst leaves an end of a page empty", () => {
    const { db, table } = openTable();
    const none = { messages: null, answer: null };
    for (let key = 1; key <= 300; key++) {
      db.exec("BEGIN");
      table.write(key, bytesOf(1536, key), none);
      db.exec(key % 10 === 0 ? "ROLLBACK" : "COMMIT");
    }
    for (let key = 1; key <= 300; key++) {
      expect(bytesOf(key % 10 === 0 ? 0 : 1536, key).equals(table.tokens(key))).toBe(true);
    }
    db.close();
  });
});
