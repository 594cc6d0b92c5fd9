// Whole exports: files that are complete or absent, what is left out and where it is listed, one sampling convention,
// padding after the rows are final, and the metadata.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { rolloutId } from "../lineage/call.ts";
import type { Row, RolloutRows } from "../rows/row.ts";
import {
  checkExportOptions,
  exportRows,
  leftOutPath,
  streamRows,
  type ExportOptions,
} from "./export-rows.ts";
import { bytesOf, readArrow, readParquetBytes } from "./testing/read-back.ts";
import { fourTokens, workedRollouts } from "./testing/sample-rows.ts";

const folder = mkdtempSync(join(tmpdir(), "coppice-export-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
function newPath(): string {
  files += 1;
  return join(folder, `rows-${files}`);
}

function rollout(index: number, ...changes: Partial<Row>[]): RolloutRows {
  const name = rolloutId(`r${index}`);
  const rows = changes.map((change, segmentIndex) =>
    fourTokens({
      rowId: `g0_g${index}_s${segmentIndex}`,
      rolloutId: name,
      generationIndex: index,
      segmentIndex,
      segmentCount: changes.length,
      ...change,
    }),
  );
  return { kind: "rows", rows, reward: 1 };
}

const failure: RolloutRows = {
  kind: "failure",
  failure: {
    rolloutId: rolloutId("r9"),
    groupId: "g0",
    generationIndex: 9,
    reason: "no_outcome",
    detail: "none",
  },
};

function lines(path: string): Record<string, unknown>[] {
  return readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("a file", () => {
  for (const format of ["jsonl", "arrow", "parquet"] as const) {
    test(`of format ${format} has all rows; refused rollouts stand beside it`, async () => {
      const path = newPath();
      const summary = await exportRows([...workedRollouts(), failure], path, { format });
      expect(summary).toMatchObject({
        rows: 5,
        tokens: 24,
        trainableTokens: 8,
        failures: 1,
        leftOut: 0,
        paddingRows: 0,
      });
      const bytes = readFileSync(path);
      expect(summary.bytes).toBe(bytes.byteLength);
      const records = format === "jsonl" ? lines(path) : read(format, bytes).records;
      expect(records).toHaveLength(5);
      expect(lines(leftOutPath(path))).toMatchObject([
        { type: "failure", rollout_id: "r9", reason: "no_outcome" },
      ]);
    });

    test(`of format ${format} that cannot be finished is absent, and the one that was there stays`, async () => {
      const path = newPath();
      writeFileSync(path, "the earlier one");
      const rollouts = [rollout(0, {}), rollout(1, { advantage: null })];
      await expect(exportRows(rollouts, path, { format, shape: "trl" })).rejects.toThrow("advantage is null");
      expect(readFileSync(path, "utf8")).toBe("the earlier one");
      expect(existsSync(`${path}.partial`)).toBe(false);
      expect(existsSync(leftOutPath(path))).toBe(false);
    });
  }

  test("whose source breaks in the middle is absent", async () => {
    async function* broken(): AsyncGenerator<RolloutRows> {
      yield rollout(0, {});
      await Promise.resolve();
      throw new Error("the ledger went away");
    }
    for (const format of ["jsonl", "arrow", "parquet"] as const) {
      const path = newPath();
      await expect(exportRows(broken(), path, { format })).rejects.toThrow("the ledger went away");
      expect(existsSync(path)).toBe(false);
      expect(existsSync(`${path}.partial`)).toBe(false);
    }
  });

  test("in a folder that is not there is refused in one line", async () => {
    const path = join(folder, "nowhere", "rows.parquet");
    await expect(exportRows([rollout(0, {})], path, { format: "parquet" })).rejects.toThrow(
      /^can't write .*nowhere/,
    );
  });
});

test("a stream that would be refused half-way is refused before its first byte", async () => {
  const rollouts = [rollout(0, {}), rollout(1, { advantage: null })];
  for (const format of ["jsonl", "arrow", "parquet"] as const) {
    await expect(streamRows(rollouts, { format, shape: "trl" })).rejects.toThrow("advantage is null");
  }
});

function read(format: "arrow" | "parquet", bytes: Uint8Array): ReturnType<typeof readArrow> {
  return format === "arrow" ? readArrow(bytes) : readParquetBytes(bytes);
}

describe("metadata", () => {
  test("says schema version, shape, alignment, convention and how advantages were made", async () => {
    const path = newPath();
    await exportRows(workedRollouts(), path, {
      format: "parquet",
      shape: "tinker",
      advantage: "mean_std",
      weights: "rollout",
    });
    const { metadata } = readParquetBytes(readFileSync(path));
    expect(Object.fromEntries(metadata)).toMatchObject({
      "coppice.schema_version": "1",
      "coppice.version": expect.stringMatching(/^\d+\.\d+\.\d+/) as string,
      "coppice.shape": "tinker",
      "coppice.alignment": "predicting_position",
      "coppice.advantage": "mean_std",
      "coppice.weights": "rollout",
      "coppice.temperature": "1.0",
      "coppice.logprobs_mode": "raw",
      "coppice.mixing_forced": "false",
    });
  });

  test("of a stream holds the refused rollouts, since there is no file beside it", async () => {
    const stream = await streamRows([...workedRollouts(), failure], { format: "arrow" });
    const { metadata, records } = readArrow(await bytesOf(stream));
    expect(records).toHaveLength(5);
    expect(JSON.parse(metadata.get("coppice.failures") ?? "")).toMatchObject([{ rollout_id: "r9" }]);
  });
});

describe("one sampling convention", () => {
  const cold = { spans: fourTokens().spans.map((span) => ({ ...span, temperature: 0.1 })), temperature: 0.1 };
  const unknown = {
    spans: fourTokens().spans.map((span) => ({ ...span, temperature: null })),
    temperature: null,
  };
  const cases: readonly (readonly [string, Partial<Row>, string])[] = [
    ["another temperature", cold, "row g0_g0_s0 has temperature 0.7, row g0_g1_s0 has 0.1"],
    [
      "an unknown temperature beside a known one",
      unknown,
      "row g0_g0_s0 has temperature 0.7, row g0_g1_s0 has unknown",
    ],
    [
      "another log-prob mode",
      { logprobsMode: "processed" },
      'has logprobs_mode "raw", row g0_g1_s0 has "processed"',
    ],
    ["an unknown log-prob mode", { logprobsMode: null }, 'has logprobs_mode "raw", row g0_g1_s0 has unknown'],
  ];
  for (const [what, change, message] of cases) {
    test(`${what} is refused, and written when forced`, async () => {
      const path = newPath();
      const rollouts = [rollout(0, {}), rollout(1, change)];
      await expect(exportRows(rollouts, path, { format: "arrow" })).rejects.toThrow(message);
      await exportRows(rollouts, path, { format: "arrow", forceMixed: true });
      const { metadata, records } = readArrow(readFileSync(path));
      expect(records).toHaveLength(2);
      expect(metadata.get("coppice.mixing_forced")).toBe("true");
      expect(metadata.get("coppice.temperature")).toBe("null");
    });
  }

  test("a row whose trained calls differ is mixed by itself", async () => {
    const spans = fourTokens().spans.map((span, index) => ({ ...span, temperature: index }));
    const mixed = [rollout(0, { spans, temperature: null })];
    await expect(exportRows(mixed, newPath(), { format: "jsonl" })).rejects.toThrow(
      "calls of temperature 0 and 1",
    );
  });

  test("context at another temperature does not count: its log-probs are not in the row", async () => {
    const spans = fourTokens().spans.map((span, index) =>
      index === 0 ? { ...span, trained: false, temperature: 0 } : span,
    );
    const rollouts = [rollout(0, {}), rollout(1, { spans, temperature: null })];
    expect(await exportRows(rollouts, newPath(), { format: "jsonl" })).toMatchObject({ rows: 2 });
  });

  test("rows that all say nothing are one convention", async () => {
    const rollouts = [rollout(0, unknown), rollout(1, unknown)];
    expect(await exportRows(rollouts, newPath(), { format: "jsonl" })).toMatchObject({ rows: 2 });
  });
});

describe("staleness", () => {
  const versions = (version: string): Partial<Row> => ({ weightVersions: [{ version, start: 1, end: 4 }] });

  test("leaves out rows by their oldest trained token, and lists each", async () => {
    const path = newPath();
    const mixed = {
      weightVersions: [
        { version: "3", start: 1, end: 2 },
        { version: "9", start: 3, end: 4 },
      ],
    };
    const rollouts = [rollout(0, versions("8"), mixed), rollout(1, versions("7"))];
    const options: ExportOptions = {
      format: "jsonl",
      shape: "skyrl",
      staleness: { maxStaleness: 2, currentVersion: 9 },
    };
    expect(await exportRows(rollouts, path, options)).toMatchObject({ rows: 2, leftOut: 1 });
    // The reward moves to the last row that is left.
    expect(lines(path)).toMatchObject([{ is_last_step: true, rewards: [0, 0, 1] }, { is_last_step: true }]);
    expect(lines(leftOutPath(path))).toMatchObject([
      {
        type: "left_out",
        row_id: "g0_g0_s1",
        reason: "stale",
        detail: "6 weight versions behind, 2 allowed",
      },
    ]);
  });

  test("is refused where a weight version is no integer", async () => {
    const options: ExportOptions = { format: "jsonl", staleness: { maxStaleness: 2, currentVersion: 9 } };
    await expect(exportRows([rollout(0, versions("unknown"))], newPath(), options)).rejects.toThrow(
      'weight versions are ["unknown"]',
    );
  });
});

describe("padding", () => {
  test("fills up to the multiple after the rows, and changes none of them", async () => {
    const [plain, padded] = [newPath(), newPath()];
    await exportRows(workedRollouts(), plain, { format: "jsonl", shape: "verl" });
    const summary = await exportRows(workedRollouts(), padded, {
      format: "jsonl",
      shape: "verl",
      padToMultiple: 4,
      padTokenId: 2,
    });
    expect(summary).toMatchObject({ rows: 5, paddingRows: 3 });
    const records = lines(padded);
    expect(records).toHaveLength(8);
    expect(records.slice(0, 5)).toEqual(lines(plain));
    for (const record of records.slice(5)) {
      expect(record).toMatchObject({ prompt_ids: [2], response_ids: [2], response_mask: [0], advantage: 0 });
    }
    expect(new Set(records.map((record) => record["key"])).size).toBe(8);
  });

  test("of no rows at all is none, and of a full multiple too", async () => {
    expect(await exportRows([failure], newPath(), { format: "jsonl", padToMultiple: 4 })).toMatchObject({
      paddingRows: 0,
    });
    expect(
      await exportRows(workedRollouts(), newPath(), { format: "jsonl", padToMultiple: 5 }),
    ).toMatchObject({
      paddingRows: 0,
    });
  });
});

test("options that cannot be meant are refused by name", () => {
  expect(() => checkExportOptions({ format: "arrow", padToMultiple: 0 })).toThrow("pad_to_multiple is 0");
  expect(() => checkExportOptions({ format: "arrow", padToMultiple: 2.5 })).toThrow("pad_to_multiple is 2.5");
  expect(() => checkExportOptions({ format: "arrow", shape: "nope" })).toThrow('shape is "nope"');
  expect(() =>
    checkExportOptions({ format: "arrow", staleness: { maxStaleness: -1, currentVersion: 3 } }),
  ).toThrow("max_staleness is -1");
});
