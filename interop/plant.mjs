// Usage: node interop/plant.mjs SHAPE OUT_DIR
//
// Writes, through the real exporter, what a trainer's check must be able to tell from the right export: the worked rows
// with one plausible exporter bug each (OUT_DIR/BUG.SHAPE.parquet), and the same data as one row a model call
// (OUT_DIR/KIND-calls.SHAPE.parquet), which must give the same loss. Needs `npm run build`; DIST names another build.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const here = new URL("./", import.meta.url);
const dist = process.env.DIST ? pathToFileURL(`${process.env.DIST}/`) : new URL("../dist/", here);
const { buildTraceRows, readTrace } = await import(new URL("export/trace.js", dist));
const { exportRows } = await import(new URL("export/export-rows.js", dist));

const BUGS = {
  // The value one position before its token.
  logprobs_shifted_left: (row) => ({ ...row, logprobs: Float32Array.of(...row.logprobs.subarray(1), 0) }),
  // Only the sampled values, not one a token.
  logprobs_compact(row) {
    const logprobs = new Float32Array(row.logprobs.length);
    logprobs.set(
      row.logprobs.filter((_, index) => row.lossMask[index] === 1),
      row.promptLength,
    );
    return { ...row, logprobs };
  },
  mask_shifted_left: (row) => ({
    ...row,
    lossMask: Uint8Array.of(...row.lossMask.subarray(1), 0),
    // The exporter would refuse a trained token without a weight version; this is for the trainer to notice.
    weightVersions: [{ version: "7", start: 0, end: row.tokenIds.length }],
  }),
  // Tool output trained on.
  mask_includes_tool: (row) => ({
    ...row,
    lossMask: row.lossMask.map((_, at) => (at < row.promptLength ? 0 : 1)),
  }),
  // The rollout's advantage divided over its rows.
  advantage_split: (row) => ({ ...row, advantage: row.advantage / row.segmentCount }),
  // One context token tokenised again.
  token_changed: (row) => ({ ...row, tokenIds: row.tokenIds.map((id) => (id === 20 ? 22 : id)) }),
};

/** One row a trained run: all before it is prompt. */
function callRows(row) {
  return row.spans
    .filter(({ trained }) => trained)
    .map((span, index) => {
      const start = span.start + span.carried;
      const end = start + span.generated;
      const lossMask = new Uint8Array(end).fill(1, start);
      return {
        ...row,
        rowId: `${row.rowId}_c${index}`,
        tokenIds: row.tokenIds.slice(0, end),
        lossMask,
        logprobs: row.logprobs.slice(0, end).map((value, at) => value * lossMask[at]),
        promptLength: start,
        spans: [{ ...span, start: 0, carried: start }],
        weightVersions: row.weightVersions.filter((one) => one.start >= start && one.end <= end),
      };
    });
}

function rollouts(kind) {
  const text = readFileSync(new URL(`fixtures/${kind}.trace.jsonl`, here), "utf8");
  const lines = text.split("\n").filter((line) => line !== "");
  return buildTraceRows(readTrace(lines.map((line) => JSON.parse(line))));
}

const [shape, out] = process.argv.slice(2);
const write = (name, changed) =>
  exportRows(changed, `${out}/${name}.${shape}.parquet`, { format: "parquet", shape });
for (const [name, plant] of Object.entries(BUGS)) {
  await write(
    name,
    rollouts("near").map((rollout) => ({ ...rollout, rows: rollout.rows.map(plant) })),
  );
}
for (const kind of ["near", "flat"]) {
  await write(
    `${kind}-calls`,
    rollouts(kind).map((rollout) => ({ ...rollout, rows: rollout.rows.flatMap(callRows) })),
  );
}
