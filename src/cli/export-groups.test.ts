import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openSqliteLedger } from "../ledger/sqlite-ledger.ts";
import { callId, rolloutId } from "../lineage/call.ts";
import { RolloutIndex, recordCall } from "../lineage/record-call.ts";
import { sampleCall } from "./testing/sample-call.ts";
import { exportGroups } from "./export-groups.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "coppice-groups-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** Groups `a` and `b` are complete; `c` waits for its second rollout, nobody told the size of `d`, `e` has no reward. */
async function ledgerOfThreeGroups(): Promise<string> {
  const path = join(folder, "run.db");
  const ledger = await openSqliteLedger(path);
  for (const [group, size] of [
    ["a", 1],
    ["b", 1],
    ["c", 2],
    ["d", null],
    ["e", 1],
  ] as const) {
    const id = rolloutId(`of-${group}`);
    const told = { rolloutId: id, attempt: null, groupId: group, groupSize: size, generationIndex: 0 };
    await ledger.open({ ...told, sampling: null, deadlineAt: null, tags: null, openedAt: 1 });
    const call = { rolloutId: id, callId: callId(`call-${group}`), responseId: null };
    const [admitted] = await ledger.admit([{ ...call, admittedAt: 1, agent: null, class: null }]);
    const captured = sampleCall({ ...call, admittedOrder: admitted?.admittedOrder ?? 0 });
    await ledger.settle(recordCall(captured, new RolloutIndex().place(captured), null));
    const outcome = {
      rolloutId: id,
      groupId: group,
      generationIndex: 0,
      reward: group === "e" ? null : 1,
      failed: null,
      infer: false,
    };
    await ledger.seal({ ...outcome, accepted: [`call-${group}`], final: null }, 2);
  }
  await ledger.close();
  return path;
}

test("writes a file for each complete group, and a second run goes on where the first was broken off", async () => {
  const ledger = await ledgerOfThreeGroups();
  const out = join(folder, "out");
  const options = { ledger, format: "jsonl" } as const;
  await exportGroups(out, options, () => undefined);
  expect((await readdir(out)).sort()).toEqual(["a.jsonl", "b.jsonl"]);
  expect(JSON.parse(await readFile(join(out, "a.jsonl"), "utf8"))).toMatchObject({
    row_id: "a_g0_s0",
    advantage: 0,
  });

  await rm(join(out, "b.jsonl"));
  await writeFile(join(out, "a.jsonl"), "as it was left");
  await exportGroups(out, options, () => undefined);
  expect(await readFile(join(out, "a.jsonl"), "utf8")).toBe("as it was left");
  expect(JSON.parse(await readFile(join(out, "b.jsonl"), "utf8"))).toMatchObject({ row_id: "b_g0_s0" });
});

test("does not go with options that choose something else", async () => {
  const options = { ledger: "x.db", format: "jsonl", out: "y" } as const;
  await expect(exportGroups(folder, options, () => undefined)).rejects.toThrow(/--out-dir .* --out$/);
});
