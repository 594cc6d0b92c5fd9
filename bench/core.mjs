// What the pure core costs beside its limit, SHA-256 over the same bytes: finding a parent at 1k, 32k and 128k ids among
// 10, 200 and 2,000 earlier calls, and checking and assembling a rollout of 200 calls and 128k tokens.
// Run after a build: node bench/core.mjs. Ends with one JSON line; exits 1 where a claim of docs/performance.md fails.
import { createHash } from "node:crypto";
import { recordsOf } from "../dist/export/trace.js";
import { rolloutId } from "../dist/lineage/call.js";
import {
  addressOf,
  emptySequence,
  extendSequence,
  SequenceIndex,
  tokenBytes,
} from "../dist/lineage/sequence.js";
import { rowsOfRollout } from "../dist/rows/rollout-rows.js";
import { interleave, machine, round, show } from "./measure.mjs";

let seed = 1;
const random = (below) => {
  seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
  return seed % below;
};
const ids = (length) => Uint32Array.from({ length }, () => random(150_000));

/** An index of `calls` earlier sequences, all of them ancestors: each is a candidate that must be outranked. */
function indexOf(prompt, calls) {
  const index = new SequenceIndex();
  for (let i = 1; i <= calls; i++) {
    const length = Math.max(1, Math.floor((prompt.length * 0.98 * i) / calls));
    const state = extendSequence(emptySequence(), prompt.subarray(0, length));
    index.add({
      callId: `c${i}`,
      responseId: null,
      settledOrder: 2 * i,
      sequenceLength: length,
      generatedLength: 1,
      address: addressOf(state, []),
      fingerprint: state.fingerprint,
      mediaDigests: [],
    });
  }
  return index;
}

const figures = { machine: machine(), find_parent: {}, assemble: {} };
for (const length of [1024, 32 * 1024, 128 * 1024]) {
  const prompt = ids(length);
  const query = { prompt, mediaDigests: [], admittedOrder: 1e9, namedParent: null };
  const subjects = { sha256: () => createHash("sha256").update(tokenBytes(prompt)).digest() };
  for (const calls of [10, 200, 2000]) {
    const index = indexOf(prompt, calls);
    if (index.find(query).parent === null) throw new Error("no parent found");
    subjects[`find among ${calls}`] = () => index.find(query);
  }
  for (const [name, result] of Object.entries(await interleave(subjects))) {
    show(`${length} ids: ${name}`, result);
    figures.find_parent[`${length} ${name}`] = {
      ms: round(result.ms.median),
      ratio: round(result.ratio.median),
    };
  }
}

const CALLS = 200;
const GENERATED = 320;
const lines = [];
let sequence = [];
for (let i = 1; i <= CALLS; i++) {
  const prompt = [...sequence, ...ids(GENERATED)];
  const generated = [...ids(GENERATED)];
  sequence = [...prompt, ...generated];
  lines.push({
    call_id: `c${i}`,
    prompt_token_ids: prompt,
    generated_token_ids: generated,
    generated_logprobs: generated.map(() => -0.5),
  });
}
const calls = recordsOf({ rolloutId: rolloutId("r"), lines });
const outcome = {
  rolloutId: rolloutId("r"),
  groupId: null,
  generationIndex: null,
  reward: 1,
  accepted: calls.map((call) => call.callId),
  final: null,
  failed: null,
  infer: false,
};
const bytes = Buffer.alloc(
  calls.reduce((sum, call) => sum + 4 * call.carriedLength + 8 * call.generatedLength, 0),
  7,
);
const build = () =>
  rowsOfRollout({ rolloutId: rolloutId("r"), calls, outcome, groupId: "g", generationIndex: 0 });
if (build().kind !== "rows") throw new Error("the rollout was refused");
const assembled = await interleave({
  sha256: () => createHash("sha256").update(bytes).digest(),
  "check and assemble": build,
});
for (const [name, result] of Object.entries(assembled)) {
  show(`200 calls, ${sequence.length} tokens: ${name}`, result);
  figures.assemble[name] = { ms: round(result.ms.median), ratio: round(result.ratio.median) };
}
figures.assemble.tokens_per_second = Math.round(
  sequence.length / (assembled["check and assemble"].ms.median / 1000),
);
const claims = {
  "findParent within 2x of SHA-256 at 128k ids": ["10", "200", "2000"].every(
    (count) => figures.find_parent[`131072 find among ${count}`].ratio <= 2,
  ),
};
process.stdout.write(`${JSON.stringify({ ...figures, claims })}\n`);
process.exitCode = Object.values(claims).every(Boolean) ? 0 : 1;
