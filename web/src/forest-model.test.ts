import { expect, test } from "vitest";
import { readTrace } from "../../src/export/trace.ts";
import { PageModel } from "../../src/page/page-model.ts";
import { traceSource } from "../../src/page/page-source.ts";
import { SampleTokenizer } from "../../src/page/testing/sample-tokenizer.ts";
import { sampleTrace } from "../../src/page/testing/sample-trace.ts";
import { growColumns } from "../../src/page/grow-columns.ts";
import { buildModel, decideFates, walkUp } from "./forest-model.ts";
import { showForest } from "./forest-view.ts";
import { groupLines } from "./list-lines.ts";

const model = new PageModel(
  traceSource(readTrace(sampleTrace(new SampleTokenizer(), 1_000_000))),
  () => undefined,
);

test("what became of each call follows from the rows that it stands in", async () => {
  const { calls } = await model.rollout("fix-dates-0", 0);
  const forest = buildModel(calls);
  const { fates } = decideFates(forest, await model.kept("fix-dates-0", false));
  expect(fates).toEqual([
    "unwalked",
    "kept",
    "kept",
    "rejected",
    "kept",
    "kept",
    "kept",
    "kept",
    "aborted",
    "rejected",
    "kept",
  ]);
  expect([forest.trees, forest.leaves]).toEqual([4, 7]);
  expect(walkUp(forest, 6)).toEqual([6, 4, 2, 1]);
});

test("columns grown call by call are the columns of the whole", async () => {
  const { calls, until } = await model.rollout("fix-dates-0", 0);
  for (let since = 1; since < until; since++) {
    const early = await model.rollout("fix-dates-0", 0);
    const known = { ...early.calls, ...firstCalls(early.calls, since) };
    const grown = growColumns(known, (await model.rollout("fix-dates-0", since)).calls);
    expect(buildModel(grown)).toEqual(buildModel({ ...calls, names: grown.names }));
  }
});

/** The columns as they were when the count stood at `until`; a call that was in flight then is told again later. */
function firstCalls<C extends { order: readonly number[] }>(calls: C, until: number): Partial<C> {
  const kept = calls.order.flatMap((order, index) => (order <= until ? [index] : []));
  return Object.fromEntries(
    Object.entries(calls).flatMap(([key, column]) =>
      Array.isArray(column) && key !== "names" && key !== "twins"
        ? [[key, kept.map((index) => column[index] as unknown)]]
        : [],
    ),
  ) as Partial<C>;
}

test("a filter leaves the calls that match, and a fold hides all that stands below", async () => {
  const { calls } = await model.rollout("fix-dates-0", 0);
  const forest = buildModel(calls);
  const kept = decideFates(forest, await model.kept("fix-dates-0", false));
  const shown = (filter: "all" | "rejected", find: string, folded: string[]): number[] => [
    ...showForest(forest, kept, { filter, find, folded: new Set(folded) }).calls,
  ];
  expect(shown("rejected", "", [])).toEqual([0, 3, 9]);
  expect(shown("all", "REVIEWER", [])).toEqual([5]);
  expect(shown("all", "resp-fix-dates-0-4", [])).toEqual([3]);
  expect(shown("all", "", ["fix-dates-0-2"])).toEqual([0, 1, 5, 7, 8, 9, 10]);
});

test("the list shows groups, newest first, with the mean reward of those that were not refused", async () => {
  for (let turn = 0; turn < 100 && (await model.list()).pending > 0; turn++)
    await new Promise((resolve) => setTimeout(resolve, 5));
  const { rollouts } = await model.list();
  const lines = groupLines(rollouts, "all", "");
  expect(lines.flatMap((line) => (line.kind === "group" ? [[line.id, line.mean]] : []))).toEqual([
    ["port-parser", 0.75],
    ["fix-dates", 0.5],
  ]);
  expect(
    groupLines(rollouts, "refused", "dates").map((line) =>
      line.kind === "group" ? line.id : line.rollout.rollout_id,
    ),
  ).toEqual(["fix-dates", "fix-dates-2"]);
});
