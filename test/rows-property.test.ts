// The product against the naive implementation, and what must hold of its rows whatever the trace: 2,000 random traces
// a property. Each run prints its seed; COPPICE_SEED repeats it. Traces that once failed stand below by name.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rowsOfTrace } from "../src/export/trace.ts";
import { call } from "../src/lineage/testing/records.ts";
import { swapIndependentCommits } from "./naive/independent-commits.ts";
import { anyPromptTrace, randomTrace, seedOf, timedTrace, type TraceLine } from "./naive/random-trace.ts";
import { naiveRowsOfTrace } from "./naive/rows-of-trace.ts";

type Line = Readonly<Record<string, unknown>>;
type Check = (lines: readonly TraceLine[]) => void;

function hold(name: string, check: Check, traces: fc.Arbitrary<readonly TraceLine[]> = randomTrace): void {
  fc.assert(fc.property(traces, check), { seed: seedOf(name), numRuns: 2000 });
}

const ROW_FIELDS: readonly string[] =
  "type,row_id,rollout_id,group_id,generation_index,segment_index,segment_count,reward,prompt_length,row_trainable_tokens,rollout_trainable_tokens,call_ids,token_ids,loss_mask,trees_not_walked".split(
    ",",
  );

/** What both implementations give, with log-probs as float32 and the advantage apart. */
function comparable(row: Line): Line {
  const fields = Object.fromEntries(ROW_FIELDS.map((field) => [field, row[field]]));
  return { ...fields, logprobs: (row["logprobs"] as readonly number[]).map(Math.fround) };
}

function split(given: readonly Line[]): {
  readonly rows: readonly Line[];
  readonly failures: readonly Line[];
} {
  const rows = given.filter((line) => line["type"] === "row");
  const failures = given.slice(rows.length);
  // In the output rows come first.
  expect(failures.every((line) => line["type"] === "failure")).toBe(true);
  return { rows, failures };
}

function agree(lines: readonly Line[]): void {
  const naive = naiveRowsOfTrace(lines);
  const { rows, failures } = split(rowsOfTrace(lines));
  expect(failures.map(({ type, rollout_id, reason }) => ({ type, rollout_id, reason }))).toEqual(
    naive.failures,
  );
  expect(rows.map(comparable)).toEqual(naive.rows.map((row) => comparable({ ...row })));
  for (const [index, { advantage }] of naive.rows.entries()) {
    const given = rows[index]?.["advantage"];
    if (advantage === null) expect(given).toBe(null);
    else expect(Math.abs((given as number) - advantage)).toBeLessThan(1e-12);
  }
}

/** The bits of a call's generated tokens in the mask of a row that it stands in. */
function maskOf(row: Line, callLine: Line): readonly number[] {
  const start = (callLine["prompt_token_ids"] as readonly number[]).length;
  const length = (callLine["generated_token_ids"] as readonly number[]).length;
  return (row["loss_mask"] as readonly number[]).slice(start, start + length);
}

/** How often each call's generated tokens train, by call id; every token of a call trains, or none does. */
function trainings(lines: readonly Line[], rows: readonly Line[]): ReadonlyMap<string, number> {
  const calls = new Map(lines.map((line) => [line["call_id"] as string, line]));
  const counts = new Map<string, number>();
  for (const row of rows) {
    let trained = 0;
    for (const callId of row["call_ids"] as readonly string[]) {
      const mask = maskOf(row, calls.get(callId) as Line);
      expect(new Set(mask).size).toBeLessThanOrEqual(1);
      if (mask[0] !== 1) continue;
      trained += mask.length;
      counts.set(callId, (counts.get(callId) ?? 0) + 1);
    }
    // No other token trains than what these calls generated.
    expect((row["loss_mask"] as readonly number[]).filter((bit) => bit === 1)).toHaveLength(trained);
  }
  return counts;
}

