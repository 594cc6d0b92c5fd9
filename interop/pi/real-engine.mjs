// Lets pi work through the gateway on a real small model and checks what was recorded: every call complete, one forest
// whose trees are told apart, rows for what was kept, and records that verify. What so small a model says is its own affair:
// it seldom calls a tool. Called by real-engine.sh: URL of the engine, a folder that may be filled.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const { DIST, PI } = process.env;
const [engineUrl, folder] = process.argv.slice(2);
const { connectEngine } = await import(`${DIST}/engine/connect.js`);
const { startGateway } = await import(`${DIST}/gateway/server.js`);
const { openSqliteLedger } = await import(`${DIST}/ledger/sqlite-ledger.js`);
const { checkRecords } = await import(`${DIST}/rows/check-records.js`);

const engine = await connectEngine({ url: engineUrl });
const ledger = await openSqliteLedger(join(folder, "pi.db"));
const gateway = await startGateway({
  engine,
  ledger,
  host: "127.0.0.1",
  port: 0,
  way: "auto",
  log: () => undefined,
});

async function pi(rollout, prompts) {
  const home = join(folder, rollout);
  await mkdir(home, { recursive: true });
  await writeFile(join(home, "notes.txt"), "three small words\n");
  const model = {
    id: "policy",
    name: "policy",
    reasoning: false,
    input: ["text"],
    maxTokens: 32,
    contextWindow: 8192,
  };
  const baseUrl = `${gateway.url}/r/${rollout}/v1`;
  const provider = { baseUrl, api: "openai-completions", apiKey: "dummy", models: [model] };
  await writeFile(join(home, "models.json"), JSON.stringify({ providers: { coppice: provider } }));
  await writeFile(join(home, "settings.json"), "{}");
  const child = spawn(
    process.execPath,
    [PI, "--provider", "coppice", "--model", "policy", "--no-context-files", "-p", ...prompts],
    {
      cwd: home,
      env: { ...process.env, PI_CODING_AGENT_DIR: home, PI_OFFLINE: "1" },
      stdio: ["ignore", "pipe", 2],
    },
  );
  let output = "";
  child.stdout.on("data", (part) => (output += part));
  const code = await new Promise((resolve) => child.once("exit", resolve));
  assert.equal(code, 0, `pi ended with ${code}: ${output}`);
  return output.trim();
}

async function json(path, body) {
  const response = await fetch(`${gateway.url}${path}`, {
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    headers: { "content-type": "application/json" },
  });
  assert.equal(response.status, 200, `${path}: ${response.status}`);
  return path.endsWith("/rows")
    ? (await response.text())
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
    : response.json();
}

try {
  const output = await pi("pi", ["Count the words in notes.txt."]);
  const { calls } = await json("/rollouts/pi");
  // llama.cpp tells no log-prob inside a character of several bytes: such a call may be context, never trained.
  const kept = calls.filter((call) => call.untrainable === null);
  const accepted = kept.map((call) => call.response_id);
  await json("/rollouts/pi/outcome", { reward: 1, accepted });
  const rows = await json("/rollouts/pi/rows");
  const records = await ledger.calls({ rolloutId: "pi", attempt: null });
  assert.equal(checkRecords(records), null);
  assert.ok(calls.length >= 1, "pi asked");
  assert.ok(calls.every((call) => call.status === "committed"));
  assert.ok(
    rows.every((row) => row.type === "row"),
    JSON.stringify(rows.map(({ reason, detail }) => ({ reason, detail }))),
  );
  const trained = rows.flatMap((row) => row.spans.filter((span) => span.trained).map((span) => span.call_id));
  assert.deepEqual(
    trained.toSorted((one, other) => one.localeCompare(other)),
    kept.map((call) => call.call_id).toSorted((one, other) => one.localeCompare(other)),
    "each kept call trains once",
  );
  const figures = {
    agent: "pi 0.73.1",
    engine: engine.kind,
    model: "SmolLM2-135M-Instruct",
    calls: calls.length,
    untrainable: calls.length - kept.length,
    ways: [...new Set(calls.map((call) => call.way))],
    trees: calls.filter((call) => call.parent_call_id === null).length,
    drifts: calls.filter((call) => call.root_reason === "drift").length,
    rows: rows.length,
    trained_tokens: rows.reduce((sum, row) => sum + row.row_trainable_tokens, 0),
    answered_with: output.slice(0, 60),
  };
  process.stdout.write(`${JSON.stringify(figures)}\n`);
} finally {
  await gateway.close();
  await engine.close();
  await ledger.close();
}
