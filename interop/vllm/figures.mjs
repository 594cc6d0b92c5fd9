// Sums up a run of run.sh as one JSON line; exits 1 where a claim does not hold. Usage: figures.mjs OUT VERSION TOLERANCE
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [out, version, tolerance] = process.argv.slice(2);
const figures = { engine: `vLLM ${JSON.parse(version).version}`, model: "SmolLM2-135M-Instruct", modes: {} };
let holds = true;
for (const mode of ["off", "on"]) {
  const lines = readFileSync(join(out, `${mode}.rows.jsonl`), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
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

const read = (name) => JSON.parse(readFileSync(join(out, name), "utf8"));
for (const way of ["token-in", "text"]) {
  const verdict = read(`${way}.verify.json`);
  figures[way.replace("-", "_")] = {
    ...read(`${way}.figures.json`),
    rescored_tokens: verdict.rescored_tokens,
    max_logprob_difference: verdict.max_logprob_difference,
    verified: verdict.ok,
  };
  holds &&= verdict.ok && verdict.rescored_tokens > 0 && verdict.max_logprob_difference <= Number(tolerance);
}
const { weights, tools } = read("token-in.json");
const [token, text] = [figures.token_in, figures.text];
const versions = (spans) => spans.map(({ version }) => version).join(",");
figures.weights = weights;
figures.tools = tools;
figures.claims = {
  every_conversation_is_one_tree:
    token.one_tree === token.conversations && token.trees === token.conversations,
  no_drift: token.drifts === 0,
  every_call_went_token_in: token.ways["token-in"] === token.calls,
  every_prompt_starts_with_the_sequence_before:
    token.unchanged_prefixes === token.calls - token.conversations,
  every_call_is_trainable: token.untrainable === 0 && text.untrainable === 0,
  // Without it the run would prove nothing.
  the_text_way_drifts: text.drifts > 0,
  weights_change_within_a_call:
    versions(weights.call_weight_versions) === "step-7,step-8" &&
    versions(weights.row_weight_versions) === "step-7,step-8",
  tool_calls_are_parsed: tools.tool_calls.every(
    (calls) => calls.length > 0 && calls.every(([name]) => name === "weather"),
  ),
  tools_stay_one_tree: tools.trees === 1 && tools.ways["token-in"] === tools.calls && tools.untrainable === 0,
};
holds &&= Object.values(figures.claims).every(Boolean);
process.stdout.write(`${JSON.stringify({ ...figures, holds })}\n`);
process.exitCode = holds ? 0 : 1;
