// Commits a second through 1, 2 and 3 processes on one PostgreSQL (from npm, with syncs, on this machine), a call's admission
// and settling beside SQLite's, and bytes a call: tables, indexes and write-ahead log. After a build:
//   node --import ./test/typescript/register.mjs bench/postgres.mjs
// Ends with one JSON line.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { openLedger } from "../dist/ledger/open-ledger.js";
import { recordCall, RolloutIndex } from "../dist/lineage/record-call.js";
import { machine, round, spread } from "./measure.mjs";

const RUN_MS = 2000;
const ROUNDS = 2;
/** Calls of a rollout. */
const CALLS = 20;

function captured(rolloutId, callId, { admittedOrder, attempt }) {
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
    promptTokenIds: new Uint32Array(1024).fill(7),
    generatedTokenIds: new Uint32Array(64).fill(8),
    generatedLogprobs: new Float32Array(64).fill(-0.5),
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

let unique = 0;
/** Milliseconds of one call's admission and settling. */
async function oneCall(ledger, rollout) {
  const id = `${process.pid}-${unique++}`;
  const start = performance.now();
  const [admitted] = await ledger.admit([
    {
      rolloutId: rollout,
      callId: `c${id}`,
      responseId: `resp-c${id}`,
      admittedAt: Date.now(),
      agent: null,
      class: null,
    },
  ]);
  const call = captured(rollout, `c${id}`, admitted);
  await ledger.settle(recordCall(call, new RolloutIndex().place(call), null));
  return performance.now() - start;
}

async function load(ledger, concurrency, milliseconds) {
  const start = performance.now();
  const times = [];
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      for (let own = 0, rollout = ""; performance.now() - start < milliseconds; own++) {
        if (own % CALLS === 0) rollout = `b${process.pid}-${unique}`;
        times.push(await oneCall(ledger, rollout));
      }
    }),
  );
  const perSecond = times.length / ((performance.now() - start) / 1000);
  return { perSecond, calls: times.length, ms: spread(times) };
}

if (process.argv[2] === "child") {
  const ledger = await openLedger(process.env.COPPICE_LEDGER);
  process.stdout.write("ready\n");
  await once(process.stdin, "data");
  const { perSecond, calls } = await load(ledger, Number(process.argv[3]), RUN_MS);
  process.stdout.write(`${JSON.stringify({ perSecond, calls })}\n`);
  await ledger.close();
  process.exit(0);
}

const { startPostgres } = await import("../src/ledger/testing/postgres-server.ts");
const server = await startPostgres(true);
const url = `${server.url}/postgres`;
const folder = mkdtempSync(join(tmpdir(), "coppice-bench-"));
const client = new pg.Client({ connectionString: url });
client.on("error", (error) => console.error(error.message));
await client.connect();
const ask = async (sql) => (await client.query(sql)).rows[0];

async function throughProcesses(count, concurrency) {
  const children = Array.from({ length: count }, () =>
    spawn(process.execPath, [fileURLToPath(import.meta.url), "child", String(concurrency)], {
      env: { ...process.env, COPPICE_LEDGER: url },
      stdio: ["pipe", "pipe", "inherit"],
    }),
  );
  const ended = children.map((child) => once(child, "exit"));
  await Promise.all(children.map((child) => once(child.stdout, "data")));
  const results = children.map((child) => once(child.stdout, "data"));
  for (const child of children) child.stdin.write("go\n");
  const { connections } = await new Promise((resolve) => setTimeout(resolve, RUN_MS / 2)).then(() =>
    ask("SELECT count(*)::int AS connections FROM pg_stat_activity WHERE application_name = 'coppice'"),
  );
  const told = (await Promise.all(results)).map(([bytes]) => JSON.parse(bytes));
  await Promise.all(ended);
  return { perSecond: told.reduce((sum, one) => sum + one.perSecond, 0), connections };
}

try {
  const postgres = await openLedger(url);
  const sqlite = await openLedger(join(folder, "ledger.db"));
  await load(postgres, 8, 500);
  await load(sqlite, 8, 500);
  const alone = { postgres: [], sqlite: [] };
  const together = { postgres: [], sqlite: [] };
  for (let turn = 0; turn < ROUNDS; turn++) {
    for (const [name, ledger] of Object.entries({ postgres, sqlite })) {
      alone[name].push((await load(ledger, 1, 800)).ms.median);
      together[name].push((await load(ledger, 64, 1500)).perSecond);
    }
  }
  await sqlite.close();
  await client.query("CHECKPOINT");
  const before = await ask(
    "SELECT pg_current_wal_lsn() AS lsn, pg_total_relation_size('coppice_call') AS size, pg_relation_size('coppice_call') + coalesce(pg_relation_size((SELECT reltoastrelid FROM pg_class WHERE relname='coppice_call')), 0) AS heap",
  );
  const { calls } = await load(postgres, 64, 3000);
  const after = await ask(
    `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '${before.lsn}') AS wal, pg_total_relation_size('coppice_call') AS size, pg_relation_size('coppice_call') + coalesce(pg_relation_size((SELECT reltoastrelid FROM pg_class WHERE relname='coppice_call')), 0) AS heap`,
  );
  await postgres.close();
  const byGateways = {};
  for (const count of [1, 2, 3]) {
    const rounds = [];
    let connections = 0;
    for (let turn = 0; turn < ROUNDS; turn++) {
      const one = await throughProcesses(count, 64);
      rounds.push(one.perSecond);
      connections = Math.max(connections, one.connections);
    }
    const { median, min, max } = spread(rounds);
    byGateways[count] = { commits_per_second: round(median), min: round(min), max: round(max), connections };
    console.error(`${count} gateways: ${round(median)} calls a second (${round(min)} to ${round(max)})`);
  }
  const median = (values) => round(spread(values).median);
  console.log(
    JSON.stringify({
      bench: "postgres",
      machine: machine(),
      call: "1024 carried and 64 generated tokens, admission and settling, both synced by PostgreSQL",
      by_gateways: byGateways,
      alone_ms: { postgres: median(alone.postgres), sqlite: median(alone.sqlite) },
      at_64_per_second: { postgres: median(together.postgres), sqlite: median(together.sqlite) },
      bytes_per_call: {
        tokens: 1024 * 4 + 64 * 8,
        table: Math.round((after.heap - before.heap) / calls),
        table_and_indexes: Math.round((after.size - before.size) / calls),
        wal: Math.round(after.wal / calls),
      },
    }),
  );
} finally {
  await client.end();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);