function trainsOnce(lines: readonly Line[]): void {
  const { rows, failures } = split(rowsOfTrace(lines));
  const counts = trainings(lines, rows);
  for (const outcome of lines.filter((line) => Array.isArray(line["accepted"]))) {
    const rolloutId = outcome["rollout_id"];
    if (failures.some((failure) => failure["rollout_id"] === rolloutId)) continue;
    const accepted = outcome["accepted"] as readonly unknown[];
    for (const line of lines.filter((own) => own["type"] === "call" && own["rollout_id"] === rolloutId)) {
      const kept = accepted.includes(line["call_id"]) || accepted.includes(line["response_id"]);
      const generated = (line["generated_token_ids"] ?? []) as readonly number[];
      expect(counts.get(line["call_id"] as string) ?? 0).toBe(kept && generated.length > 0 ? 1 : 0);
    }
  }
}

/** What must not depend on the order of commits that nobody could tell apart. */
function totals(lines: readonly Line[]): unknown {
  const { rows, failures } = split(rowsOfTrace(lines));
  const told = rows.map((row) => [
    row["rollout_id"],
    row["rollout_trainable_tokens"],
    row["trees_not_walked"],
  ]);
  return {
    trained: [...trainings(lines, rows)].sort(([one], [other]) => (one < other ? -1 : 1)),
    totals: [...new Set(told.map((fields) => JSON.stringify(fields)))].sort(),
    reasons: failures.map((failure) => [failure["rollout_id"], failure["reason"]]),
  };
}

describe("rows of random traces", () => {
  it("are the rows and refusals that the naive implementation gives", () => {
    hold("agreement with the naive implementation", agree);
  }, 120_000);

  it("train each accepted call in exactly one row and each rejected one in none", () => {
    hold("accepted calls train once", trainsOnce);
  });

  it("come of any prompt at all: nothing recorded before makes a later call fail", () => {
    hold("any prompt is legal", agree, anyPromptTrace);
  });

  it("train the same calls whichever of two independent commits comes first", () => {
    let pairs = 0;
    const swapAll: Check = (lines) => {
      for (const swapped of swapIndependentCommits(lines)) {
        pairs += 1;
        expect(totals(swapped)).toEqual(totals(lines));
      }
    };
    hold("order of independent commits", swapAll, timedTrace);
    console.log(`order of independent commits: ${String(pairs)} pairs swapped`);
    expect(pairs).toBeGreaterThan(100);
  });
});

const r0 = { type: "outcome", rollout_id: "r0", group_id: "group", generation_index: 0, reward: 1 };

describe("traces that the two implementations once disagreed on", () => {
  const pinned: Readonly<Record<string, readonly Line[]>> = {
    "a parent named by its call id is found although a later call's response id is the same": [
      { ...call("c0", [7], [1]) },
      { ...call("c1", [7, 1], [1]) },
      { ...call("c2", [7, 1, 1], [1], { response_id: "c0" }) },
      { ...call("c3", [7, 1, 1], [1], { parent_call_id: "c0" }) },
      { ...r0, accepted: ["c3"] },
    ],
    "a title call that the inferred leaf goes on from is context and never trains": [
      { ...call("c0", [7], [3, 1], { class: "title" }) },
      { ...call("c1", [7, 3, 1, 3], [1]) },
      { ...r0, infer: true },
    ],
    "a title call that the inferred leaf goes on from may be untrainable": [
      { ...call("c0", [7], [3], { class: "title", untrainable: "counts differ" }) },
      { ...call("c1", [7, 3, 2], [1]) },
      { ...r0, infer: true },
    ],
    "an auxiliary call is nobody's sibling, so inferring does not drop a leaf for it": [
      { ...call("c0", [7], [3]) },
      { ...call("c1", [7, 3], [1]) },
      { ...call("c2", [7, 3], [1], { class: "auxiliary" }) },
      { ...call("c3", [7, 3, 1], [2]) },
      { ...r0, infer: true },
    ],
  };
  for (const [title, lines] of Object.entries(pinned)) {
    it(title, () => {
      agree(lines);
    });
  }
});
