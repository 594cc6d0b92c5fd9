// Rows to JSON Lines, Arrow and Parquet in tokens per second, beside pyarrow writing the same table from Python lists
// and from numpy, in one interleaved run; then the peak memory of exporting 10 million tokens, each format in a process
// of its own. Run after a build: PYTHON=venv/bin/python node bench/export.mjs (a Python with pyarrow and numpy, such as
// the one of interop/run.sh neutral). Ends with one JSON line; exits 1 where a claim of docs/performance.md fails.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { interleave, machine, round, show } from "./measure.mjs";

const dist = process.env.DIST ? pathToFileURL(`${process.env.DIST}/`) : new URL("../dist/", import.meta.url);
const { exportRows } = await import(new URL("export/export-rows.js", dist));

const CALLS = 8;
const CARRIED = 128;
const GENERATED = 128;
const ROW_TOKENS = CALLS * (CARRIED + GENERATED);
const MEMORY_TOKENS = 10_000_000;
const MEMORY_LIMIT_MB = 500;

let seed = 1;
function random() {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32;
}

/** Ids that repeat as words do, log-probs that mostly are near 0. */
function makeRow(index) {
  const tokenIds = Uint32Array.from({ length: ROW_TOKENS }, () => Math.floor(150_000 ** random()));
  const lossMask = new Uint8Array(ROW_TOKENS);
  const logprobs = new Float32Array(ROW_TOKENS);
  const spans = [];
  const weightVersions = [];
  for (let call = 0; call < CALLS; call++) {
    const start = call * (CARRIED + GENERATED);
    const from = start + CARRIED;
    lossMask.fill(1, from, from + GENERATED);
    for (let at = from; at < from + GENERATED; at++) logprobs[at] = -Math.exp(10 * random() - 8);
    spans.push({
      callId: `c${call}`,
      start,
      carried: CARRIED,
      generated: GENERATED,
      trained: true,
      temperature: 1,
    });
    weightVersions.push({ version: "12", start: from, end: from + GENERATED });
  }
  const trainable = CALLS * GENERATED;
  return {
    rowId: `g${index >> 3}_g${index & 7}_s0`,
    rolloutId: `r${index}`,
    groupId: `g${index >> 3}`,
    generationIndex: index & 7,
    segmentIndex: 0,
    segmentCount: 1,
    tokenIds,
    lossMask,
    logprobs,
    promptLength: CARRIED,
    callIds: spans.map(({ callId }) => callId),
    spans,
    weightVersions,
    reward: index & 1,
    advantage: (index & 1) - 0.5,
    rowTrainableTokens: trainable,
    rolloutTrainableTokens: trainable,
    treesNotWalked: 0,
    finishReason: "stop",
    temperature: 1,
    logprobsMode: "raw",
    tokenWeight: null,
  };
}

function* rollouts(count) {
  for (let index = 0; index < count; index++)
    yield { kind: "rows", rows: [makeRow(index)], reward: index & 1 };
}

