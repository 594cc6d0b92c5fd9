// A call through the gateway beside the engine asked directly and beside a bare proxy that parses nothing: CPU a call of
// the process in the middle, and latency and throughput as a client sees them. Interleaved rounds; ledger on disk.
//   node bench/gateway.mjs [--rounds 5] [--stream]     after a build; ends with one JSON line
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { machine, round, spread } from "./measure.mjs";
import { cpuMs, freePort, run, start, stopAll } from "./processes.mjs";

const argument = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : process.argv[at + 1];
};
const ROUNDS = Number(argument("rounds", 5));
const STREAM = process.argv.includes("--stream") ? "1" : "0";
const here = (name) => fileURLToPath(new URL(name, import.meta.url));

const folder = mkdtempSync(join(tmpdir(), "coppice-bench-"));
try {
  const [enginePort, proxyPort, gatewayPort] = [await freePort(), await freePort(), await freePort()];
  await start([here("stub.mjs"), String(enginePort)]);
  const proxy = await start([here("bare-proxy.mjs"), String(proxyPort), String(enginePort)]);
  const gateway = await start([
    here("../dist/cli/main.js"),
    "serve",
    "--engine",
    `http://127.0.0.1:${enginePort}`,
    "--model",
    "stub",
    "--engine-kind",
    "vllm",
    "--way",
    "text",
    "--ledger",
    join(folder, "bench.db"),
    "--port",
    String(gatewayPort),
  ]);
  const subjects = {
    direct: { url: `http://127.0.0.1:${enginePort}/v1/chat/completions`, pid: null, ids: "1" },
    "bare proxy": {
      url: `http://127.0.0.1:${proxyPort}/r/{rollout}/v1/chat/completions`,
      pid: proxy.pid,
      ids: "1",
    },
    gateway: {
      url: `http://127.0.0.1:${gatewayPort}/r/{rollout}/v1/chat/completions`,
      pid: gateway.pid,
      ids: "0",
    },
  };
  const figures = { machine: machine(), stream: STREAM === "1", shapes: {} };
  for (const [shape, concurrency, calls] of [
    ["small", 1, 400],
    ["small", 32, 2000],
    ["large", 1, 100],
    ["large", 32, 400],
  ]) {
    const seen = Object.fromEntries(Object.keys(subjects).map((name) => [name, []]));
    for (let at = 0; at <= ROUNDS; at++) {
      for (const [name, { url, pid, ids }] of Object.entries(subjects)) {
        const before = pid === null ? 0 : cpuMs(pid);
        const load = await run([
          here("load.mjs"),
          url,
          shape,
          String(concurrency),
          String(calls),
          ids,
          STREAM,
        ]);
        if (load.failed > 0) throw new Error(`${load.failed} calls of ${name} failed`);
        const cpu = pid === null ? null : (cpuMs(pid) - before) / load.calls;
        // The first round warms up.
        if (at > 0) seen[name].push({ ...load, cpu });
      }
    }
    const row = {};
    for (const name of Object.keys(subjects)) {
      const of = (field) => spread(seen[name].map((load) => load[field]));
      const ratios = (field) =>
        spread(seen[name].map((load, at) => load[field] / seen["bare proxy"][at][field]));
      row[name] = {
        per_second: round(of("per_second").median),
        p50_ms: round(of("p50_ms").median),
        p99_ms: round(of("p99_ms").median),
        cpu_ms: of("cpu").median === null ? null : round(of("cpu").median),
        cpu_ratio: name === "gateway" ? Object.values(ratios("cpu")).map((value) => round(value)) : null,
        throughput_ratio:
          name === "gateway" ? Object.values(ratios("per_second")).map((value) => round(value)) : null,
      };
      process.stderr.write(`${shape} c=${concurrency} ${name.padEnd(11)} ${JSON.stringify(row[name])}\n`);
    }
    figures.shapes[`${shape} c=${concurrency}`] = row;
  }
  process.stdout.write(`${JSON.stringify(figures)}\n`);
} finally {
  stopAll();
  rmSync(folder, { recursive: true, force: true });
}
