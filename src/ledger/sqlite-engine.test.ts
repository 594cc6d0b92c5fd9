import { openSync, readFileSync, writeSync, closeSync } from "node:fs";
import { describe, expect, onTestFinished, test } from "vitest";
import { CoppiceError } from "../errors.ts";
import { callId, type Call } from "../lineage/call.ts";
import { digestCall } from "../lineage/record-digest.ts";
import { tokenBytes } from "../lineage/sequence.ts";
import type { Admitted, Ledger } from "./ledger.ts";
import { openSqliteLedger, type SqliteLedgerOptions, type TransactionFacts } from "./sqlite-ledger.ts";
import { admitOne, expectDigests, expectRefusal } from "./testing/contract-subject.ts";
import { ledgerPath } from "./testing/ledger-folder.ts";
import { admission, answer, key, outcome } from "./testing/sample-calls.ts";

interface Watched {
  readonly ledger: Ledger;
  /** Transactions since it was last looked at. */
  readonly transactions: () => readonly TransactionFacts[];
}

async function openWatched(path: string, options: SqliteLedgerOptions = {}): Promise<Watched> {
  const facts: TransactionFacts[] = [];
  const ledger = await openSqliteLedger(path, { ...options, onTransaction: (fact) => facts.push(fact) });
  onTestFinished(() => ledger.close());
  return { ledger, transactions: () => facts.splice(0) };
}

describe.each([true, false])("transactions (thread: %s)", (worker) => {
  test("settles that are asked for together share one sync", async () => {
    const { ledger, transactions } = await openWatched(ledgerPath(), { worker });
    const admitted = await ledger.admit(Array.from({ length: 64 }, (_, index) => admission(`c${index}`)));
    transactions();
    await Promise.all(admitted.map((one) => ledger.settle(answer(one))));
    expect(transactions()).toMatchObject([{ verbs: 64, settles: 64, synced: true, failed: false }]);
  });

  test("admissions alone are not synced, anything else that writes is", async () => {
    const { ledger, transactions } = await openWatched(ledgerPath(), { worker });
    const admitted = await admitOne(ledger, admission("c1"));
    const second = await admitOne(ledger, admission("c2"));
    expect(transactions().map((fact) => fact.synced)).toEqual([false, false]);
    await Promise.all([admitOne(ledger, admission("c3")), ledger.settle(answer(admitted))]);
    expect(transactions()).toMatchObject([{ verbs: 2, settles: 1, synced: true }]);
    await ledger.calls(key());
    await admitOne(ledger, admission("c4"));
    expect(transactions().map((fact) => fact.synced)).toEqual([false, false]);
    for (const verb of [
      () => ledger.settle(answer(second)),
      () => ledger.setWeightVersion("1"),
      () => ledger.seal(outcome(), 1),
      () => ledger.open({ ...OPEN, attempt: 2 }),
      () => ledger.sweep(key()),
    ]) {
      await verb();
      expect(transactions(), verb.toString()).toMatchObject([{ synced: true }]);
    }
  });

  test("a full ledger refuses what does not fit, changes nothing, and goes on", async () => {
    const path = ledgerPath();
    const { ledger, transactions } = await openWatched(path, { worker, maxFileBytes: 40 * 16_384 });
    const [small, large, other] = (await ledger.admit(
      ["small", "large", "other"].map((id) => admission(id)),
    )) as [Admitted, Admitted, Admitted];
    const kept = await ledger.settle(answer(small));
    const generated = Array.from({ length: 200_000 }, (_, index) => index);
    transactions();
    const [tooLarge, beside, read] = await Promise.allSettled([
      ledger.settle(answer(large, { generated })),
      ledger.settle(answer(other)),
      ledger.call(small.callId),
    ]);
    expect(transactions()).toMatchObject([{ verbs: 3, failed: true, synced: false }]);
    for (const result of [tooLarge, beside]) {
      expect(result).toMatchObject({ status: "rejected", reason: { code: "ledger_error" } });
      expect((result as PromiseRejectedResult).reason).toBeInstanceOf(CoppiceError);
      expect((result as PromiseRejectedResult).reason.message).toContain("is full");
    }
    expect(read).toEqual({ status: "fulfilled", value: kept.call });
    expect(await ledger.call(large.callId)).toMatchObject({ status: "admitted" });
    const after = await ledger.settle(answer(other));
    expect(after.call.settledOrder).toBe((kept.call.settledOrder as number) + 1);
    const calls = await ledger.calls(key());
    expect(calls.map((call) => call.status)).toEqual(["committed", "admitted", "committed"]);
    expectDigests(calls);
  });

  test("when it is full of calls, sweeping makes room", async () => {
    const { ledger } = await openWatched(ledgerPath(), { worker, maxFileBytes: 60 * 16_384 });
    const prompt = Array.from({ length: 10_000 }, (_, index) => index);
    let settled = 0;
    for (let full = false; !full; settled += full ? 0 : 1) {
      const admitted = await admitOne(ledger, admission(`c${settled}`));
      full = await ledger.settle(answer(admitted, { prompt })).then(
        () => false,
        () => true,
      );
    }
    expect(settled).toBeGreaterThan(5);
    expect((await ledger.rollout(key()))?.counts).toMatchObject({
      committed: settled,
      admitted: settled + 1,
    });
    expectDigests(await ledger.calls(key()));
    await ledger.sweep(key());
    await ledger.open({ ...OPEN, attempt: 2 });
    const admitted = await admitOne(ledger, admission("again"));
    expect((await ledger.settle(answer(admitted, { prompt }))).late).toBe(false);
  });

  test("a verb with arguments that no type allows is refused alone", async () => {
    const { ledger } = await openWatched(ledgerPath(), { worker });
    const [admitted, bad] = await Promise.allSettled([
      admitOne(ledger, admission("c1")),
      ledger.seal(null as never, 1),
    ]);
    expect(admitted.status).toBe("fulfilled");
    expect(bad.status).toBe("rejected");
    expect((await ledger.rollout(key()))?.counts.admitted).toBe(1);
  });
});

