import { expect, test } from "vitest";
import { readTrace } from "../export/trace.ts";
import { exampleView, exampleSource } from "./worked-example.ts";
import { PageModel } from "./page-model.ts";
import { traceSource } from "./page-source.ts";
import { SampleTokenizer } from "./testing/sample-tokenizer.ts";
import { sampleTrace } from "./testing/sample-trace.ts";
import type { RolloutListView } from "./view.ts";

function sampleModel(): PageModel {
  return new PageModel(
    traceSource(readTrace(sampleTrace(new SampleTokenizer(), 1_000_000))),
    () => undefined,
  );
}

async function measured(model: PageModel): Promise<RolloutListView> {
  for (let turn = 0; turn < 200; turn++) {
    const list = await model.list();
    if (list.pending === 0) return list;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error("the list was not measured within a second");
}

test("the first list comes before anything is measured, and later ones have trees, leaves, rows and advantages", async () => {
  const model = sampleModel();
  const first = await model.list();
  expect(first.rollouts.map((line) => line.measured)).toEqual([null, null, null, null, null]);
  const list = await measured(model);
  const told = list.rollouts.map((line) => [
    line.rollout_id,
    line.measured?.trees,
    line.measured?.leaves,
    line.measured?.rows,
    line.measured?.advantage,
    line.measured?.refusal?.reason,
  ]);
  expect(told).toEqual([
    ["fix-dates-0", 4, 7, 3, 0.5, undefined],
    ["fix-dates-1", 1, 1, 1, -0.5, undefined],
    ["fix-dates-2", 1, 1, 0, null, "capture_incomplete"],
    ["port-parser-0", 3, 3, 3, 0, undefined],
    ["port-parser-1", 0, 0, 0, null, "failed_by_agent"],
  ]);
});

test("alarms name what a person should look at and how many calls it is about", async () => {
  const list = await measured(sampleModel());
  expect(list.rollouts.map((line) => line.measured?.alarms)).toEqual([
    [],
    [],
    [{ kind: "untrainable", calls: 1 }],
    [{ kind: "drift", calls: 2 }],
    [],
  ]);
});

test("a rollout asked for from a place in its count on tells only the calls after it", async () => {
  const model = sampleModel();
  const whole = await model.rollout("fix-dates-0", 0);
  expect(whole.calls.order).toHaveLength(11);
  const rest = await model.rollout("fix-dates-0", whole.until - 2);
  expect(rest.calls.call_id).toEqual(["fix-dates-0-11"]);
  expect(rest.calls.parent).toEqual([whole.calls.order[7]]);
  expect((await model.rollout("fix-dates-0", whole.until)).calls.order).toEqual([]);
});

test("rows come with the group's advantage, and their tokens one row at a time", async () => {
  const model = sampleModel();
  const kept = await model.kept("fix-dates-0", false);
  if (kept.kind !== "rows") throw new Error("rows are expected");
  expect(kept.rows.map(({ advantage }) => advantage)).toEqual([0.5, 0.5, 0.5]);
  expect(kept.trains_once.holds).toBe(true);
  const tokens = await model.rowTokens("fix-dates-0", 1);
  expect(tokens.ids).toHaveLength(kept.rows[1]!.tokens);
  expect(tokens.mask.reduce((sum, value) => sum + value, 0)).toBe(kept.rows[1]!.trained);
  await expect(model.rowTokens("fix-dates-0", 3)).rejects.toMatchObject({ code: "not_found" });
});

test("the worked example's facts come out of its vectors as the design states them", async () => {
  const { off, on } = await exampleView({ off: exampleSource("off"), on: exampleSource("on") });
  expect(off.facts).toEqual({
    outcome: "final",
    reward: 1,
    trees: 1,
    leaves: ["c4", "c7", "c9"],
    leaves_walked: ["c9"],
    rows: 1,
    row_tokens: [21],
    trained_tokens: 7,
    rejected: ["c4", "c7"],
    advantage: 0.5,
  });
  expect(on.facts).toEqual({
    outcome: "accepted",
    reward: 1,
    trees: 4,
    leaves: ["c2", "c4", "c5", "c7", "c8", "c9"],
    leaves_walked: ["c2", "c5", "c8", "c9"],
    rows: 4,
    row_tokens: [6, 6, 6, 3],
    trained_tokens: 7,
    rejected: ["c4", "c7"],
    advantage: 0.5,
  });
});
