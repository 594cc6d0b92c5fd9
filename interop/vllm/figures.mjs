// Sums up a run of run.sh as one JSON line; exits 1 where a claim does not hold. Usage: figures.mjs OUT VERSION TOLERANCE
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [out, version, tolerance] = process.argv.slice(2);
const figures = { engine: `vLLM ${JSON.parse(version).version}`, model: "SmolLM2-135M-Instruct", modes: {} };
let holds = true;
for (const mode of ["off", "on"]) {
  const lines = readFileSync(join(out, `${mode}.rows.jsonl`), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const rows = lines.filter((line) => line.type === "row");
  const kept = rows.filter((row) => row.generation_index === 0);
  const verdict = JSON.parse(readFileSync(join(out, `${mode}.verify.json`), "utf8"));
  figures.modes[mode] = {
    calls: verdict.calls,
    rows: rows.length,
    failures: lines.length - rows.length,
    tokens: rows.reduce((sum, row) => sum + row.token_ids.length, 0),
    trained_tokens: rows.reduce((sum, row) => sum + row.row_trainable_tokens, 0),
    trees_not_walked: kept[0]?.trees_not_walked ?? null,
    rescored_tokens: verdict.rescored_tokens,
    max_logprob_difference: verdict.max_logprob_difference,
    verified: verdict.ok,
  };
  holds &&= kept.length > 0 && verdict.ok && verdict.rescored_tokens > 0;
  holds &&= verdict.max_logprob_difference <= Number(tolerance);
}
process.stdout.write(`${JSON.stringify({ ...figures, holds })}\n`);
process.exitCode = holds ? 0 : 1;
