import { expect, test } from "vitest";
import { advantageText, drawRows, type TabledRow } from "./draw-rows.ts";
import { PLAIN } from "./paint.ts";

const row = (rowId: string, tokenIds: number[], lossMask: number[], advantage: number | null): TabledRow => ({
  rowId,
  tokenIds,
  lossMask,
  advantage,
});

test("a row's trained tokens stand in brackets, its columns under their names", () => {
  expect(
    drawRows([row("group_g0_s0", [10, 11, 1001], [0, 0, 1], 0.5), row("group_g1_s0", [7], [0], -0.5)], PLAIN),
  ).toEqual([
    "row          tokens  trained  advantage  token ids, the trained ones in brackets",
    "group_g0_s0       3        1       +0.5  10 11 [1001]",
    "group_g1_s0       1        0       -0.5  7",
  ]);
});

test("a long row is a strip of signs, each for the same number of tokens", () => {
  const mask = Array.from({ length: 480 }, (_token, index) => (index >= 240 && index < 475 ? 1 : 0));
  const [, line] = drawRows([row("g_s0", mask, mask, null)], PLAIN);
  expect(line).toBe(`g_s0     480      235   none yet  ${".".repeat(24)}${"#".repeat(24)}  10 tokens a sign`);
});

test("an advantage has its sign, four digits, and no value before its group is complete", () => {
  expect([0.5, -0.5, 0, 1 / 3, null].map(advantageText)).toEqual([
    "+0.5",
    "-0.5",
    "0",
    "+0.3333",
    "none yet",
  ]);
});
