// The long fuzz: node --import ./test/typescript/register.mjs bench/fuzz.mjs [REQUESTS] [SEED] [WAY]. 100,000 mutations of
// requests and engine answers by default; a few minutes. Ends with one JSON line, and with 1 where anything did not hold
// or the heap grew by more than the bound from its warm state.
import { machine } from "./measure.mjs";

const { runFuzz } = await import("../test/fuzz/run-fuzz.ts");

/** Growth of the heap from its warm state that is no leak: code that was compiled late, and the collector's slack. */
const HEAP_SLACK = 12 * 1024 * 1024;

const requests = Number(process.argv[2] ?? 100_000);
const seed = Number(process.argv[3] ?? Date.now() % 1e9);
const way = process.argv[4] ?? "text";
const began = performance.now();
const figures = await runFuzz({
  seed,
  requests,
  concurrency: 32,
  way,
  onProgress: (done) => process.stderr.write(`\r${done} of ${requests}, seed ${seed} `),
});
const seconds = Math.round((performance.now() - began) / 100) / 10;
process.stderr.write("\n");
const leaked = figures.heap.at(-1) - figures.heap[0] > HEAP_SLACK;
process.stdout.write(
  `${JSON.stringify({ bench: "fuzz", way, seed, seconds, ...figures, leaked, machine: machine() })}\n`,
);
process.exitCode = figures.faults.length > 0 || leaked ? 1 : 0;
