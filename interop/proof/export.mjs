// Usage: node interop/proof/export.mjs OUT_DIR
//
// Traces and the rows that Coppice makes of them, side by side: OUT_DIR/NAME.trace.jsonl and OUT_DIR/NAME.rows.parquet.
// The worked example; every vector that accepts calls by id, with a log-prob of its own for each token and a second
// rollout in the group, so that no advantage is 0; random forests with forks, rewrites and rejected ancestors.
// Needs `npm run build`; DIST names a build.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const here = new URL("./", import.meta.url);
const dist = process.env.DIST ? pathToFileURL(`${process.env.DIST}/`) : new URL("../../dist/", here);
const { buildTraceRows, readTrace } = await import(new URL("export/trace.js", dist));
const { exportRows } = await import(new URL("export/export-rows.js", dist));
const [out] = process.argv.slice(2);

const SEED = 20261130;
let state = SEED;
function random() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 32;
}
const below = (count) => Math.floor(random() * count);
const CONVENTION = { temperature: 1, logprobs_mode: "raw" };
/** Near what a model of 4,096 tokens gives, different at each token. */
const logprob = () => Math.fround(-6 - 5 * random());

function call(rollout, id, prompt, generated) {
  return {
    type: "call",
    rollout_id: rollout,
    call_id: id,
    prompt_token_ids: prompt,
    generated_token_ids: generated,
    generated_logprobs: generated.map(logprob),
    ...CONVENTION,
  };
}

async function write(name, lines) {
  writeFileSync(`${out}/${name}.trace.jsonl`, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return exportRows(buildTraceRows(readTrace(lines)), `${out}/${name}.rows.parquet`, {
    format: "parquet",
    shape: "rows",
  });
}

const worked = readFileSync(new URL("../fixtures/near.trace.jsonl", here), "utf8");
await write(
  "worked",
  worked
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line)),
);

const vectors = new URL("../../vectors/", here);
for (const file of readdirSync(vectors).filter((one) => one.endsWith(".json"))) {
  const { name, trace, expected } = JSON.parse(readFileSync(new URL(file, vectors), "utf8"));
  const outcomes = trace.filter(({ type }) => type === "outcome");
  const byId = outcomes.every(({ accepted }) =>
    accepted?.every((reference) => typeof reference === "string"),
  );
  if (!byId || !expected.some(({ type }) => type === "row")) continue;
  const lines = trace.map((line) =>
    line.type === "call"
      ? { ...line, ...CONVENTION, generated_logprobs: line.generated_logprobs?.map(logprob) }
      : line,
  );
  const { group_id } = outcomes[0];
  await write(`vector-${name}`, [
    ...lines,
    call("beside", "b1", [10, 11], [3001]),
    { type: "outcome", rollout_id: "beside", group_id, generation_index: 99, reward: -1, accepted: ["b1"] },
  ]);
}

/** Calls that go on from any earlier one or start anew; about a third is thrown away, ancestors of kept calls too. */
function randomRollout(rollout, group, index, reward) {
  const calls = [];
  const count = 2 + below(9);
  for (let at = 1; at <= count; at++) {
    const parent = at === 1 || random() < 0.2 ? null : calls[Math.max(0, calls.length - 1 - below(3))];
    const before = parent === null ? [] : [...parent.prompt_token_ids, ...parent.generated_token_ids];
    const carried = Array.from({ length: 1 + below(3) }, () => 10 + below(1000));
    const generated = Array.from({ length: 1 + below(3) }, () => 1010 + below(3000));
    calls.push(call(rollout, `c${at}`, [...before, ...carried], generated));
  }
  const kept = calls.filter(() => random() < 0.65).map(({ call_id }) => call_id);
  const accepted = kept.length > 0 ? kept : [calls.at(-1).call_id];
  return [
    ...calls,
    { type: "outcome", rollout_id: rollout, group_id: group, generation_index: index, reward, accepted },
  ];
}

for (let index = 0; index < 30; index++) {
  const lines = [0, 1, 2].flatMap((member) => randomRollout(`r${member}`, "g", member, member + random()));
  await write(`random-${index}`, lines);
}
