// See run.sh. Starts everything, kills, and then holds the ledger and what the consumers wrote to the promises.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { startStandIn } from "../../src/engine/stand-in.ts";
import { startPostgres } from "../../src/ledger/testing/postgres-server.ts";
import { Agents, GROUP_SIZE } from "./agents.mjs";

const dist = process.argv[2];
const seconds = Number(process.env.COPPICE_CHAOS_SECONDS ?? 40);
const seed = Number(process.env.COPPICE_CHAOS_SEED ?? Math.floor(Math.random() * 2 ** 31));
const IN_FLIGHT = 200;
const KILL_EVERY_MS = 2000;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const log = (text) => process.stderr.write(`chaos: ${text}\n`);

let state = seed;
function random(below) {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** A process that is started again whenever it ends, until `stop`. */
class Kept {
  kills = 0;
  #args;
  #env;
  #child = null;
  #isOver = false;

  constructor(name, args, env = {}) {
    this.name = name;
    this.#args = args;
    this.#env = { ...process.env, ...env };
    this.#start();
  }

  #start() {
    const child = spawn(process.execPath, this.#args, {
      env: this.#env,
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.#child = child;
    child.stderr.on("data", (bytes) => {
      if (process.env.COPPICE_CHAOS_LOG) process.stderr.write(`${this.name}: ${bytes}`);
    });
    child.on("exit", () => {
      if (!this.#isOver) setTimeout(() => this.#isOver || this.#start(), 300);
    });
  }

  kill() {
    this.kills += 1;
    this.#child.kill("SIGKILL");
  }

  async stop() {
    this.#isOver = true;
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    const hard = setTimeout(() => this.#child.kill("SIGKILL"), 10_000);
    await ended;
    clearTimeout(hard);
  }
}

const began = performance.now();
const folder = mkdtempSync(join(tmpdir(), "coppice-chaos-"));
const database = await startPostgres(true);
const url = `${database.url}/postgres`;
const engine = await startStandIn({ delayMs: 4 });
const ports = [await freePort(), await freePort(), await freePort()];
const gateways = ports.map((port) => `http://127.0.0.1:${port}`);
const kept = ports.map(
  (port, index) =>
    new Kept(
      `gateway ${index}`,
      [join(dist, "cli/main.js"), "serve", "--engine", engine.url, "--port", port],
      {
        COPPICE_LEDGER: url,
      },
    ),
);
const files = [0, 1].map((index) => join(folder, `consumer${index}.jsonl`));
const consumer = fileURLToPath(new URL("consumer.mjs", import.meta.url));
for (const [index, file] of files.entries())
  kept.push(new Kept(`consumer ${index}`, [consumer, file, ...gateways]));

async function query(sql) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

async function cause() {
  let restarted = false;
  const start = performance.now();
  while (performance.now() - start < seconds * 1000) {
    await pause(KILL_EVERY_MS);
    kept[random(kept.length)].kill();
    if (!restarted && performance.now() - start > (seconds * 1000) / 2) {
      restarted = true;
      log("the database is restarted");
      await database.stop({ keep: true });
      await database.start();
    }
  }
}

/** Waits until it is so, in bounds. */
async function until(what, isSo, withinMs) {
  const end = performance.now() + withinMs;
  while (!(await isSo())) {
    if (performance.now() > end) return void log(`in ${withinMs} ms it did not come to be that ${what}`);
    await pause(250);
  }
}

const failures = [];
function hold(what, isSo, detail = "") {
  if (!isSo) failures.push(`${what}${detail === "" ? "" : `: ${detail}`}`);
}

try {
  await until(
    "all gateways answer",
    async () => {
      const answers = await Promise.all(
        gateways.map((gateway) =>
          fetch(`${gateway}/readyz`).then(
            (answer) => answer.ok,
            () => false,
          ),
        ),
      );
      return answers.every(Boolean);
    },
    20_000,
  );
  log(`seed ${seed}; ${IN_FLIGHT} rollouts in flight for ${seconds} s`);
  const agents = new Agents(gateways);
  const running = agents.run(IN_FLIGHT, seconds * 1000);
  await Promise.all([running, cause()]);
  log(`${agents.finished} rollouts are over; waiting for the consumers and for what the dead left in flight`);
  await until(
    "every group is acknowledged",
    async () => {
      const [{ count }] = await query(
        "SELECT count(*)::int AS count FROM coppice_claim WHERE state = 'acknowledged'",
      );
      return count >= agents.groups;
    },
    30_000,
  );
  await until(
    "nothing is in flight",
    async () => {
      const [{ count }] = await query(
        "SELECT count(*)::int AS count FROM coppice_in_flight f JOIN coppice_attempt a USING (attempt_key) WHERE a.state = 'open'",
      );
      return count === 0;
    },
    40_000,
  );

  const rollouts = await query("SELECT * FROM coppice_attempt");
  const claims = await query("SELECT * FROM coppice_claim");
  const written = files
    .filter((file) => existsSync(file))
    .flatMap((file) =>
      readFileSync(file, "utf8")
        .split("\n")
        .slice(0, -1)
        .map((line) => JSON.parse(line)),
    );
  const delivered = written.filter((record) => record.calls !== undefined);
  const acknowledged = claims.filter((claim) => claim.state === "acknowledged");
  const byClaim = new Map(delivered.map((record) => [record.claim, record]));

  hold(
    "no request was refused that should not be",
    agents.wrong.length === 0,
    agents.wrong.slice(0, 3).join(" | "),
  );
  hold("every rollout is there", rollouts.length === agents.groups * GROUP_SIZE, `${rollouts.length}`);
  const groups = new Set(acknowledged.map((claim) => claim.group_id));
  hold("every group was acknowledged", groups.size === agents.groups, `${groups.size} of ${agents.groups}`);
  hold("none was acknowledged twice", acknowledged.length === groups.size, `${acknowledged.length}`);
  for (const claim of acknowledged) {
    hold("an acknowledged claim was delivered", byClaim.get(claim.claim_id)?.marked === true, claim.group_id);
  }
  for (const record of delivered)
    hold("no rollout was refused", record.failures.length === 0, record.failures.join());
  // Every answer that came whole stands once in what was delivered under the acknowledged claim of its group.
  const times = new Map();
  for (const claim of acknowledged) {
    for (const call of byClaim.get(claim.claim_id)?.calls ?? []) times.set(call, (times.get(call) ?? 0) + 1);
  }
  const lost = [...agents.answered.keys()].filter((call) => times.get(call) !== 1);
  hold(
    "every answered call was delivered once",
    lost.length === 0,
    `${lost.length} were not, e.g. ${lost[0]}`,
  );
  hold(
    "nothing else was delivered",
    times.size === agents.answered.size,
    `${times.size} for ${agents.answered.size}`,
  );
  const total = (name) => rollouts.reduce((sum, row) => sum + Number(row[name]), 0);
  const counts = Object.fromEntries(
    ["admitted", "committed", "failed", "aborted", "unknown", "late"].map((name) => [name, total(name)]),
  );
  for (const row of rollouts) {
    const settled = ["committed", "failed", "aborted", "unknown"].reduce(
      (sum, name) => sum + Number(row[name]),
      0,
    );
    hold("a rollout's counts add up", settled === Number(row.admitted), row.rollout_id);
    hold("a published rollout is swept", row.state === "swept" && row.published_at !== null, row.rollout_id);
  }
  hold("every answered call was committed", counts.committed >= agents.answered.size);

  for (const failure of failures.slice(0, 20)) log(`FAILED ${failure}`);
  process.stdout.write(
    `${JSON.stringify({
      chaos: failures.length === 0 ? "ok" : "failed",
      seed,
      seconds: Math.round((performance.now() - began) / 1000),
      gateway_kills: kept.slice(0, 3).reduce((sum, one) => sum + one.kills, 0),
      consumer_kills: kept.slice(3).reduce((sum, one) => sum + one.kills, 0),
      database_restarts: 1,
      rollouts: rollouts.length,
      groups: agents.groups,
      answered_calls: agents.answered.size,
      requests: agents.asked,
      asked_again: agents.askedAgain,
      ...counts,
      deliveries: delivered.length,
      delivered_again: delivered.length - new Set(delivered.map((record) => record.group)).size,
      acknowledged: acknowledged.length,
      failures: failures.length,
    })}\n`,
  );
} finally {
  await Promise.all(kept.map((one) => one.stop()));
  await engine.close();
  await database.stop();
  rmSync(folder, { recursive: true, force: true });
}
process.exit(failures.length === 0 ? 0 : 1);
