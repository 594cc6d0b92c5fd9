// Each API beside Chat Completions: 200 streams at once through the gateway, CPU a call and throughput as ratios; then
// 10,000 streamed calls, whose resident memory must level off. After a build: node bench/dialects.mjs [--rounds 5] [--calls 10000]
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { machine, round, spread } from "./measure.mjs";
import { cpuMs, freePort, residentMib, run, start, stopAll } from "./processes.mjs";

const argument = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : Number(process.argv[at + 1]);
};
const ROUNDS = argument("rounds", 5);
const CALLS = argument("calls", 10_000);
const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const PATHS = {
  chat: "v1/chat/completions",
  responses: "v1/responses",
  messages: "v1/messages",
  completions: "v1/completions",
};
const CONCURRENCY = 200;

const folder = mkdtempSync(join(tmpdir(), "coppice-bench-"));
try {
  const [enginePort, gatewayPort] = [await freePort(), await freePort()];
  await start([here("stub.mjs"), String(enginePort)]);
  const gateway = await start([
    here("../dist/cli/main.js"),
    "serve",
    "--engine",
    `http://127.0.0.1:${enginePort}`,
    "--engine-kind",
    "vllm",
    "--model",
    "stub",
    "--way",
    "text",
    "--ledger",
    join(folder, "bench.db"),
    "--port",
    String(gatewayPort),
  ]);
  const load = async (dialect, calls) => {
    const url = `http://127.0.0.1:${gatewayPort}/r/{rollout}/${PATHS[dialect]}`;
    const before = cpuMs(gateway.pid);
    const seen = await run([
      here("load.mjs"),
      url,
      "small",
      String(CONCURRENCY),
      String(calls),
      "0",
      "1",
      dialect,
    ]);
    if (seen.failed > 0) throw new Error(`${seen.failed} ${dialect} calls failed`);
    return { ...seen, cpu: (cpuMs(gateway.pid) - before) / seen.calls };
  };
  const seen = Object.fromEntries(Object.keys(PATHS).map((dialect) => [dialect, []]));
  for (let at = 0; at <= ROUNDS; at++) {
    for (const dialect of Object.keys(PATHS)) {
      const one = await load(dialect, 600);
      if (at > 0) seen[dialect].push(one);
    }
  }
  const figures = { machine: machine(), streams_at_once: CONCURRENCY, dialects: {} };
  for (const dialect of Object.keys(PATHS)) {
    const ratios = (field) => spread(seen[dialect].map((one, at) => one[field] / seen.chat[at][field]));
    figures.dialects[dialect] = {
      per_second: round(spread(seen[dialect].map((one) => one.per_second)).median),
      cpu_ms: round(spread(seen[dialect].map((one) => one.cpu)).median),
      cpu_to_chat: Object.values(ratios("cpu")).map((value) => round(value)),
      throughput_to_chat: Object.values(ratios("per_second")).map((value) => round(value)),
    };
    process.stderr.write(`${dialect} ${JSON.stringify(figures.dialects[dialect])}\n`);
  }
  const memory = [];
  const BLOCKS = 10;
  for (let block = 0; block < BLOCKS; block++) {
    await load(Object.keys(PATHS)[block % 4], CALLS / BLOCKS);
    memory.push(Math.round(residentMib(gateway.pid)));
  }
  figures.resident_mib_per_tenth = memory;
  // The second half may breathe with the collector, but must not go on growing.
  const flat = Math.max(...memory.slice(BLOCKS / 2)) <= Math.max(...memory.slice(0, BLOCKS / 2)) * 1.25;
  process.stdout.write(`${JSON.stringify({ ...figures, claims: { "memory is flat": flat } })}\n`);
  process.exitCode = flat ? 0 : 1;
} finally {
  stopAll();
  rmSync(folder, { recursive: true, force: true });
}
