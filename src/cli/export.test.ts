// `coppice export`: trainers' files of a trace, what stands beside them, and the usage that is refused.
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, expect, test, vi } from "vitest";
import { leftOutPath } from "../export/export-rows.ts";
import { readArrow, readParquetBytes } from "../export/testing/read-back.ts";
import { exportCommand } from "./export.ts";

const trace = fileURLToPath(new URL("../../interop/fixtures/near.trace.jsonl", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "coppice-export-cli-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(() => {
  vi.restoreAllMocks();
});

async function run(...options: readonly string[]): Promise<string> {
  const told = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  await exportCommand()
    .exitOverride()
    .parseAsync(["--trace", trace, ...options], { from: "user" });
  return told.mock.calls.map(([text]) => String(text)).join("");
}

test("a trace becomes a trainer's Parquet file, and one line says what was written", async () => {
  const out = join(folder, "trl.parquet");
  const told = await run("--format", "parquet", "--shape", "trl", "--out", out);
  expect(readParquetBytes(readFileSync(out)).records).toHaveLength(5);
  expect(told).toMatch(/^5 rows, 24 tokens \(8 trained\), \d+ bytes; 0 refused rollouts, 0 rows left out\n$/);
  expect(readFileSync(leftOutPath(out), "utf8")).toBe("");
});

test("padding, weights and staleness are taken from the options, and what is left out is listed", async () => {
  const out = join(folder, "rows.arrow");
  const fresh = ["--weight-version", "9", "--max-staleness", "2"];
  await run(
    "--format",
    "arrow",
    "--weights",
    "rollout",
    "--pad-to-multiple",
    "4",
    "--pad-token-id",
    "3",
    "--out",
    out,
    ...fresh,
  );
  const { records, metadata } = readArrow(readFileSync(out));
  expect(records).toHaveLength(8);
  expect(records[0]).toMatchObject({ row_id: "g0_g0_s0", token_weight: 1 / 7 });
  expect(records[7]).toMatchObject({
    row_id: "padding_2_g0_s0",
    token_ids: [3, 3],
    loss_mask: [0, 0],
    token_weight: 0,
  });
  expect(metadata.get("coppice.weights")).toBe("rollout");
  const told = await run("--format", "arrow", "--out", out, "--weight-version", "10", "--max-staleness", "2");
  expect(told).toContain(`5 rows left out, listed in ${leftOutPath(out)}`);
  expect(readArrow(readFileSync(out)).records).toHaveLength(0);
});

test("JSON Lines without a shape are those of `coppice rows`", async () => {
  const out = join(folder, "rows.jsonl");
  await run("--out", out);
  const lines = readFileSync(out, "utf8").trim().split("\n");
  expect(lines).toHaveLength(5);
  expect(JSON.parse(lines[0] as string)).toMatchObject({ type: "row", row_id: "g0_g0_s0" });
  expect(existsSync(leftOutPath(out))).toBe(false);
});

test("usage that cannot be meant is refused by the option's name", async () => {
  const cases: readonly (readonly [readonly string[], string])[] = [
    [["--format", "parquet"], "--format parquet needs --out FILE"],
    [["--shape", "verl"], "--format jsonl with --shape needs --out FILE"],
    [["--max-staleness", "2", "--out", "x"], "--max-staleness and --weight-version belong together"],
    [["--pad-to-multiple", "many", "--out", "x"], "pad_to_multiple is NaN"],
    [["--format", "trace"], "--format trace needs --ledger"],
  ];
  for (const [options, message] of cases) await expect(run(...options)).rejects.toThrow(message);
});
