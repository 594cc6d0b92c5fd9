// Every vector, and a few rules that no vector shows, against the naive implementation: it must be right before
// anything is compared with it.
import { readdirSync, readFileSync } from "node:fs";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { countFeatures } from "./features.ts";
import { randomTrace, seedOf } from "./random-trace.ts";
import { naiveRowsOfTrace } from "./rows-of-trace.ts";

interface Vector {
  readonly why: string;
  readonly trace: readonly Record<string, unknown>[];
  readonly expected: readonly Record<string, unknown>[];
}

const folder = new URL("../../vectors/", import.meta.url);

describe("the naive implementation", () => {
  for (const file of readdirSync(folder).sort()) {
    const vector = JSON.parse(readFileSync(new URL(file, folder), "utf8")) as Vector;
    it(`gives what ${file} expects: ${vector.why}`, () => {
      const { rows, failures } = naiveRowsOfTrace(vector.trace);
      const given = [...rows, ...failures];
      expect(given).toHaveLength(vector.expected.length);
      for (const [index, expected] of vector.expected.entries()) {
        expect(given[index]).toMatchObject(close(expected));
      }
    });
  }
});

/** Advantages are means: equal to the last few bits only. */
function close(expected: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { advantage } = expected;
  if (typeof advantage !== "number") return { ...expected };
  return { ...expected, advantage: expect.closeTo(advantage, 12) as unknown };
}

// Everything that the properties over random traces are about; each must occur often enough to be tested.
const FEATURES = [
  ..."twins|twins cut differently|prefix of a prefix|tie for the parent|the same prompt again|fork".split(
    "|",
  ),
  ..."in flight together|fits but was in flight|committed at the moment of admission|several roots".split(
    "|",
  ),
  ..."fits but for its media|a named parent outranks|a named parent does not fit|aborted".split("|"),
  ..."a named parent is unheard of|nothing generated|untrainable|status failed|status unknown".split("|"),
  ..."answered without tokens|side class|rows from accepted|rows from both|rows from final".split("|"),
  ..."rows from infer|a walk takes an accepted twin|aborted and trained|aborted as context".split("|"),
  ..."rejected as context|untrainable as context|side class as context|shared by several rows".split("|"),
  ..."a group of its own|several rows of one rollout|trees not walked|advantage unlike 0".split("|"),
  ..."advantage unknown|refused: no_calls|refused: no_outcome|refused: nothing_accepted".split("|"),
  ..."refused: unknown_reference|refused: duplicate_reference|refused: ambiguous_reference".split("|"),
  ..."refused: witness_disagreement|refused: ambiguous|refused: capture_incomplete".split("|"),
  ..."refused: no_trainable_tokens|refused: failed_by_agent".split("|"),
];

describe("random traces", () => {
  it("hold every feature and every refusal often enough that a property over them means something", () => {
    const traces = fc.sample(randomTrace, { numRuns: 2000, seed: seedOf("features of random traces") });
    const counts = countFeatures(traces);
    console.log([...counts].map(([feature, count]) => `${String(count).padStart(6)} ${feature}`).join("\n"));
    for (const feature of FEATURES) {
      expect(counts.get(feature) ?? 0, feature).toBeGreaterThanOrEqual(20);
    }
  });
});