const OPEN = {
  rolloutId: admission("x").rolloutId,
  attempt: null,
  groupId: null,
  groupSize: null,
  generationIndex: null,
  sampling: null,
  deadlineAt: null,
  tags: null,
  openedAt: 1,
};

describe("damage on disk", () => {
  /** A closed ledger with calls c0 to c49 of 300 tokens. */
  async function written(): Promise<{ readonly path: string; readonly calls: readonly Call[] }> {
    const path = ledgerPath();
    const ledger = await openSqliteLedger(path, { worker: false });
    const admitted = await ledger.admit(Array.from({ length: 50 }, (_, index) => admission(`c${index}`)));
    const calls: Call[] = [];
    for (const [index, one] of admitted.entries()) {
      const prompt = Array.from({ length: 300 }, (_, token) => index * 1000 + token);
      calls.push((await ledger.settle(answer(one, { prompt }))).call);
    }
    await ledger.close();
    return { path, calls };
  }

  test("a token that changed on disk is seen by the call's digest", async () => {
    const { path, calls } = await written();
    const bytes = readFileSync(path);
    const at = placeOf(bytes, calls[7] as Call);
    expect(at).toBeGreaterThan(0);
    overwrite(path, at, Buffer.from([0xff]));
    const { ledger } = await openWatched(path, { readOnly: true });
    const read = await ledger.calls(key());
    const changed = read.filter((call) => call.digest !== digestCall(call));
    expect(changed.map((call) => call.callId)).toEqual(["c7"]);
  });

  test("metadata that cannot be read back is a ledger error that names the call", async () => {
    const { path, calls } = await written();
    const bytes = readFileSync(path);
    // The first call's sampling is the attempt's usual one; its own JSON stands in the attempt.
    const at = bytes.indexOf(JSON.stringify([calls[0]?.sampling.asked, calls[0]?.sampling.used]));
    overwrite(path, at, Buffer.from("{{{"));
    const { ledger } = await openWatched(path, { readOnly: true });
    await expectRefusal(ledger.call(callId("c3")), "ledger_error", {
      reason: "corrupt_record",
      call_id: "c3",
    });
  });

  test("pages that were overwritten are a ledger error, and other reads go on", async () => {
    const { path, calls } = await written();
    const bytes = readFileSync(path);
    const page = Math.floor(placeOf(bytes, calls[40] as Call) / 4096);
    overwrite(path, page * 4096, Buffer.alloc(200, 0x5a));
    const { ledger } = await openWatched(path);
    const [damaged, fine, rollout] = await Promise.allSettled([
      ledger.calls(key()),
      ledger.call(callId("c0")),
      ledger.rollout(key()),
    ]);
    expect(damaged).toMatchObject({ status: "rejected", reason: { code: "ledger_error" } });
    expect(fine).toEqual({ status: "fulfilled", value: calls[0] });
    expect(rollout.status).toBe("fulfilled");
  });

  /** Where two tokens of the call stand together; tokens are cut where a page ends. */
  function placeOf(bytes: Buffer, { carriedTokenIds }: Call): number {
    const places = [10, 200].map((token) =>
      bytes.lastIndexOf(tokenBytes(carriedTokenIds.subarray(token, token + 2))),
    );
    return Math.max(...places);
  }

  function overwrite(path: string, at: number, bytes: Buffer): void {
    const file = openSync(path, "r+");
    writeSync(file, bytes, 0, bytes.length, at);
    closeSync(file);
  }
});
