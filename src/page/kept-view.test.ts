import { expect, test } from "vitest";
import { readTrace } from "../export/trace.ts";
import type { Row } from "../rows/row.ts";
import { checkTrainsOnce, keptView } from "./kept-view.ts";
import { exampleSource } from "./worked-example.ts";
import { traceSource } from "./page-source.ts";

async function builtExample(state: "off" | "on") {
  const source = exampleSource(state);
  const rollout = (await source.rollouts())[0]!;
  const calls = await source.calls(rollout);
  const built = source.build(rollout, calls);
  if (built.kind !== "rows") throw new Error("the worked example gives rows");
  return { calls, rows: built.rows, built };
}

test("the worked example's seven kept tokens are found to train once, in one row and in four", async () => {
  for (const [state, rows] of [
    ["off", 1],
    ["on", 4],
  ] as const) {
    const example = await builtExample(state);
    expect(checkTrainsOnce(example.rows, example.calls)).toEqual({
      holds: true,
      tokens: 7,
      calls: 7,
      rows,
      faults: [],
    });
  }
});

test("a row that stands twice breaks the check for each of its tokens' calls", async () => {
  const { rows, calls } = await builtExample("on");
  const check = checkTrainsOnce([...rows, rows[0] as Row], calls);
  expect(check.holds).toBe(false);
  expect(check.faults).toEqual(["token 0 of call c1 trains 2 times", "token 0 of call c2 trains 2 times"]);
});

test("a token marked outside what a call generated, a token unlike its call's, and one left out are each told", async () => {
  const { rows, calls } = await builtExample("off");
  const row = rows[0] as Row;
  const marked = Uint8Array.from(row.lossMask, (value, at) => (at === 0 ? 1 : value));
  expect(checkTrainsOnce([{ ...row, lossMask: marked }], calls).faults).toEqual([
    "group_g0_s0 marks 1 tokens that no call generated",
  ]);
  const changed = Uint32Array.from(row.tokenIds, (id, at) => (at === 2 ? 7 : id));
  expect(checkTrainsOnce([{ ...row, tokenIds: changed }], calls).faults).toEqual([
    "group_g0_s0 position 2 is not token 0 of call c1",
  ]);
});

test("a token of a kept call that is masked out in its only row trains no times", async () => {
  const trace = readTrace([
    {
      type: "call",
      rollout_id: "r",
      call_id: "a",
      prompt_token_ids: [1],
      generated_token_ids: [5, 6],
      generated_logprobs: [-1, -1],
    },
    { type: "outcome", rollout_id: "r", reward: 1, final: "a" },
  ]);
  const source = traceSource(trace);
  const rollout = (await source.rollouts())[0]!;
  const calls = await source.calls(rollout);
  const built = source.build(rollout, calls);
  const row = (built.kind === "rows" ? built.rows[0] : undefined) as Row;
  const check = checkTrainsOnce([{ ...row, lossMask: Uint8Array.of(0, 0, 1) }], calls);
  expect(check.faults).toEqual(["token 0 of call a trains 0 times"]);
});

test("rows are told as spans by the calls' places in the count", async () => {
  const { built, calls } = await builtExample("on");
  const kept = keptView(built, calls);
  if (kept.kind !== "rows") throw new Error("rows are expected");
  expect(
    kept.rows.map((row) => [row.row_id, row.tokens, row.trained, row.spans.map(({ order }) => order)]),
  ).toEqual([
    ["group_g0_s0", 6, 2, [1, 3]],
    ["group_g0_s1", 6, 2, [5, 9]],
    ["group_g0_s2", 6, 2, [11, 15]],
    ["group_g0_s3", 3, 1, [17]],
  ]);
});
