import fc from "fast-check";
import { expect, test } from "vitest";
import { layLanes, MOST_LANES } from "./lanes.ts";

function lanesOf(parents: readonly number[], kept: readonly number[] = []): ReturnType<typeof layLanes> {
  const keptLines = new Set(kept);
  return layLanes(Int32Array.from(parents), (line) => keptLines.has(line));
}

test("one chain stays in one lane", () => {
  const lanes = lanesOf([-1, 0, 1, 2]);
  expect([...lanes.lane]).toEqual([0, 0, 0, 0]);
  expect(lanes.width).toBe(1);
});

test("a rejected sibling leaves the trunk to the right, before the kept one and after it", () => {
  const before = lanesOf([-1, 0, 0, 2], [0, 2, 3]);
  expect([...before.lane]).toEqual([0, 1, 0, 0]);
  expect([...before.via]).toEqual([-1, 0, 0, 0]);
  const after = lanesOf([-1, 0, 0, 1], [0, 1, 3]);
  expect([...after.lane]).toEqual([0, 0, 1, 0]);
  expect([...after.stub]).toEqual([1, -1, -1, -1]);
});

test("each root of a forest stands one lane further right", () => {
  expect([...lanesOf([-1, 0, -1, 2, -1, 4]).lane]).toEqual([0, 0, 1, 1, 2, 2]);
});

test("a kept chain is one solid stem from its root to its leaf", () => {
  const lanes = lanesOf([-1, 0, 1, 1, 3], [0, 1, 3, 4]);
  expect(lanes.stemsIn(0, 5).filter(({ kept }) => kept)).toEqual([
    { lane: 0, from: 0, to: 1, kept: true },
    { lane: 0, from: 1, to: 3, kept: true },
    { lane: 0, from: 3, to: 4, kept: true },
  ]);
});

const forests = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 9 }), fc.nat(), fc.boolean()), { minLength: 1, maxLength: 600 })
  .map((lines) => ({
    parents: lines.map(([choice, seed], line) =>
      line === 0 || choice === 0 ? -1 : choice < 7 ? line - 1 : seed % line,
    ),
    kept: lines.flatMap(([, , isKept], line) => (isKept ? [line] : [])),
  }));

test("no two chains that are open at once share a lane, short of the bound", () => {
  fc.assert(
    fc.property(forests, ({ parents, kept }) => {
      const lanes = lanesOf(parents, kept);
      const stems = lanes.stemsIn(0, parents.length);
      for (const stem of stems) {
        for (let line = stem.from + 1; line < stem.to; line++) {
          if ((lanes.lane[line] as number) >= MOST_LANES - 1) continue;
          expect(lanes.lane[line]).not.toBe(stem.lane);
        }
      }
    }),
    { numRuns: 200 },
  );
});

test("a window shows exactly the stems that touch it, as looking through all of them does", () => {
  fc.assert(
    fc.property(forests, fc.nat(), fc.nat(), ({ parents, kept }, one, other) => {
      const lanes = lanesOf(parents, kept);
      const from = one % parents.length;
      const to = Math.min(parents.length, from + (other % 60));
      const all = lanes.stemsIn(0, parents.length).filter((stem) => stem.from <= to && stem.to >= from);
      const key = (stem: { lane: number; from: number; to: number }): string =>
        `${stem.from} ${stem.lane} ${stem.to}`;
      expect(lanes.stemsIn(from, to).map(key).toSorted()).toEqual(all.map(key).toSorted());
    }),
    { numRuns: 200 },
  );
});

test("a hundred thousand calls with tens of thousands of siblings are laid in time that grows with their number", () => {
  const parents = Int32Array.from({ length: 100_000 }, (_none, line) =>
    line === 0 ? -1 : line % 2 === 0 ? 0 : line - 1,
  );
  const lanes = layLanes(parents, () => false);
  expect(lanes.width).toBeLessThanOrEqual(MOST_LANES);
  expect(lanes.stemsIn(50_000, 50_040).length).toBeLessThan(200);
});
