import { execFile } from "node:child_process";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { openInThread } from "./sqlite-connection.ts";
import { openSqliteLedger, type TransactionFacts } from "./sqlite-ledger.ts";
import { ledgerPath } from "./testing/ledger-folder.ts";
import { admission, answer } from "./testing/sample-calls.ts";

describe("the ledger's thread", () => {
  test("what arrives while it syncs forms the next transaction", async () => {
    const facts: TransactionFacts[] = [];
    const ledger = await openSqliteLedger(ledgerPath(), { onTransaction: (fact) => facts.push(fact) });
    onTestFinished(() => ledger.close());
    const admitted = await ledger.admit(Array.from({ length: 64 }, (_, index) => admission(`c${index}`)));
    facts.length = 0;
    const settles: Promise<unknown>[] = [];
    for (const one of admitted) {
      settles.push(ledger.settle(answer(one)));
      await nextTurn();
    }
    await Promise.all(settles);
    expect(facts.reduce((sum, fact) => sum + fact.settles, 0)).toBe(64);
    expect(facts.length).toBeLessThan(64);
  });

  test("the event loop turns while a large transaction is written", async () => {
    const ledger = await openSqliteLedger(ledgerPath());
    onTestFinished(() => ledger.close());
    const admitted = await ledger.admit(Array.from({ length: 20 }, (_, index) => admission(`c${index}`)));
    const prompt = Array.from({ length: 200_000 }, (_, index) => index);
    const pending = admitted.map((one) => answer(one, { prompt }));
    const waiting = { done: false };
    const settled = Promise.all(pending.map((call) => ledger.settle(call))).then(() => (waiting.done = true));
    let turns = 0;
    for (; !waiting.done; turns++) await nextTurn();
    await settled;
    expect(turns).toBeGreaterThan(100);
  });

  test("a program that closes nothing gets its answers, and ends", async () => {
    const child = fileURLToPath(new URL("./testing/unclosed-child.ts", import.meta.url));
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [...process.execArgv, child, ledgerPath()],
      {
        timeout: 20_000,
      },
    );
    expect(stdout).toBe("kept");
  });

  test("when it ends by a fault, whoever waits is told", async () => {
    const connection = await openInThread(ledgerPath(), { readOnly: false, maxFileBytes: null });
    const lost = new Promise<unknown>((resolve) => {
      connection.listener = { done: () => undefined, lost: resolve };
    });
    connection.run([null as never]);
    expect(await lost).toMatchObject({ code: "ledger_error" });
  });
});
