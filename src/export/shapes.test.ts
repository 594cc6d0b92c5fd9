// Shapes: golden files a shape (a row of four tokens, the worked example, every vector), the pinned Tinker datums, what
// each shape refuses, and the way back from every shape to the row for random rows.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CoppiceError } from "../errors.ts";
import type { Row, RolloutRows } from "../rows/row.ts";
import { paddingRow } from "./padding.ts";
import { shapeLine } from "./shape-lines.ts";
import { SHAPE_NAMES, SHAPES, shapeNamed } from "./shapes.ts";
import type { NumberArray, Shape, ShapedRecord } from "./shapes/shape.ts";
import {
  fourTokens,
  randomRollout,
  readLines,
  rowsOf,
  vectors,
  workedRollouts,
} from "./testing/sample-rows.ts";

/** One line a record; a rollout that the shape refuses is one line that says why. */
function linesOf(shape: Shape, rollouts: readonly RolloutRows[]): string[] {
  return rollouts.flatMap((rollout) => {
    if (rollout.kind === "failure") return [];
    try {
      return shape.records(rollout.rows).map((record) => shapeLine(shape.columns, record));
    } catch (error) {
      if (!(error instanceof CoppiceError)) throw error;
      return [JSON.stringify({ refused: error.message })];
    }
  });
}

function goldenLines(shape: Shape): string[] {
  const one: RolloutRows = { kind: "rows", rows: [fourTokens()], reward: 1 };
  return [
    "# four tokens",
    ...linesOf(shape, [one]),
    "# worked example",
    ...linesOf(shape, workedRollouts()),
    ...vectors().flatMap(({ name, rollouts }) => [`# ${name}`, ...linesOf(shape, rollouts)]),
  ];
}

describe("golden files", () => {
  for (const shape of SHAPES) {
    test(`shape ${shape.name} of four tokens, the worked example and every vector is as recorded`, () => {
      const file = new URL(`fixtures/${shape.name}.golden`, import.meta.url);
      const made = `${goldenLines(shape).join("\n")}\n`;
      if (process.env["COPPICE_RECORD_GOLDEN"] === "1" && !existsSync(file)) writeFileSync(file, made);
      expect(made).toBe(readFileSync(file, "utf8"));
    });
  }
});

describe("the worked example", () => {
  test("makes the five rows that eight trainers were checked with", () => {
    const fields = ["token_ids", "loss_mask", "logprobs", "prompt_length", "reward", "advantage"] as const;
    const made = linesOf(shapeNamed("rows"), workedRollouts()).map((line) => JSON.parse(line) as object);
    const known = readLines("interop/fixtures/rows.jsonl") as Record<string, unknown>[];
    expect(made).toMatchObject(
      known.map((row) => Object.fromEntries(fields.map((field) => [field, row[field]]))),
    );
  });

  test("gives Tinker the datums that its own cookbook builds of the same calls", () => {
    const made = linesOf(shapeNamed("tinker"), workedRollouts()).map((line) => JSON.parse(line) as unknown);
    const file = new URL("../../interop/fixtures/datums.json", import.meta.url);
    const known = JSON.parse(readFileSync(file, "utf8"), floats) as unknown[];
    expect(JSON.parse(JSON.stringify(made), floats)).toStrictEqual(known);
  });
});

/** Both files hold float32: ours as the shortest decimal, the other widened to a double. */
function floats(_key: string, value: unknown): unknown {
  return typeof value === "number" ? Math.fround(value) + 0 : value;
}

/** The row's arrays again, from nothing but the record: written without the shapes' own code. */
const back: Readonly<
  Record<string, (record: ShapedRecord) => { ids: number[]; mask: number[]; logprobs: number[] }>
> = {
  rows: (record) => whole(record, "token_ids", "loss_mask", "logprobs"),
  trl: (record) => whole(record, "input_ids", "completion_mask", "old_log_probs"),
  "nemo-rl": (record) => whole(record, "input_ids", "token_mask", "generation_logprobs"),
  "prime-rl": (record) => whole(record, "token_ids", "mask", "logprobs"),
  art: (record) => whole(record, "token_ids", "assistant_mask", "logprobs"),
  verl: (record) =>
    afterPrompt(
      record["prompt_ids"],
      record["response_ids"],
      record["response_mask"],
      record["response_logprobs"],
    ),
  skyrl: (record) =>
    afterPrompt(
      record["prompt_token_ids"],
      record["response_ids"],
      record["loss_masks"],
      record["rollout_logprobs"],
    ),
  slime: (record) => {
    const tokens = record["tokens"] as NumberArray;
    const prompt = tokens.subarray(0, tokens.length - (record["response_length"] as number));
    return afterPrompt(
      prompt,
      tokens.subarray(prompt.length),
      record["loss_mask"],
      record["rollout_log_probs"],
    );
  },
  tinker: (record) => {
    const { chunks } = record["model_input"] as unknown as { chunks: { tokens: NumberArray }[] };
    const inputs = record["loss_fn_inputs"] as unknown as Record<
      string,
      { data: NumberArray; shape: NumberArray }
    >;
    const data = (name: string): number[] => [...(inputs[name]?.data ?? [])];
    const before = [...(chunks[0]?.tokens ?? [])];
    expect(before.slice(1)).toEqual(data("target_tokens").slice(0, -1));
    expect(Object.values(inputs).map(({ shape }) => shape[0])).toEqual([
      before.length,
      before.length,
      before.length,
    ]);
    return {
      ids: [before[0] as number, ...data("target_tokens")],
      mask: [0, ...data("advantages").map((value) => (value === 0 ? 0 : 1))],
      logprobs: [0, ...data("logprobs")],
    };
  },
};

