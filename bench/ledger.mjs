// Commits a second at concurrency 1, 8 and 64 beside one plain write and sync each; ledger bytes and resident memory for a
// rollout of 200 turns that reaches 64k tokens. After a build: node bench/ledger.mjs. Ends with one JSON line.
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqliteLedger } from "../dist/ledger/sqlite-ledger.js";
import { recordCall, RolloutIndex } from "../dist/lineage/record-call.js";
import { machine, round, spread } from "./measure.mjs";

const folder = mkdtempSync(join(tmpdir(), "coppice-bench-"));
const ROUNDS = 5;

function captured(rolloutId, callId, { admittedOrder, attempt }, prompt, generated) {
  return {
    rolloutId,
    attempt,
    callId,
    responseId: `resp-${callId}`,
    status: "committed",
    statusDetail: null,
    admittedOrder,
    admittedAt: Date.now(),
    settledAt: Date.now(),
    namedParent: null,
    promptTokenIds: prompt,
    generatedTokenIds: generated,
    generatedLogprobs: new Float32Array(generated.length).fill(-0.5),
    mediaDigests: [],
    finishReason: "stop",
    untrainable: null,
    weightVersions: [{ version: "1", start: 0 }],
    way: "text",
    notes: [],
    sampling: { asked: {}, used: {} },
    logprobsMode: "raw",
    agent: null,
    class: null,
    messages: null,
    answer: null,
  };
}

async function admit(ledger, rolloutId, callId) {
  const [admitted] = await ledger.admit([
    { rolloutId, callId, responseId: `resp-${callId}`, admittedAt: Date.now(), agent: null, class: null },
  ]);
  return admitted;
}

function syncsPerSecond() {
  const file = openSync(join(folder, "plain"), "w");
  const bytes = Buffer.alloc(4096, 1);
  const start = performance.now();
  let count = 0;
  while (performance.now() - start < 400) {
    writeSync(file, bytes);
    fdatasyncSync(file);
    count += 1;
  }
  closeSync(file);
  return count / ((performance.now() - start) / 1000);
}

let unique = 0;
async function commitsPerSecond(ledger, concurrency) {
  const prompt = new Uint32Array(1024).fill(7);
  const generated = new Uint32Array(64).fill(8);
  const start = performance.now();
  let count = 0;
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      while (performance.now() - start < 600) {
        const id = unique++;
        const admitted = await admit(ledger, `b${id}`, `c${id}`);
        const call = captured(`b${id}`, `c${id}`, admitted, prompt, generated);
        await ledger.settle(recordCall(call, new RolloutIndex().place(call), null));
        count += 1;
      }
    }),
  );
  return count / ((performance.now() - start) / 1000);
}

const figures = { machine: machine(), commits: {}, storage: {} };
try {
  const ledger = await openSqliteLedger(join(folder, "commits.db"));
  const seen = { sync: [], 1: [], 8: [], 64: [] };
  for (let at = 0; at <= ROUNDS; at++) {
    const sync = syncsPerSecond();
    const rates = {};
    for (const concurrency of [1, 8, 64]) rates[concurrency] = await commitsPerSecond(ledger, concurrency);
    if (at === 0) continue;
    seen.sync.push(sync);
    for (const concurrency of [1, 8, 64])
      seen[concurrency].push({ rate: rates[concurrency], ratio: rates[concurrency] / sync });
  }
  await ledger.close();
  figures.commits.syncs_per_second = round(spread(seen.sync).median);
  for (const concurrency of [1, 8, 64]) {
    const rate = spread(seen[concurrency].map((one) => one.rate));
    const ratio = spread(seen[concurrency].map((one) => one.ratio));
    figures.commits[`concurrency ${concurrency}`] = {
      per_second: round(rate.median),
      to_one_sync_each: [round(ratio.median), round(ratio.min), round(ratio.max)],
    };
  }

  const path = join(folder, "storage.db");
  const store = await openSqliteLedger(path);
  const TURNS = 200;
  const NEW = 160;
  let sequence = new Uint32Array();
  const index = new RolloutIndex();
  global.gc?.();
  const before = process.memoryUsage().rss;
  for (let turn = 0; turn < TURNS; turn++) {
    const prompt = new Uint32Array(sequence.length + NEW);
    prompt.set(sequence);
    for (let at = sequence.length; at < prompt.length; at++) prompt[at] = (at * 7919) % 150_000;
    const generated = Uint32Array.from({ length: NEW }, (_, at) => (turn * 31 + at * 17) % 150_000);
    const admitted = await admit(store, "long", `t${turn}`);
    const call = captured("long", `t${turn}`, admitted, prompt, generated);
    const settled = await store.settle(recordCall(call, index.place(call), null));
    index.add(settled.call);
    sequence = new Uint32Array([...prompt, ...generated]);
  }
  const resident = process.memoryUsage().rss - before;
  await store.close();
  const payload = TURNS * NEW * (4 + 8);
  figures.storage = {
    turns: TURNS,
    tokens: sequence.length,
    payload_bytes: payload,
    ledger_bytes: statSync(path).size,
    ratio: round(statSync(path).size / payload),
    resident_growth_mib: round(resident / 2 ** 20),
  };
  process.stdout.write(`${JSON.stringify(figures)}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
