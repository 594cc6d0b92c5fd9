import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, statSync } from "node:fs";
import Database from "better-sqlite3";
import { describe, expect, onTestFinished, test } from "vitest";
import { callId } from "../lineage/call.ts";
import type { Admitted, Ledger } from "./ledger.ts";
import { openSqliteLedger, type SqliteLedgerOptions } from "./sqlite-ledger.ts";
import { admitOne, expectDigests, expectRefusal } from "./testing/contract-subject.ts";
import { ledgerPath } from "./testing/ledger-folder.ts";
import { admission, answer, key, opening, outcome } from "./testing/sample-calls.ts";

async function openHere(path: string, options: SqliteLedgerOptions = {}): Promise<Ledger> {
  const ledger = await openSqliteLedger(path, { worker: false, ...options });
  onTestFinished(() => ledger.close());
  return ledger;
}

/** Makes the file say that another process serves it. */
function setOwner(path: string, pid: number, start: string | null): void {
  const db = new Database(path);
  db.exec("DELETE FROM owner");
  db.prepare("INSERT INTO owner (pid, process_start) VALUES (?, ?)").run(pid, start);
  db.close();
}

/** A process that lives until the test ends; its start as the file would have it, where the system tells. */
function liveProcess(): { readonly pid: number; readonly start: string | null } {
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  const pid = child.pid as number;
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const ticks = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  return { pid, start: `${ticks}@${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()}` };
}

async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ["-e", ""], { stdio: "ignore" });
  await once(child, "exit");
  return child.pid as number;
}

describe("serving", () => {
  test.each([true, false])(
    "a second opening is a conflict that names the process (thread: %s)",
    async (worker) => {
      const path = ledgerPath();
      const ledger = await openSqliteLedger(path, { worker });
      const admitted = await admitOne(ledger, admission("c1"));
      const error = await expectRefusal(openSqliteLedger(path, { worker }), "conflict", { pid: process.pid });
      expect(error.message).toContain(`process ${process.pid}`);
      expect(await ledger.call(callId("c1")), "the first goes on").toMatchObject({ status: "admitted" });
      await ledger.settle(answer(admitted));
      await ledger.close();
      await (await openSqliteLedger(path, { worker })).close();
    },
  );

  test("while another process lives it is a conflict, with its start known or not", async () => {
    const path = ledgerPath();
    await (await openHere(path)).close();
    const { pid, start } = liveProcess();
    for (const known of [start, null]) {
      setOwner(path, pid, known);
      await expectRefusal(openSqliteLedger(path, { worker: false }), "conflict", { pid });
    }
  });

  test("a process that is dead, or whose id another has by now, is succeeded", async () => {
    const path = ledgerPath();
    const ledger = await openHere(path);
    await admitOne(ledger, admission("c1"));
    await ledger.close();
    const pid = await deadPid();
    setOwner(path, pid, null);
    const next = await openHere(path);
    expect(await next.call(callId("c1"))).toMatchObject({
      status: "unknown",
      statusDetail: `process ${pid} ended before this call settled`,
    });
    await next.close();
    setOwner(path, liveProcess().pid, "1@another boot");
    await (await openHere(path)).close();
  });

  test("a closed ledger refuses, and closing again is fine", async () => {
    const ledger = await openSqliteLedger(ledgerPath());
    const settling = ledger.setWeightVersion("1");
    await Promise.all([ledger.close(), ledger.close()]);
    await settling;
    const error = await expectRefusal(ledger.weightVersion(), "ledger_error");
    expect(error.message).toContain("closed");
  });
});

describe("reading beside a process that serves", () => {
  test("commits are seen at once, calls in flight are admitted while it lives", async () => {
    const path = ledgerPath();
    const writer = await openHere(path);
    const reader = await openHere(path, { readOnly: true, worker: true });
    expect(await reader.rollout(key())).toBeNull();
    const [one] = await writer.admit([admission("c1"), admission("c2")]);
    const { call } = await writer.settle(answer(one as Admitted));
    expect(await reader.call(call.callId)).toEqual(call);
    expect(await reader.calls(key())).toEqual(await writer.calls(key()));
    expect(await reader.call(callId("c2"))).toMatchObject({ status: "admitted" });
    expect((await reader.rollout(key()))?.counts).toMatchObject({ admitted: 2, committed: 1, unknown: 0 });
    expect([...((await reader.sequence(call.callId)) as Uint32Array)]).toEqual([10, 11, 1001, 1002]);
  });

  test("once it is dead they are unknown, exactly as the next process will write them", async () => {
    const path = ledgerPath();
    const first = await openHere(path);
    const admitted = await first.admit(["c1", "c2", "c3"].map((id) => admission(id, { agent: "a" })));
    await first.settle(answer(admitted[1] as Admitted));
    await first.open(opening({ rolloutId: "r1" as never }));
    await first.seal(outcome({ rolloutId: "r1" as never }), 3000);
    await admitOne(first, admission("late", { rolloutId: "r1" as never }));
    await first.close();
    setOwner(path, await deadPid(), null);

    const before = readFileSync(path);
    const reader = await openHere(path, { readOnly: true });
    const read = async (ledger: Ledger): Promise<unknown> => ({
      rollout: await ledger.rollout(key()),
      calls: await ledger.calls(key()),
      summaries: await ledger.summaries(key(), 0),
      since: await ledger.summaries(key(), 4),
      one: await ledger.call(callId("c3")),
      late: await ledger.lateCalls(key(null, "r1" as never)),
      list: await ledger.rollouts({}),
    });
    const told = await read(reader);
    const calls = await reader.calls(key());
    expect(calls.map((call) => call.status)).toEqual(["unknown", "committed", "unknown"]);
    expect(calls.map((call) => call.settledOrder)).toEqual([5, 4, 6]);
    expectDigests(calls);
    await reader.close();
    expect(readFileSync(path).equals(before), "nothing was written").toBe(true);

    expect(await read(await openHere(path))).toEqual(told);
  });

  test("verbs that write are refused by name and nothing is written", async () => {
    const path = ledgerPath();
    const writer = await openHere(path);
    const admitted = await admitOne(writer, admission("c1"));
    await writer.close();
    const { mtimeMs } = statSync(path);
    const reader = await openHere(path, { readOnly: true });
    const refused: readonly [string, Promise<unknown>][] = [
      ["open", reader.open(opening())],
      ["admit", reader.admit([admission("c2")])],
      ["settle", reader.settle(answer(admitted))],
      ["seal", reader.seal(outcome(), 1)],
      ["sweep", reader.sweep(key())],
      ["setWeightVersion", reader.setWeightVersion("1")],
    ];
    const reading = reader.weightVersion();
    for (const [verb, result] of refused) {
      expect((await expectRefusal(result, "ledger_error")).message).toContain(
        `read-only; ${verb} would write`,
      );
    }
    expect(await reading).toBeNull();
    await reader.close();
    expect(statSync(path).mtimeMs).toBe(mtimeMs);
  });
});
