import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { buildTraceRows, readTrace, recordsOf } from "../export/trace.ts";
import { callId } from "../lineage/call.ts";
import { legendLine } from "./call-fate.ts";
import { drawForest, type DrawnCall } from "./draw-forest.ts";
import { PLAIN, styleFor, type Style } from "./paint.ts";

const UNICODE: Style = { color: false, unicode: true, width: null };

function drawVector(name: string, style: Style): string {
  const file = new URL(`../../vectors/${name}.json`, import.meta.url);
  const { trace } = JSON.parse(readFileSync(file, "utf8")) as { trace: unknown[] };
  const read = readTrace(trace);
  const built = buildTraceRows(read);
  const [rollout] = read.rollouts;
  if (rollout === undefined) throw new Error(`${name} has no rollout`);
  const rows = built.flatMap((one) => (one.kind === "rows" ? one.rows : []));
  const failure = built.find((one) => one.kind === "failure");
  return drawForest(
    {
      title: rollout.rolloutId,
      calls: recordsOf(rollout),
      rows: rows.filter(({ rolloutId }) => rolloutId === rollout.rolloutId),
      refusal: failure?.failure ?? null,
    },
    style,
  ).join("\n");
}

function call(id: string, parent: string | null, more: Partial<DrawnCall> = {}): DrawnCall {
  return {
    callId: id,
    parentCallId: parent,
    status: "committed",
    statusDetail: null,
    rootReason: null,
    carriedLength: 2,
    generatedLength: 1,
    untrainable: null,
    agent: null,
    class: null,
    ...more,
  };
}

const row = (rowId: string, ...ids: string[]) => ({
  rowId,
  spans: ids.map((id) => ({ callId: id, trained: true })),
});

function draw(calls: readonly DrawnCall[], ...rows: ReturnType<typeof row>[]): string {
  return drawForest({ title: "r", calls, rows, refusal: null }, UNICODE).join("\n");
}

describe("the worked example", () => {
  test("compaction off is one solid lane with the two rejected calls hanging beside it", () => {
    expect(drawVector("seed-compaction-off", UNICODE)).toBe(
      `
r0  9 calls, 1 tree, 3 leaves, 7 kept, 2 rejected

● c1    2+1   root
● c2    2+1
● c3    2+1
┠╌○ c4  2+1   rejected
● c5    2+1
● c6    2+1
┠╌○ c7  2+1   rejected
● c8    2+1
● c9    2+1   c9 → c8 → c6 → c5 → c3 → c2 → c1 = group_g0_s0`.trimStart(),
    );
  });

  test("compaction on is four trees, each with the walk of its row", () => {
    expect(drawVector("seed-compaction-on", PLAIN)).toBe(
      `
r0  9 calls, 4 trees, 6 leaves, 7 kept, 2 rejected

* c1    2+1   root
* c2    2+1   c2 -> c1 = group_g0_s0

* c3    2+1   root: no messages to tell why
|-o c4  2+1   rejected
* c5    2+1   c5 -> c3 = group_g0_s1

* c6    2+1   root: no messages to tell why
|-o c7  2+1   rejected
* c8    2+1   c8 -> c6 = group_g0_s2

* c9    2+1   root: no messages to tell why; c9 = group_g0_s3`.trimStart(),
    );
  });
});

