// Lets pi work through the gateway and checks what was recorded. Called by run.sh, which sets DIST and PI; the argument
// is a folder that may be filled.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { DIST, PI } = process.env;
const folder = process.argv[2];
const load = (file) => import(pathToFileURL(join(DIST, file)));
const { startStandIn } = await load("engine/stand-in.js");
const { vllmEngine } = await load("engine/vllm.js");
const { startGateway } = await load("gateway/server.js");
const { openSqliteLedger } = await load("ledger/sqlite-ledger.js");

const PI_TIMEOUT_MS = 90_000;

/** What the engine says in a task of two tools: look, count, tell. */
const TWO_TOOLS = [
  { content: "Let me look.", toolCalls: [{ name: "read", arguments: '{"path":  "notes.txt"}' }] },
  { content: "Now I count.", toolCalls: [{ name: "bash", arguments: '{ "command": "wc -w < notes.txt" }' }] },
  { content: "The notes have three words." },
];

/** One rollout: pi in an empty home and a folder with one file, the gateway, and an engine that keeps to a script. */
async function play({ name, way, script, settings, model, prompts }) {
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
  const ledger = await openSqliteLedger(join(folder, `${name}.db`));
  const gateway = await startGateway({
    engine,
    ledger,
    host: "127.0.0.1",
    port: 0,
    way,
    log: () => undefined,
  });
  const call = async (method, path, body) => {
    const answered = await fetch(gateway.url + path, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    assert.ok(answered.ok, `${method} ${path}: ${answered.status}`);
    return answered;
  };
  try {
    await quiet(standIn);
    began = true;
    const output = await runPi({ name, settings, model, prompts, url: `${gateway.url}/r/${name}/v1` });
    const { calls } = await (await call("GET", `/rollouts/${name}`)).json();
    const tokens = await Promise.all(
      calls.map(async ({ call_id }) => (await call("GET", `/calls/${call_id}`)).json()),
    );
    const seal = async (outcome) => {
      await call("POST", `/rollouts/${name}/outcome`, outcome);
      const text = await (await call("GET", `/rollouts/${name}/rows`)).text();
      return text
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
    };
    return {
      output,
      calls,
      tokens,
      asked: standIn.requests,
      rows: (accepted) => seal({ reward: 1, accepted }),
    };
  } finally {
    // The rows are read by the caller before the service goes.
    play.close = async () => {
      await gateway.close();
      await ledger.close();
      await engine.close();
      await standIn.close();
    };
  }
}

/** The gateway finds out by itself what the engine can do, and takes its time. */
async function quiet(standIn) {
  for (let seen = -1; seen !== standIn.requests.length;) {
    seen = standIn.requests.length;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

async function runPi({ name, settings, model, prompts, url }) {
  const home = join(folder, `${name}-home`);
  const work = join(folder, `${name}-work`);
  await mkdir(home, { recursive: true });
  await mkdir(work, { recursive: true });
  await writeFile(join(work, "notes.txt"), "hello from notes\n");
  const provider = {
    baseUrl: url,
    api: "openai-completions",
    apiKey: "dummy",
    models: [{ id: "policy", name: "policy", reasoning: false, input: ["text"], maxTokens: 4096, ...model }],
  };
  await writeFile(join(home, "models.json"), JSON.stringify({ providers: { coppice: provider } }));
  await writeFile(join(home, "settings.json"), JSON.stringify(settings));
  const args = [PI, "--provider", "coppice", "--model", "policy", "--no-context-files", "-p", ...prompts];
  const child = spawn(process.execPath, args, {
    cwd: work,
    env: { PATH: process.env.PATH, HOME: home, PI_CODING_AGENT_DIR: home, PI_OFFLINE: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const said = { out: "", err: "" };
  child.stdout.on("data", (bytes) => (said.out += bytes));
  child.stderr.on("data", (bytes) => (said.err += bytes));
  const timer = setTimeout(() => child.kill("SIGKILL"), PI_TIMEOUT_MS);
  const code = await new Promise((resolve) => child.once("close", resolve));
  clearTimeout(timer);
  assert.equal(code, 0, `pi ended with ${code}: ${said.err}${said.out}`);
  return said.out.trim();
}

const responseIds = (calls) => calls.map(({ response_id }) => response_id);
const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);

/** Each trained token of the rows is one that the engine sampled, in the order of the calls, with its log-prob. */
function checkRows(rows, kept) {
  assert.ok(rows.every((row) => row.type === "row"));
  const trained = rows.flatMap((row) => row.token_ids.filter((_, at) => row.loss_mask[at] === 1));
  const logprobs = rows.flatMap((row) => row.logprobs.filter((_, at) => row.loss_mask[at] === 1));
  assert.deepEqual(
    trained,
    kept.flatMap((call) => call.generated_token_ids),
  );
  assert.deepEqual(
    logprobs,
    kept.flatMap((call) => call.generated_logprobs),
  );
}

async function twoTools(way) {
  const run = await play({
    name: `two-tools-${way}`,
    way,
    script: (_request, count) => TWO_TOOLS[count - 1] ?? null,
    settings: {},
    model: { contextWindow: 32_768 },
    prompts: ["Count the words in notes.txt."],
  });
  try {
    assert.equal(run.output, "The notes have three words.");
    assert.equal(run.calls.length, 3);
    assert.ok(run.calls.every((call) => call.status === "committed" && call.untrainable === null));
    assert.equal(run.calls[0].parent_call_id, null);
    const accepted = responseIds(run.calls);
    const trees = run.calls.filter((call) => call.parent_call_id === null).length;
    const rows = await run.rows(accepted);
    checkRows(rows, run.tokens);
    assert.equal(rows.length, trees);
    return {
      trees,
      calls: run.calls.length,
      drifts: run.calls.filter((call) => call.drift !== null).length,
      rows: rows.length,
      trained_tokens: sum(rows.map((row) => row.row_trainable_tokens)),
    };
  } finally {
    await play.close();
  }
}

/** A context that is full after the first task: pi asks for a summary by a side call, and goes on from it. */
async function compaction() {
  const isSummary = (request) => !Array.isArray(request.body?.tools) || request.body.tools.length === 0;
  let turns = 0;
  const run = await play({
    name: "compaction",
    way: "text",
    script: (request) => {
      if (isSummary(request)) return { content: "## Goal\nCount words. ## Done\nThree words." };
      turns += 1;
      return TWO_TOOLS[turns - 1] ?? { content: "Done as asked." };
    },
    settings: { compaction: { enabled: true, reserveTokens: 1_000, keepRecentTokens: 1 } },
    model: { contextWindow: 6_400 },
    prompts: ["Count the words in notes.txt.", "And say it once more."],
  });
  try {
    const roots = run.calls.filter((call) => call.parent_call_id === null);
    const summaries = run.tokens.filter((call) => call.messages?.[0]?.content?.includes?.("summar"));
    assert.ok(summaries.length > 0, "pi asked for no summary");
    const kept = run.tokens.filter((call) => !summaries.includes(call));
    assert.deepEqual(
      kept.map((call) => call.answer.content),
      [...TWO_TOOLS.map((answer) => answer.content), "Done as asked."],
    );
    // What stands before the first call after the summary was no call's: a root that says why.
    assert.equal(kept.at(-1).root_reason, "rewrite");
    const rows = await run.rows(responseIds(kept));
    checkRows(rows, kept);
    const inRows = rows.flatMap((row) => row.call_ids);
    assert.ok(
      summaries.every((call) => !inRows.includes(call.call_id)),
      "a summary stands in a row",
    );
    return {
      calls: run.calls.length,
      trees: roots.length,
      root_reasons: roots.map((call) => call.root_reason),
      summaries: summaries.length,
      rows: rows.length,
    };
  } finally {
    await play.close();
  }
}

const figures = { agent: "pi 0.73.1" };
figures.text = await twoTools("text");
figures.token_in = await twoTools("auto");
figures.compaction = await compaction();
process.stdout.write(`${JSON.stringify(figures)}\n`);
