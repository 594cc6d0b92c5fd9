// Arrow and Parquet hold what JSON Lines hold: each shape is written three ways and read back by the libraries' own
// readers; types, metadata, many batches, no batch at all.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { rolloutId } from "../lineage/call.ts";
import type { Row, RolloutRows } from "../rows/row.ts";
import { arrowFile, arrowStream } from "./arrow.ts";
import { batchesOf } from "./batches.ts";
import { parquetFile } from "./parquet.ts";
import { shapeLine } from "./shape-lines.ts";
import { SHAPES, shapeNamed } from "./shapes.ts";
import type { Shape } from "./shapes/shape.ts";
import { bytesOf, readArrow, readParquetBytes, type ReadBack } from "./testing/read-back.ts";
import { fourTokens, randomRollout, rowsOf, workedRollouts } from "./testing/sample-rows.ts";

const metadata = new Map([["coppice.shape", "test"]]);

async function arrowOf(
  shape: Shape,
  rollouts: readonly (readonly Row[])[],
  batchTokens = 9,
): Promise<ReadBack> {
  return readArrow(await bytesOf(arrowStream(shape, metadata, batchesOf(shape, rollouts, batchTokens))));
}

async function arrowFileOf(shape: Shape, rollouts: readonly (readonly Row[])[]): Promise<ReadBack> {
  return readArrow(await bytesOf(arrowFile(shape, metadata, batchesOf(shape, rollouts, 9))));
}

async function parquetOf(
  shape: Shape,
  rollouts: readonly (readonly Row[])[],
  batchTokens = 9,
): Promise<ReadBack> {
  return readParquetBytes(
    await bytesOf(parquetFile(shape, metadata, batchesOf(shape, rollouts, batchTokens))),
  );
}

/** What JSON Lines of the shape read back to, numbers of float32 columns rounded as the others hold them. */
function linesRead(shape: Shape, rollouts: readonly (readonly Row[])[]): unknown[] {
  return rollouts.flatMap((rows) =>
    shape.records(rows).map((record) => rounded(JSON.parse(shapeLine(shape.columns, record)))),
  );
}

/** Every number to float32: doubles that are no float32 are compared by the property of shape `rows` alone. */
function rounded(value: unknown): unknown {
  if (typeof value === "number") return Math.fround(value) + 0;
  if (Array.isArray(value)) return value.map(rounded);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, rounded(field)]));
}

function rowsByRollout(rollouts: readonly RolloutRows[]): (readonly Row[])[] {
  return rollouts.flatMap((rollout) => (rollout.kind === "rows" ? [rollout.rows] : []));
}

describe("each shape reads back from all containers to the same records", () => {
  const rollouts = [...rowsByRollout(workedRollouts()), [fourTokens()]];
  for (const shape of SHAPES) {
    test(shape.name, async () => {
      const known = linesRead(shape, rollouts);
      expect(rounded((await arrowOf(shape, rollouts)).records)).toEqual(known);
      expect(rounded((await arrowFileOf(shape, rollouts)).records)).toEqual(known);
      expect(rounded((await parquetOf(shape, rollouts)).records)).toEqual(known);
    });
  }
});

test("random rollouts come back from Arrow and Parquet bit for bit, whatever the batches", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(randomRollout, { maxLength: 4 }),
      fc.integer({ min: 1, max: 40 }),
      async (rollouts, cut) => {
        const shape = shapeNamed("rows");
        const arrow = await arrowOf(shape, rollouts, cut);
        const parquet = await parquetOf(shape, rollouts, cut);
        expect(parquet.records).toEqual(arrow.records);
        const rows = rollouts.flat();
        expect(arrow.records).toHaveLength(rows.length);
        for (const [index, row] of rows.entries()) {
          expect(arrow.records[index]).toMatchObject({
            row_id: row.rowId,
            reward: row.reward,
            advantage: row.advantage,
            token_ids: [...row.tokenIds],
            loss_mask: [...row.lossMask],
            logprobs: [...row.logprobs],
            call_ids: row.callIds,
            weight_versions: row.weightVersions,
          });
        }
      },
    ),
    { numRuns: 40 },
  );
});

test("types are those of the schema: uint32 ids, uint8 mask, float32 log-probs, structs in lists", async () => {
  const { types, metadata: read } = await parquetOf(shapeNamed("rows"), [[fourTokens()]]);
  expect(types).toMatchObject({
    token_ids: "List<Uint32>",
    loss_mask: "List<Uint8>",
    logprobs: "List<Float32>",
    reward: "Float64",
    spans:
      "List<Struct<{call_id:Utf8, start:Int32, carried:Int32, generated:Int32, trained:Bool, temperature:Float64}>>",
    weight_versions: "List<Struct<{version:Utf8, start:Int32, end:Int32}>>",
  });
  expect(read.get("coppice.shape")).toBe("test");
});

test("nulls of a row stay nulls, in a column and inside a struct", async () => {
  const row = fourTokens({
    reward: null,
    advantage: null,
    finishReason: null,
    temperature: null,
    spans: fourTokens().spans.map((span) => ({ ...span, temperature: null })),
  });
  for (const { records } of [
    await arrowOf(shapeNamed("rows"), [[fourTokens()], [row]], 100),
    await parquetOf(shapeNamed("rows"), [[fourTokens()], [row]], 100),
  ]) {
    expect(records[1]).toMatchObject({
      reward: null,
      advantage: null,
      finish_reason: null,
      temperature: null,
    });
    expect((records[1] as { spans: object[] }).spans).toMatchObject([
      { temperature: null },
      { temperature: null },
    ]);
    expect(records[0]).toMatchObject({ reward: 1, temperature: 0.7 });
  }
});

test("an export without a row still has its columns", async () => {
  for (const read of [arrowOf, arrowFileOf, parquetOf]) {
    const { records, types } = await read(shapeNamed("rows"), []);
    expect(records).toEqual([]);
    expect(types).toHaveProperty("token_ids", "List<Uint32>");
  }
});

test("ids of 64-bit columns keep all their bits, above 2^32 too", async () => {
  const row = fourTokens({
    tokenIds: Uint32Array.of(10, 2 ** 32 - 1, 2 ** 31, 1002),
    rolloutId: rolloutId("r0"),
  });
  const [record] = (await parquetOf(shapeNamed("slime"), [[row]])).records as Record<string, unknown>[];
  expect(record?.["tokens"]).toEqual([10, 2 ** 32 - 1, 2 ** 31, 1002]);
  expect(record?.["rollout_id"]).toBe(shapeNamed("slime").records([row])[0]?.["rollout_id"]);
  expect(record?.["rollout_id"]).toBeGreaterThan(2 ** 32);
});

test("what a shape refuses comes out of the Parquet writer as the refusal, not as its text", async () => {
  const rows = rowsOf(workedRollouts());
  const wrong = [rows, [fourTokens({ advantage: null })]];
  await expect(parquetOf(shapeNamed("trl"), wrong)).rejects.toMatchObject({
    code: "invalid_request",
    param: "advantage",
  });
});