const folder = mkdtempSync(join(tmpdir(), "coppice-bench-export-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

if (process.argv[2] === "--memory") {
  const [, , , format, shape] = process.argv;
  await exportRows(rollouts(Math.ceil(MEMORY_TOKENS / ROW_TOKENS)), join(folder, "rows"), { format, shape });
  process.stdout.write(`${Math.round(process.resourceUsage().maxRSS / 1024)}\n`);
  process.exit(0);
}

/** Python in a process of its own, which has the table as lists and as numpy arrays, and writes it when told. */
const PEER = `
import json, sys, time
import numpy as np, pyarrow as pa, pyarrow.ipc as ipc, pyarrow.parquet as pq
source, out = sys.argv[1:]
table = pq.read_table(source); schema = table.schema
lists = table.to_pydict()
big = ("token_ids", "loss_mask", "logprobs")
arrays = {}
for name in big:
    column = table[name].combine_chunks()
    arrays[name] = (column.offsets.to_numpy(), column.values.to_numpy(), column.type)
small = {k: v for k, v in lists.items() if k not in big}
rows = [dict(zip(lists, values)) for values in zip(*lists.values())]
def from_lists(): return pa.Table.from_pydict(lists, schema)
def from_numpy():
    columns = {k: pa.array(v, schema.field(k).type) for k, v in small.items()}
    for k, (o, v, t) in arrays.items(): columns[k] = pa.ListArray.from_arrays(pa.array(o), pa.array(v), type=t)
    return pa.table([columns[f.name] for f in schema], schema=schema)
def parquet(t): pq.write_table(t, out, compression="zstd", use_dictionary=False, write_statistics=False)
def arrow(t):
    with ipc.new_file(out, t.schema) as w: w.write_table(t)
def lines():
    with open(out, "w") as f:
        for r in rows: f.write(json.dumps(r) + "\\n")
todo = {"parquet lists": lambda: parquet(from_lists()), "parquet numpy": lambda: parquet(from_numpy()),
        "arrow lists": lambda: arrow(from_lists()), "arrow numpy": lambda: arrow(from_numpy()), "jsonl lists": lines}
print("ready", pa.__version__, flush=True)
for line in sys.stdin:
    todo[line.strip()]()
    print("done", flush=True)
`;

const kept = [...rollouts(1024)];
const tokens = kept.length * ROW_TOKENS;
const source = join(folder, "source.parquet");
await exportRows(kept, source, { format: "parquet" });
const python = process.env.PYTHON ?? "python3";
const peer = spawn(python, ["-c", PEER, source, join(folder, "peer")], {
  stdio: ["pipe", "pipe", "inherit"],
});
const answers = createInterface({ input: peer.stdout })[Symbol.asyncIterator]();
const ready = await answers.next();
if (ready.done) throw new Error(`${python} has no pyarrow and numpy; set PYTHON`);
const ask = (what) => async () => {
  peer.stdin.write(`${what}\n`);
  await answers.next();
};

const out = join(folder, "out");
const results = await interleave(
  {
    "coppice parquet": () => exportRows(kept, out, { format: "parquet" }),
    "coppice arrow": () => exportRows(kept, out, { format: "arrow" }),
    "coppice jsonl": () => exportRows(kept, out, { format: "jsonl" }),
    "coppice parquet, shape trl": () => exportRows(kept, out, { format: "parquet", shape: "trl" }),
    "pyarrow parquet from lists": ask("parquet lists"),
    "pyarrow parquet from numpy": ask("parquet numpy"),
    "pyarrow arrow from lists": ask("arrow lists"),
    "pyarrow arrow from numpy": ask("arrow numpy"),
    "python json lines": ask("jsonl lists"),
  },
  { rounds: 7, minMs: 1 },
);
peer.stdin.end();

const figures = {
  machine: machine(),
  pyarrow: ready.value.split(" ")[1],
  tokens,
  row_tokens: ROW_TOKENS,
  million_tokens_per_s: {},
  times_faster_than_lists: {},
  bytes_per_token: {},
  peak_rss_mb_10m_tokens: {},
};
for (const [name, result] of Object.entries(results)) {
  show(name, result);
  figures.million_tokens_per_s[name] = round(tokens / result.ms.median / 1000);
}
for (const format of ["parquet", "arrow", "jsonl"]) {
  await exportRows(kept, out, { format });
  figures.bytes_per_token[format] = round(statSync(out).size / tokens);
  const run = spawnSync(process.execPath, [fileURLToPath(import.meta.url), "--memory", format, "rows"], {
    encoding: "utf8",
  });
  figures.peak_rss_mb_10m_tokens[format] = Number(run.stdout);
}

// Round by round, so that the machine's drift cancels: how many times longer pyarrow takes than Coppice.
const times = (name) => results[name].ratio.median;
for (const format of ["parquet", "arrow"]) {
  figures.times_faster_than_lists[format] = round(
    times(`pyarrow ${format} from lists`) / times(`coppice ${format}`),
  );
}
const failed = [
  ...Object.entries(figures.times_faster_than_lists)
    .filter(([, faster]) => !(faster > 1))
    .map(([format]) => `${format} beside lists`),
  ...Object.entries(figures.peak_rss_mb_10m_tokens)
    .filter(([, megabytes]) => !(megabytes > 0 && megabytes < MEMORY_LIMIT_MB))
    .map(([format]) => `memory ${format}`),
];
process.stdout.write(`${JSON.stringify({ bench: "export", ok: failed.length === 0, failed, ...figures })}\n`);
process.exitCode = failed.length === 0 ? 0 : 1;
