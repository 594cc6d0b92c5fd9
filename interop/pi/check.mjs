// Lets pi work through the gateway and checks what was recorded. Called by run.sh, which sets DIST and PI; the argument
// is a folder that may be filled.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { figuresOf, play } from "../agents/play.mjs";

const { PI } = process.env;
const folder = process.argv[2];

/** What the engine says in a task of two tools: look, count, tell. */
const TWO_TOOLS = [
  { content: "Let me look.", toolCalls: [{ name: "read", arguments: '{"path":  "notes.txt"}' }] },
  { content: "Now I count.", toolCalls: [{ name: "bash", arguments: '{ "command": "wc -w < notes.txt" }' }] },
  { content: "The notes have three words." },
];

/** pi with nothing but a file that names the base URL. */
function pi({ contextWindow, settings = {}, prompts }) {
  return async ({ base, home }) => {
    const model = {
      id: "policy",
      name: "policy",
      reasoning: false,
      input: ["text"],
      maxTokens: 4096,
      contextWindow,
    };
    const provider = { baseUrl: `${base}/v1`, api: "openai-completions", apiKey: "dummy", models: [model] };
    await writeFile(join(home, "models.json"), JSON.stringify({ providers: { coppice: provider } }));
    await writeFile(join(home, "settings.json"), JSON.stringify(settings));
    return {
      program: process.execPath,
      args: [PI, "--provider", "coppice", "--model", "policy", "--no-context-files", "-p", ...prompts],
      env: { PI_CODING_AGENT_DIR: home, PI_OFFLINE: "1" },
    };
  };
}

function twoTools(way) {
  const rollout = {
    name: "two-tools",
    way,
    folder,
    script: (_request, count) => TWO_TOOLS[count - 1] ?? null,
    command: pi({ contextWindow: 32_768, prompts: ["Count the words in notes.txt."] }),
  };
  return play(rollout, async ({ output, calls, rowsOf }) => {
    assert.equal(output, "The notes have three words.");
    assert.equal(calls.length, 3);
    assert.ok(calls.every((call) => call.status === "committed" && call.untrainable === null));
    const figures = figuresOf(calls, await rowsOf(calls));
    // pi writes arguments anew: other tokens in the text way.
    assert.equal(figures.trees, way === "text" ? 3 : 1);
    assert.equal(figures.rows, figures.trees);
    return figures;
  });
}

/** A context that is full after the first task: pi asks for summaries by side calls, and goes on from them. */
function compaction() {
  let turns = 0;
  const rollout = {
    name: "compaction",
    way: "text",
    folder,
    script: (request) => {
      if (!Array.isArray(request.body?.tools))
        return { content: "## Goal\nCount words. ## Done\nThree words." };
      turns += 1;
      return TWO_TOOLS[turns - 1] ?? { content: "Done as asked." };
    },
    command: pi({
      contextWindow: 6_400,
      settings: { compaction: { enabled: true, reserveTokens: 1_000, keepRecentTokens: 1 } },
      prompts: ["Count the words in notes.txt.", "And say it once more."],
    }),
  };
  return play(rollout, async ({ calls, rowsOf }) => {
    const summaries = calls.filter((call) => call.messages?.[0]?.content?.includes?.("summar"));
    assert.ok(summaries.length > 0, "pi asked for no summary");
    const kept = calls.filter((call) => !summaries.includes(call));
    assert.deepEqual(
      kept.map((call) => call.answer.content),
      [...TWO_TOOLS.map((answer) => answer.content), "Done as asked."],
    );
    // What stands before the first call after the summary was no call's: a root that says why.
    assert.equal(kept.at(-1).root_reason, "rewrite");
    const rows = await rowsOf(kept);
    const inRows = rows.flatMap((row) => row.call_ids);
    assert.ok(
      summaries.every((call) => !inRows.includes(call.call_id)),
      "a summary stands in a row",
    );
    return { ...figuresOf(calls, rows), summaries: summaries.length };
  });
}

const figures = { agent: "pi 0.73.1" };
figures.text = await twoTools("text");
figures.token_in = await twoTools("auto");
figures.compaction = await compaction();
process.stdout.write(`${JSON.stringify(figures)}\n`);