describe("forests", () => {
  test("forks within forks keep to their lanes, each row's leaf with its walk", () => {
    expect(drawVector("nested-forks", UNICODE)).toBe(
      `
r0  6 calls, 1 tree, 3 leaves, 6 kept

● c1      3+1   root
┣━● c2    2+1
┃ ┣━● c4  2+1   c4 → c2 → c1 = group_g0_s0
┃ ● c5    2+1   c5 → c2 → c1 = group_g0_s1
● c3      2+1
● c6      2+1   c6 → c3 → c1 = group_g0_s2`.trimStart(),
    );
  });

  test("a rejected call on a walk is context, and a refusal is named below calls that nobody decided on", () => {
    expect(drawVector("rejected-ancestor", UNICODE)).toContain("◐ c2  2+1   context");
    expect(drawVector("unknown-reference", PLAIN)).toBe(
      `
r0  2 calls, 1 tree, 1 leaf

+ c1  3+1   root
+ c2  2+1

x no rows: unknown_reference  accepted[1] names resp-nobody, which is no call or response of this rollout`.trimStart(),
    );
  });

  test("what hangs below the end of a walk hangs beside it, and a tree that no walk came into says so", () => {
    expect(
      draw(
        [call("c1", null), call("c2", "c1"), call("c3", "c1"), call("c4", null), call("c5", "c4")],
        row("g_s0", "c1"),
      ),
    ).toBe(
      `
r  5 calls, 2 trees, 3 leaves, 1 kept, 2 rejected, 2 not walked

● c1    2+1   root  ·  c1 = g_s0
┠╌○ c2  2+1   rejected
┖╌○ c3  2+1   rejected

○ c4    2+1   root  ·  not walked
○ c5    2+1   not walked`.trimStart(),
    );
  });

  test("every root says why it is one, and every call what became of it", () => {
    const drift = {
      kind: "drift",
      followedCallId: callId("c1"),
      index: 14,
      expectedId: 8,
      actualId: null,
      expectedText: "ab\n",
      actualText: null,
    } as const;
    const text = draw([
      call("c1", null),
      call("c2", null, { rootReason: { kind: "rewrite" } }),
      call("c3", null, { rootReason: drift }),
      call("c4", null, { rootReason: { kind: "asked_again", rootCallId: callId("c1") } }),
      call("c5", null, { rootReason: { kind: "other_agent" }, agent: "sub", class: "title" }),
      call("c6", null, { status: "aborted", statusDetail: "client went away", generatedLength: 4 }),
      call("c7", null, { status: "failed", statusDetail: "engine: 500", carriedLength: 0 }),
      call("c8", null, { status: "unknown", carriedLength: 0, generatedLength: 0 }),
      call("c9", "c6", { untrainable: "log-prob 3 is not finite" }),
      call("d1", null, { untrainable: "the engine told no prompt ids", carriedLength: 0 }),
    ]);
    expect(text.split("\n").filter((line) => line !== "")).toEqual([
      "r  10 calls, 6 trees, 6 leaves, 1 aborted, 2 lost",
      "• c1  2+1   root",
      "• c2  2+1   root: rewrite",
      '• c3  2+1   root: drift from c1 at token 14: recorded 8 "ab\\n", sent the end',
      "• c4  2+1   root: asked again, as c1",
      "• c5  2+1   root: other agent  ·  agent sub  ·  title",
      "◌ c6  2+4   root  ·  aborted: client went away",
      "• c9  2+1   untrainable: log-prob 3 is not finite",
      "✗ c7  0+1   failed: engine: 500",
      "✗ c8  0+0   unknown",
      "• d1  0+1   untrainable: the engine told no prompt ids",
    ]);
  });

  test("a drift shows the letters around the place where the texts part, however long they are", () => {
    const rootReason = {
      kind: "drift",
      followedCallId: callId("c1"),
      index: 3,
      expectedId: 8,
      actualId: 9,
      expectedText: `${"a".repeat(50)}b`,
      actualText: `${"a".repeat(50)}${"c".repeat(50)}`,
    } as const;
    expect(draw([call("c1", null), call("c2", null, { rootReason })])).toContain(
      `recorded 8 "...${"a".repeat(19)}b", sent 9 "...${"a".repeat(6)}${"c".repeat(14)}..."`,
    );
  });

  test("a forest that is all roots raises an alarm", () => {
    const roots = [1, 2, 3].map((number) => call(`c${number}`, null));
    expect(draw(roots)).toContain("⚠ 3 calls, 3 roots: no prompt goes on from an earlier sequence");
    expect(draw(roots.slice(1))).not.toContain("⚠");
  });

  test("what the agent kept is solid though the rollout was refused", () => {
    const text = drawForest(
      {
        title: "r",
        calls: [call("c1", null), call("c2", "c1"), call("c3", "c1")],
        rows: [],
        accepted: new Set(["c1", "c3"]),
        refusal: { reason: "capture_incomplete", detail: "call c3 must train and is untrainable" },
      },
      UNICODE,
    );
    expect(text.slice(2, 5)).toEqual(["● c1    2+1   root", "┠╌○ c2  2+1   rejected", "● c3    2+1"]);
  });

  test("minted ids are shown as c1, c2 by admission, and in full when asked", () => {
    const calls = [call("call-0123456789", null), call("call-abcdef0123", "call-0123456789")];
    const rows = [row("g_s0", "call-0123456789", "call-abcdef0123")];
    const [, , , second] = drawForest({ title: "r", calls, rows, refusal: null, ids: true }, UNICODE);
    expect(second).toBe("● c2  2+1   c2 → c1 = g_s0  ·  call-abcdef0123");
  });
});

