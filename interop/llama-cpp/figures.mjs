// Sums up a run of run.sh as one JSON line; exits 1 where a claim does not hold. Usage: figures.mjs OUT
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [out] = process.argv.slice(2);
const read = (name) => JSON.parse(readFileSync(join(out, name), "utf8"));
const doctor = read("doctor.json");
const { text, ...tokenIn } = read("figures.json");
const verdict = read("verify.json");
const claims = {
  every_conversation_is_one_tree: tokenIn.one_tree === tokenIn.conversations,
  no_drift: tokenIn.drifts === 0 && tokenIn.trees === tokenIn.conversations,
  every_call_went_token_in: tokenIn.ways["token-in"] === tokenIn.calls,
  every_prompt_starts_with_the_sequence_before:
    tokenIn.unchanged_prefixes === tokenIn.calls - tokenIn.conversations,
  records_verify: verdict.ok === true,
  // Without it the run would prove nothing.
  the_text_way_drifts: text.trees > tokenIn.trees,
};
const holds = Object.values(claims).every(Boolean);
process.stdout.write(
  `${JSON.stringify({
    engine: `llama.cpp ${doctor.version}`,
    model: "SmolLM2-135M-Instruct Q4_1",
    token_in: tokenIn,
    text_way: text,
    claims,
    holds,
  })}\n`,
);
process.exitCode = holds ? 0 : 1;
