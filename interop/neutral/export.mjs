// Usage: node interop/neutral/export.mjs OUT_DIR
//
// Exports that the neutral readers are tried with beyond the worked example: every vector as Parquet and Arrow
// (vector.NAME.*), random rows with their raw arrays beside them (random.*), and what makes type inference fail:
// 3,000 rows of reward 1.0 and log-prob 0.0 before one of 0.5 (trap.jsonl). Needs `npm run build`; DIST names a build.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const here = new URL("./", import.meta.url);
const dist = process.env.DIST ? pathToFileURL(`${process.env.DIST}/`) : new URL("../../dist/", here);
const { buildTraceRows, readTrace } = await import(new URL("export/trace.js", dist));
const { exportRows } = await import(new URL("export/export-rows.js", dist));

const [out] = process.argv.slice(2);

const vectors = new URL("../../vectors/", here);
for (const file of readdirSync(vectors).filter((name) => name.endsWith(".json"))) {
  const { name, trace } = JSON.parse(readFileSync(new URL(file, vectors), "utf8"));
  for (const format of ["parquet", "arrow", "jsonl"]) {
    await exportRows(buildTraceRows(readTrace(trace)), `${out}/vector.${name}.${format}`, {
      format,
      shape: "rows",
    });
  }
}

// A generator with a seed: the same rows on every machine.
let state = 20261130;
function random() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 32;
}

function calls(rollout, tokens, logprob, reward) {
  const generated = Array.from({ length: tokens }, () => Math.floor(random() * 2 ** 32));
  return [
    {
      type: "call",
      rollout_id: rollout,
      call_id: "c1",
      prompt_token_ids: Array.from({ length: 1 + Math.floor(random() * 40) }, () =>
        Math.floor(random() * 150_000),
      ),
      generated_token_ids: generated,
      generated_logprobs: generated.map(logprob),
      weight_version: "1",
      temperature: 1,
      logprobs_mode: "raw",
    },
    {
      type: "outcome",
      rollout_id: rollout,
      group_id: "g",
      generation_index: Number(rollout.slice(1)),
      reward,
      final: "c1",
    },
  ];
}

const lines = Array.from({ length: 300 }, (_, index) =>
  calls(
    `r${index}`,
    1 + Math.floor(random() * 200),
    () => Math.fround(-Math.exp(12 * random() - 8)),
    random(),
  ),
).flat();
const rollouts = buildTraceRows(readTrace(lines));
for (const format of ["parquet", "arrow", "jsonl"]) {
  await exportRows(rollouts, `${out}/random.${format}`, { format, shape: "rows" });
}
const rows = rollouts.flatMap((rollout) => rollout.rows);
writeFileSync(
  `${out}/random.lengths`,
  Uint32Array.from(rows, (row) => row.tokenIds.length),
);
writeFileSync(`${out}/random.ids`, Buffer.concat(rows.map((row) => Buffer.from(row.tokenIds.buffer))));
writeFileSync(`${out}/random.logprobs`, Buffer.concat(rows.map((row) => Buffer.from(row.logprobs.buffer))));
writeFileSync(
  `${out}/random.rewards`,
  Float64Array.from(rows, (row) => row.reward),
);

const trap = Array.from({ length: 3001 }, (_, index) =>
  calls(`r${index}`, 1, () => 0, index < 3000 ? 1 : 0.5),
).flat();
await exportRows(buildTraceRows(readTrace(trap)), `${out}/trap.jsonl`, {
  format: "jsonl",
  shape: "rows",
  advantage: "none",
});