function whole(
  record: ShapedRecord,
  ids: string,
  mask: string,
  logprobs: string,
): ReturnType<(typeof back)[string]> {
  const list = (name: string): number[] => [...(record[name] as NumberArray)];
  return {
    ids: list(ids),
    mask: list(mask),
    logprobs: list(logprobs).map((value) => (Number.isNaN(value) ? 0 : value)),
  };
}

function afterPrompt(...parts: readonly unknown[]): ReturnType<(typeof back)[string]> {
  const [prompt, response, mask, logprobs] = parts.map((part) => [...(part as NumberArray)]) as [
    number[],
    number[],
    number[],
    number[],
  ];
  const zeros = prompt.map(() => 0);
  return { ids: [...prompt, ...response], mask: [...zeros, ...mask], logprobs: [...zeros, ...logprobs] };
}

describe("any row", () => {
  for (const shape of SHAPES) {
    test(`comes back from shape ${shape.name} with each value at its own token, no row lost`, () => {
      fc.assert(
        fc.property(
          randomRollout.filter((rows) => rows.every(({ advantage }) => Math.fround(advantage ?? 0) !== 0)),
          (rows) => {
            const records = shape.records(rows);
            expect(records).toHaveLength(rows.length);
            for (const [index, row] of rows.entries()) {
              const record = records[index] as ShapedRecord;
              expect(Object.keys(record).sort()).toEqual(shape.columns.map(({ name }) => name).sort());
              expect(back[shape.name]?.(record)).toEqual({
                ids: [...row.tokenIds],
                mask: [...row.lossMask],
                logprobs: [...row.logprobs],
              });
            }
          },
        ),
        { numRuns: 200 },
      );
    });
  }

  test("of a rollout gives SkyRL its reward once, on the last token of the last row", () => {
    fc.assert(
      fc.property(randomRollout, (rows) => {
        const records = shapeNamed("skyrl").records(rows);
        const rewards = records.flatMap((record) => [...(record["rewards"] as Float32Array)]);
        const last = rewards.pop();
        expect(last).toBe(Math.fround(rows[0]?.reward ?? 0));
        expect(rewards.every((reward) => reward === 0)).toBe(true);
        expect(records.map((record) => record["is_last_step"])).toEqual(
          rows.map((_, index) => index === rows.length - 1),
        );
      }),
    );
  });
});

describe("a row that a trainer could not use is refused by name", () => {
  const cases: readonly (readonly [string, Partial<Row>, string])[] = [
    ["tinker", { tokenIds: Uint32Array.of(10, 2 ** 31, 20, 1002) }, "token id 2147483648 at position 1"],
    ["trl", { advantage: null }, "advantage is null"],
    ["trl", { weightVersions: [{ version: "step-3", start: 1, end: 4 }] }, 'weight versions are ["step-3"]'],
    ["skyrl", { reward: null }, "reward is null"],
    ["verl", { promptLength: 4 }, "prompt_length is 4 of 4 tokens"],
    ["slime", { promptLength: 0 }, "prompt_length is 0 of 4 tokens"],
    [
      "prime-rl",
      { temperature: null, spans: fourTokens().spans.map((span) => ({ ...span, temperature: null })) },
      "the temperature at position 0 is unknown",
    ],
  ];
  for (const [name, change, message] of cases) {
    test(`shape ${name}: ${message}`, () => {
      expect(() => shapeNamed(name).records([fourTokens(change)])).toThrow(message);
      expect(() => shapeNamed(name).records([fourTokens(change)])).toThrow("row g0_g0_s0");
    });
  }

  test("an unknown shape is refused with the list of those there are", () => {
    expect(() => shapeNamed("verls")).toThrow(SHAPE_NAMES.join(", "));
  });
});

test("a token id above 2^31 survives in shapes of 64-bit integers and in ours", () => {
  const row = fourTokens({ tokenIds: Uint32Array.of(10, 2 ** 32 - 1, 20, 1002) });
  for (const name of ["rows", "trl", "verl", "slime"]) {
    expect(linesOf(shapeNamed(name), [{ kind: "rows", rows: [row], reward: 1 }])[0]).toContain("4294967295");
  }
});

test("a call without carried tokens has its temperature at the position that predicts its first token", () => {
  const [first, second] = fourTokens().spans;
  if (first === undefined || second === undefined) throw new Error("the row has two calls");
  const spans = [
    { ...first, generated: 2, temperature: 0.5 },
    { ...second, start: 3, carried: 0, temperature: 1.5 },
  ];
  const [record] = shapeNamed("prime-rl").records([fourTokens({ spans, temperature: null })]);
  expect(record?.["temperatures"]).toEqual(Float64Array.of(0.5, 0.5, 1.5, 1.5));
});

test("a padding row is taken by every shape and trains nothing", () => {
  for (const shape of SHAPES) {
    const [record] = shape.records([paddingRow(3, 9)]);
    expect(back[shape.name]?.(record as ShapedRecord).mask, shape.name).toEqual([0, 0]);
    expect(back[shape.name]?.(record as ShapedRecord).ids, shape.name).toEqual([9, 9]);
  }
});

test("rows of the worked group share one set of trained tokens in all shapes", () => {
  const trained = rowsOf(workedRollouts()).flatMap(({ tokenIds, lossMask }) =>
    [...tokenIds].filter((_, index) => lossMask[index] === 1),
  );
  expect(trained).toEqual([1001, 1002, 1003, 1005, 1006, 1008, 1009, 2001]);
});
