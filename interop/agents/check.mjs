// Lets one agent, or one SDK's agent loop, do a task of two tool calls through the gateway, in the text way and token-in,
// and checks what was recorded. Called by run.sh: check.mjs AGENT FOLDER, where it was installed in INSTALLED.
import assert from "node:assert/strict";
import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { figuresOf, play } from "./play.mjs";

const [agent, folder] = process.argv.slice(2);
const { INSTALLED } = process.env;
const LAST = "The notes have three words.";

const shell = (name, given) => ({ name, arguments: JSON.stringify(given, null, 1) });
const twoTools = (first, second) => [
  { content: "Let me look.", toolCalls: [first] },
  { content: "Now I count.", toolCalls: [second] },
  { content: LAST },
];

const python = (kind) => ({
  answers: twoTools(shell("count", { path: "notes.txt" }), shell("count", { path: "./notes.txt" })),
  command: ({ base }) => ({
    program: join(INSTALLED, "bin/python"),
    args: [new URL("./two_tools.py", import.meta.url).pathname, kind, base],
  }),
});

/** `drifts`: what the agent sends back is other tokens in the text way. `side`: calls beside the main chain. */
const AGENTS = {
  codex: {
    drifts: 0,
    answers: twoTools(
      shell("exec_command", { cmd: "cat notes.txt" }),
      shell("exec_command", { cmd: "wc -w < notes.txt" }),
    ),
    command: async ({ base, home }) => {
      await mkdir(join(home, ".codex"), { recursive: true });
      const provider = `[model_providers.coppice]\nname = "coppice"\nbase_url = "${base}/v1"\nenv_key = "COPPICE_KEY"\nwire_api = "responses"\n`;
      await writeFile(
        join(home, ".codex/config.toml"),
        `model = "policy"\nmodel_provider = "coppice"\n\n${provider}`,
      );
      return {
        program: join(
          INSTALLED,
          "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        ),
        args: [
          "exec",
          "--skip-git-repo-check",
          "--dangerously-bypass-approvals-and-sandbox",
          "Count the words in notes.txt.",
        ],
        env: { COPPICE_KEY: "dummy" },
      };
    },
    checkCall: (call) => assert.equal(call.class, "main"),
  },
  opencode: {
    drifts: 2,
    side: (call) => call.messages?.[0]?.content.includes("title generator"),
    answers: [
      { content: "Words in notes" },
      ...twoTools(
        shell("read", { filePath: "notes.txt" }),
        shell("bash", { command: "wc -w < notes.txt", description: "count" }),
      ),
    ],
    command: async ({ base, home, work }) => {
      await appendFile(join(home, ".gitconfig"), "[user]\nname = a\nemail = a@b.c\n");
      const models = { policy: { limit: { context: 131_072, output: 4096 } } };
      const options = { baseURL: `${base}/v1`, apiKey: "dummy" };
      const provider = { coppice: { npm: "@ai-sdk/openai-compatible", options, models } };
      return {
        program: join(INSTALLED, "node_modules/opencode-linux-x64/bin/opencode"),
        args: ["run", "Count the words in notes.txt."],
        env: {
          OPENCODE_CONFIG_CONTENT: JSON.stringify({ model: "coppice/policy", provider }),
          OPENCODE_DISABLE_MODELS_FETCH: "1",
          OPENCODE_DISABLE_AUTOUPDATE: "1",
          GIT_CEILING_DIRECTORIES: work,
        },
      };
    },
    checkCall: (call) => assert.match(call.agent, /^ses_/),
  },
  "mini-swe-agent": {
    drifts: 0,
    last: "",
    answers: twoTools(
      shell("bash", { command: "cat notes.txt" }),
      shell("bash", { command: "wc -w < notes.txt" }),
    ).with(2, {
      content: LAST,
      toolCalls: [shell("bash", { command: "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT" })],
    }),
    command: ({ base, work }) => ({
      program: join(INSTALLED, "bin/mini"),
      args: [
        "--model",
        "openai/policy",
        "--task",
        "Count the words in notes.txt.",
        "--yolo",
        "--exit-immediately",
        "-o",
        join(work, "trajectory.json"),
      ],
      env: {
        OPENAI_API_BASE: `${base}/v1`,
        OPENAI_API_KEY: "dummy",
        MSWEA_COST_TRACKING: "ignore_errors",
        MSWEA_CONFIGURED: "true",
      },
    }),
  },
  "openai-agents": { drifts: 0, ...python("openai-agents") },
  langgraph: { drifts: 2, ...python("langgraph") },
  "langgraph-responses": { drifts: 0, ...python("langgraph-responses") },
  openai: { drifts: 0, ...python("openai") },
  anthropic: { drifts: 2, ...python("anthropic") },
};

const asked = AGENTS[agent];
const figures = { agent };
for (const way of ["text", "auto"]) {
  // Agents that set no limit of their own get one: the stand-in's is 16 tokens.
  const rollout = { name: agent, way, folder, sampling: { max_tokens: 500 }, command: asked.command };
  const script = (_request, count) => asked.answers[count - 1] ?? null;
  figures[way] = await play({ ...rollout, script }, async ({ output, calls, rowsOf }) => {
    assert.ok(output.includes(asked.last ?? LAST), output);
    const kept = calls.filter((call) => asked.side?.(call) !== true);
    assert.equal(calls.length, asked.answers.length);
    assert.equal(kept.length, 3);
    for (const call of kept) {
      assert.deepEqual([call.status, call.untrainable], ["committed", null]);
      asked.checkCall?.(call);
    }
    const told = figuresOf(kept, await rowsOf(kept));
    assert.equal(told.drifts, way === "text" ? asked.drifts : 0);
    assert.equal(told.trees, told.drifts + 1);
    return { ...told, side_calls: calls.length - kept.length };
  });
}
process.stdout.write(`${JSON.stringify(figures)}\n`);
