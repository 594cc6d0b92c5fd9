import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { startStandIn, type StandIn } from "../engine/stand-in.ts";
import { openSqliteLedger } from "../ledger/sqlite-ledger.ts";
import { rolloutId } from "../lineage/call.ts";
import { ACTIONS } from "./demo-task.ts";
import { demoCommand, runDemo } from "./demo.ts";
import type { DemoRun } from "./demo-service.ts";

const folders: string[] = [];
const standIns: StandIn[] = [];

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "coppice-demo-"));
  folders.push(made);
  return made;
}

afterEach(async () => {
  process.exitCode = undefined;
  vi.restoreAllMocks();
  await Promise.all(standIns.splice(0).map((one) => one.close()));
  for (const made of folders.splice(0)) rmSync(made, { recursive: true });
});

type Json = Readonly<Record<string, unknown>>;

/** The fields that a vector gives, with the minted call ids put back to the vector's: c1 to c9, then c101. */
function likeTheVector({ rollouts, rowsFile }: DemoRun, expected: readonly Json[]): Json[] {
  const labels = new Map(
    rollouts.flatMap(({ calls }, rollout) =>
      calls.map(({ callId }, index) => [callId, `c${rollout * 100 + index + 1}`] as const),
    ),
  );
  const lines = readFileSync(rowsFile, "utf8").trim().split("\n");
  return lines.map((line, index) => {
    const row = JSON.parse(line) as Json;
    const named = { ...row, call_ids: (row["call_ids"] as string[]).map((id) => labels.get(id)) };
    const fields = Object.keys(expected[index] ?? named);
    return Object.fromEntries(Object.entries(named).filter(([name]) => fields.includes(name)));
  });
}

function vector(mode: string): readonly Json[] {
  const file = new URL(`../../vectors/seed-compaction-${mode}.json`, import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { expected: Json[] }).expected;
}

/** What the command prints, with the exit code that it leaves behind. */
async function print(...argv: string[]): Promise<{ out: string; err: string; code: unknown }> {
  const told = { out: "", err: "" };
  vi.spyOn(process.stdout, "write").mockImplementation((text) => ((told.out += text as string), true));
  vi.spyOn(process.stderr, "write").mockImplementation((text) => ((told.err += text as string), true));
  await demoCommand().parseAsync(argv, { from: "user" });
  vi.restoreAllMocks();
  return { ...told, code: process.exitCode };
}

describe("with the stand-in", () => {
  test("the rows of both modes are the worked example's, and the ledgers stay behind to be read", async () => {
    const out = folder();
    const { runs, faults } = await runDemo({ out, engine: null });
    expect(faults).toEqual([]);
    expect(runs.map(({ mode }) => mode)).toEqual(["off", "on"]);
    for (const run of runs) {
      const expected = vector(run.mode);
      expect(likeTheVector(run, expected)).toEqual(expected);
    }
    const ledger = await openSqliteLedger(join(out, "on.ledger.db"), { readOnly: true });
    const rollout = await ledger.rollout({ rolloutId: rolloutId("r0"), attempt: null });
    expect(rollout).toMatchObject({ state: "sealed", counts: { committed: 9, failed: 0, unknown: 0 } });
    expect(rollout?.outcome?.accepted).toHaveLength(ACTIONS);
    await ledger.close();
  });

  test("a second demo in the same folder starts anew", async () => {
    const out = folder();
    await runDemo({ out, engine: null });
    expect((await runDemo({ out, engine: null })).faults).toEqual([]);
  });

  test("the drawing shows both forests, the rows and where the files are, in plain ASCII", async () => {
    const out = folder();
    const { out: text, err, code } = await print("--out", out);
    expect(code).toBeUndefined();
    expect(err).toBe("");
    expect(text).toContain("* c9    2+1   c9 -> c8 -> c6 -> c5 -> c3 -> c2 -> c1 = group_g0_s0\n");
    expect(text).toContain("* c9    2+1   root: asked again, as c1; c9 = group_g0_s3\n");
    expect(text).toContain("group_g0_s1       6        2       +0.5  10 11 [1003] 50 51 [1005]\n");
    expect(text).toContain(`wrote ${out}/off.rows.jsonl  ledger ${out}/off.ledger.db\n`);
    expect(text).not.toMatch(/[^\n -~]/);
  });

  test("--json prints one object with both runs", async () => {
    const { out: text, code } = await print("--json", "--out", folder());
    expect(code).toBeUndefined();
    const told = JSON.parse(text) as { ok: boolean; runs: { compaction: string; rows: Json[] }[] };
    expect(told.ok).toBe(true);
    expect(told.runs.map(({ compaction, rows }) => [compaction, rows.length])).toEqual([
      ["off", 2],
      ["on", 5],
    ]);
  });

  test("--model without --engine is wrong usage", async () => {
    await expect(print("--model", "m")).rejects.toThrow("give --engine too");
  });
});