describe("size", () => {
  test("a walk of hundreds of calls is told by its ends", () => {
    const calls = Array.from({ length: 300 }, (_call, index) =>
      call(`c${index + 1}`, index === 0 ? null : `c${index}`),
    );
    const text = draw(calls, row("g_s0", ...calls.map(({ callId: id }) => id)));
    expect(text).toContain("c300 → c299 → c298 → c297 → c296 → … 294 more … → c1 = g_s0");
  });

  test.each<[string, (index: number) => string | null, number?]>([
    // More than a function takes arguments: nothing may be spread into a call.
    ["one chain", (index) => (index === 0 ? null : `c${index - 1}`), 130_000],
    ["one root with as many leaves", (index) => (index === 0 ? null : "c0")],
    ["as many roots", () => null],
    ["forks within forks", (index) => (index === 0 ? null : `c${index - (index % 2 === 0 ? 2 : 1)}`)],
    ["a chain whose later calls are the rejected ones", (index) => (index < 2 ? null : `c${index - 2}`)],
  ])("%s of many thousand calls takes a line a call, each bounded", (_title, parentOf, count = 30_000) => {
    const calls = Array.from({ length: count }, (_call, index) => call(`c${index}`, parentOf(index)));
    const started = performance.now();
    const lines = drawForest({ title: "r", calls, rows: [row("s0", "c0")], refusal: null }, UNICODE);
    const ms = performance.now() - started;
    expect(lines.filter((line) => / c\d+ /.test(line))).toHaveLength(count);
    expect(lines.reduce((width, line) => Math.max(width, line.length), 0)).toBeLessThan(100);
    expect(ms).toBeLessThan(15_000);
  });

  test("forks deeper than the lanes allow say that lanes are left out", () => {
    const depth = 40;
    const calls = [call("c0", null)];
    // Each call has a later sibling that goes on in its parent's lane, so each fork is one lane deeper.
    for (let index = 1; index < depth; index++) calls.push(call(`c${index}`, `c${index - 1}`));
    for (let index = 1; index < depth; index++) calls.push(call(`d${index}`, `c${index - 1}`));
    const text = draw(calls);
    expect(text).toContain("⋯ • c39");
    expect(Math.max(...text.split("\n").map((line) => line.length))).toBeLessThan(60);
  });
});

describe("style", () => {
  test("colour is for terminals, NO_COLOR takes it away and FORCE_COLOR brings it to a pipe", () => {
    const terminal = { isTTY: true, columns: 80 };
    expect(styleFor(terminal, {})).toEqual({ color: true, unicode: true, width: 80 });
    expect(styleFor(terminal, { NO_COLOR: "1" })).toEqual({ color: false, unicode: true, width: 80 });
    expect(styleFor(terminal, { NO_COLOR: "1", FORCE_COLOR: "1" }).color).toBe(false);
    expect(styleFor(terminal, { FORCE_COLOR: "0" }).color).toBe(false);
    expect(styleFor(terminal, { TERM: "dumb" })).toEqual({ color: false, unicode: false, width: null });
    expect(styleFor({}, {})).toEqual(PLAIN);
    expect(styleFor({}, { FORCE_COLOR: "1" })).toEqual({ color: true, unicode: true, width: null });
  });

  test("a pipe gets nothing beyond ASCII", () => {
    const lines = `${drawVector("seed-compaction-on", PLAIN)}${legendLine(PLAIN)}`;
    // oxlint-disable-next-line no-control-regex
    expect(lines).toMatch(/^[\u0000-\u007F]*$/);
    expect(lines).not.toContain("\u001B");
  });

  test("a line is cut to the terminal's width and colour does not count", () => {
    const colored = drawVector("seed-compaction-off", { color: true, unicode: true, width: 40 }).split("\n");
    expect(colored.join("")).toContain("\u001B[32m●");
    // oxlint-disable-next-line no-control-regex
    const widths = colored.map((line) => line.replaceAll(/\u001B\[\d+m/g, "").length);
    expect(Math.max(...widths)).toBe(40);
  });
});
