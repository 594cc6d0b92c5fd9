// One rollout of a real agent program: the gateway, an engine that keeps to a script, and the agent in a folder of its
// own that is told nothing but a base URL. What was recorded, and what becomes of its rows. Needs DIST in the environment.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const load = (file) => import(pathToFileURL(join(process.env.DIST, file)));
const { startStandIn } = await load("engine/stand-in.js");
const { vllmEngine } = await load("engine/vllm.js");
const { startGateway } = await load("gateway/server.js");
const { openSqliteLedger } = await load("ledger/sqlite-ledger.js");

const AGENT_TIMEOUT_MS = 120_000;

/**
 * Plays, then checks while the service is still there, and closes all of it whatever becomes of the check.
 *
 * @param script the answer to the n-th call, from 1, given the engine's request; null lets the engine sample
 * @param command program, arguments and environment, given the rollout's base URL (without /v1), a home and a folder
 */
export async function play({ name, way, folder, script, command, sampling = null }, check) {
  let began = false;
  let sampled = 0;
  const standIn = await startStandIn({
    template: "chatml",
    script: (request, count) => {
      // What the gateway asks to find out what the engine can do, and renderings and parsings (0), are no answers.
      if (!began || count === 0) return null;
      sampled += 1;
      const answer = script(request, sampled);
      return answer === null ? null : { kind: "answer", answer };
    },
  });
  const engine = vllmEngine({ url: standIn.url, kind: "stand-in" });
  const ledger = await openSqliteLedger(join(folder, `${name}-${way}.db`));
  const gateway = await startGateway({
    engine,
    ledger,
    host: "127.0.0.1",
    port: 0,
    way,
    log: () => undefined,
  });
  const call = async (method, path, body) => {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const answered = await fetch(gateway.url + path, { method, ...sent });
    const text = await answered.text();
    assert.ok(answered.ok, `${method} ${path}: ${answered.status} ${text}`);
    return text;
  };
  try {
    await quiet(standIn);
    began = true;
    if (sampling !== null) await call("PUT", `/rollouts/${name}`, { sampling });
    const output = await runAgent(`${gateway.url}/r/${name}`, join(folder, `${name}-${way}`), command);
    const { calls } = JSON.parse(await call("GET", `/rollouts/${name}`));
    const whole = [];
    for (const { call_id } of calls) whole.push(JSON.parse(await call("GET", `/calls/${call_id}`)));
    const rowsOf = async (accepted) => {
      const ids = accepted.map(({ response_id }) => response_id);
      await call("POST", `/rollouts/${name}/outcome`, { reward: 1, accepted: ids });
      const rows = (await call("GET", `/rollouts/${name}/rows`))
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
      checkRows(rows, accepted);
      return rows;
    };
    return await check({ output, calls: whole, rowsOf });
  } finally {
    await gateway.close();
    await ledger.close();
    await engine.close();
    await standIn.close();
  }
}

/** The gateway finds out by itself what the engine can do, and takes its time. */
async function quiet(standIn) {
  for (let seen = -1; seen !== standIn.requests.length;) {
    seen = standIn.requests.length;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

async function runAgent(base, folder, command) {
  const [home, work] = [`${folder}-home`, `${folder}-work`];
  for (const one of [home, work]) await mkdir(one, { recursive: true });
  await writeFile(join(work, "notes.txt"), "hello from notes\n");
  const { program, args, env = {} } = await command({ base, home, work });
  const child = spawn(program, args, {
    cwd: work,
    env: { PATH: process.env.PATH, HOME: home, PWD: work, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  let out = "";
  child.stdout.on("data", (bytes) => ((out += bytes), (said += bytes)));
  child.stderr.on("data", (bytes) => (said += bytes));
  const timer = setTimeout(() => child.kill("SIGKILL"), AGENT_TIMEOUT_MS);
  const code = await new Promise((resolve) => child.once("close", resolve));
  clearTimeout(timer);
  assert.equal(code, 0, `the agent ended with ${code}: ${said.slice(-4000)}`);
  return out.trim();
}

/** Each trained token of the rows is one that the engine sampled, in the order of the calls, with its log-prob. */
function checkRows(rows, accepted) {
  assert.ok(rows.every((row) => row.type === "row"));
  const trained = (field) => rows.flatMap((row) => row[field].filter((_, at) => row.loss_mask[at] === 1));
  assert.deepEqual(
    trained("token_ids"),
    accepted.flatMap((call) => call.generated_token_ids),
  );
  assert.deepEqual(
    trained("logprobs"),
    accepted.flatMap((call) => call.generated_logprobs),
  );
}

export function figuresOf(calls, rows) {
  return {
    calls: calls.length,
    trees: calls.filter((call) => call.parent_call_id === null).length,
    drifts: calls.filter((call) => call.drift !== null).length,
    rows: rows.length,
    trained_tokens: rows.reduce((sum, row) => sum + row.row_trainable_tokens, 0),
  };
}