describe("with an engine", () => {
  test("the same agent plays seven actions, throws two answers away, and rows come out", async () => {
    const engine = await startStandIn({ template: "chatml", model: "served", strictModel: true });
    standIns.push(engine);
    const { runs, faults } = await runDemo({ out: folder(), engine: { url: engine.url, model: "served" } });
    expect(faults).toEqual([]);
    const [off, on] = runs as [DemoRun, DemoRun];
    for (const run of [off, on]) {
      expect(run.rollouts.map(({ calls }) => calls.length)).toEqual([ACTIONS + 2, 1]);
    }
    expect(off.rows.map(({ row_id }) => row_id)).toEqual(["group_g0_s0", "group_g1_s0"]);
    expect(on.rows).toHaveLength(5);
    const asked = engine.requests.filter(({ path }) => path === "/v1/chat/completions");
    expect(asked[0]?.body).toMatchObject({ temperature: 1, max_tokens: 32, model: "served" });
    const views = asked.map(({ body }) => (body?.["messages"] as { content: string }[] | undefined) ?? []);
    // Compaction on, its third action: head, what was done so far, and what to do now.
    const afterCut = views[10 + 2]?.map(({ content }) => content) ?? [];
    expect(afterCut).toHaveLength(4);
    expect(afterCut[2]).toBe("The total after 2 numbers is 12.");
    expect(afterCut[3]).toMatch(/Add 12\.$/);
  });

  test("rows come out though the engine's tokens drift, and the drift is drawn", async () => {
    const engine = await startStandIn({ drift: true });
    standIns.push(engine);
    const { out: text, code } = await print("--engine", engine.url, "--out", folder());
    expect(code).toBeUndefined();
    expect(text).toMatch(/root: drift from c1 at token \d+: recorded \d+/);
    expect(text).toContain("group_g0_s0");
  });

  test("a rollout that is refused is drawn with its reason, told on stderr, and the exit code is 1", async () => {
    // The call that the final form names tells one token too many in its usage.
    const engine = await startStandIn({
      script: (_request, count) => (count === ACTIONS + 2 ? { kind: "counts", usage: 1 } : null),
    });
    standIns.push(engine);
    const { out: text, err, code } = await print("--engine", engine.url, "--out", folder());
    expect(code).toBe(1);
    expect(text).toMatch(/^x no rows: capture_incomplete {2}call \S+ must train and is untrainable/m);
    expect(err).toMatch(
      /^coppice: compaction off: r0 was refused: capture_incomplete: .*\n.* r0 gave no rows\n$/,
    );
  });

  test("an engine that is not there is an error that says so", async () => {
    const engine = await startStandIn();
    await engine.close();
    await expect(runDemo({ out: folder(), engine: { url: engine.url, model: null } })).rejects.toThrow(
      /502.*ECONNREFUSED|502.*engine/,
    );
  });
});
