import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { startUnderTest, type Json, type UnderTest } from "../gateway/testing/gateway-under-test.ts";
import { runCommand } from "./run.ts";

let folder: string;
let stderr: string[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "coppice-run-test-"));
  stderr = [];
  vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    stderr.push(String(text));
    return true;
  });
});

afterEach(async () => {
  vi.restoreAllMocks();
  process.exitCode = undefined;
  await rm(folder, { recursive: true });
});

/** An agent that knows the variables and nothing else: `answers` has what it was told. */
const AGENT = `
import { writeFileSync } from "node:fs";
const answers = [];
async function ask(messages) {
  const response = await fetch(process.env.OPENAI_BASE_URL + "/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer " + process.env.OPENAI_API_KEY },
    body: JSON.stringify({ model: process.env.OPENAI_MODEL, max_tokens: 3, messages }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(JSON.stringify(answer));
  answers.push(answer);
  return answer.choices[0].message;
}
const user = (content) => ({ role: "user", content });
const say = (file, value) => writeFileSync(file, typeof value === "string" ? value : JSON.stringify(value));
const first = [user("t1")];
const messages = [...first, await ask(first), user("t2")];
messages.push(await ask(messages));
`;

async function run(under: UnderTest, options: readonly string[], script: string): Promise<Json> {
  const file = join(folder, "agent.mjs");
  await writeFile(file, AGENT + script);
  const flags = ["--gateway", under.url, "--rollout", "r0", ...options];
  await runCommand()
    .exitOverride()
    .parseAsync(["node", "run", ...flags, "--", process.execPath, file, folder]);
  return (await under.send("GET", "/rollouts/r0")).json;
}

describe("coppice run", () => {
  test("a plain script becomes one rollout: reward 1 from its exit code, its one leaf inferred", async () => {
    const under = await startUnderTest();
    const rollout = await run(under, ["--group", "g", "--group-size", "1", "--generation-index", "0"], "");
    expect(rollout).toMatchObject({ state: "sealed", group_id: "g", outcome: { reward: 1, infer: true } });
    expect(rollout["calls"]).toHaveLength(2);
    const rows = await under.send("GET", "/groups/g/rows?format=jsonl");
    expect(JSON.parse(rows.text.trim())).toMatchObject({ type: "row", reward: 1, segment_count: 1 });
    expect(stderr.join("")).toContain("rollout r0 is sealed; reward 1, inferred");
  });

  test("an exit code other than 0 is reward 0, and the command's code is given on", async () => {
    const under = await startUnderTest();
    const rollout = await run(under, [], "process.exit(3);");
    expect(rollout).toMatchObject({ state: "sealed", outcome: { reward: 0, infer: true, failed: null } });
    expect(process.exitCode).toBe(3);
  });

  test("where the reward is told elsewhere, a command that breaks has failed", async () => {
    const under = await startUnderTest();
    const rollout = await run(under, ["--reward", "0.5"], "process.exit(3);");
    expect(rollout).toMatchObject({ outcome: { failed: "the command ended with 3" } });
  });

  test("reward and accepted ids are read from the files that the command writes", async () => {
    const under = await startUnderTest();
    const reward = join(folder, "reward");
    const accepted = join(folder, "accepted");
    const rollout = await run(
      under,
      ["--reward-file", reward, "--accepted", accepted],
      `await ask(messages); say(${JSON.stringify(reward)}, "0.25\\n");
       say(${JSON.stringify(accepted)}, answers.slice(0, 2).map(({ id }) => id).join("\\n"));`,
    );
    expect(rollout).toMatchObject({ outcome: { reward: 0.25 } });
    expect((rollout["outcome"] as Json)["accepted"]).toHaveLength(2);
  });

  test("an outcome that the agent writes by itself wins", async () => {
    const under = await startUnderTest();
    const rollout = await run(
      under,
      [],
      "say(process.env.COPPICE_OUTCOME, { reward: 0.75, accepted: [answers[0].id] });",
    );
    expect(rollout).toMatchObject({ outcome: { reward: 0.75 } });
    expect((rollout["outcome"] as Json)["accepted"]).toHaveLength(1);
  });

  test("a transcript of chat messages names what was kept by its content", async () => {
    const under = await startUnderTest();
    const file = join(folder, "messages.json");
    const rollout = await run(
      under,
      ["--transcript", file],
      `await ask([user("t9")]); say(${JSON.stringify(file)}, messages);`,
    );
    expect(rollout["state"]).toBe("sealed");
    const rows = await under.send("GET", "/rollouts/r0/rows?format=jsonl");
    const row = JSON.parse(rows.text.trim()) as Json;
    expect((row["spans"] as readonly Json[]).map((span) => span["trained"])).toEqual([true, true]);
    expect(row["trees_not_walked"]).toBe(1);
  });

  test("what cannot be inferred is refused and not guessed; with --no-infer the rollout stays open", async () => {
    const under = await startUnderTest();
    const two = 'await ask([user("t9")]);';
    await expect(run(under, ["--no-infer"], two)).rejects.toThrow(/nothing says what r0 kept.*stays open/);
    expect((await under.send("GET", "/rollouts/r0")).json["state"]).toBe("open");
    const rollout = await run(under, [], "");
    expect(rollout["state"]).toBe("sealed");
    expect(stderr.join("")).toMatch(/refused: ambiguous/);
    expect(process.exitCode).toBe(1);
  });

  test("a command that does not end in time is ended, and the rollout has failed", async () => {
    const under = await startUnderTest();
    const rollout = await run(
      under,
      ["--timeout", "1"],
      "await new Promise(() => setInterval(() => 0, 1000));",
    );
    expect(rollout).toMatchObject({ outcome: { failed: "the command was ended after 1 s" } });
  });

  test("pi's and Codex' configuration stands in a folder that is gone afterwards", async () => {
    const under = await startUnderTest();
    const copy = join(folder, "copy");
    await run(
      under,
      ["--agent", "pi"],
      `import { readFileSync } from "node:fs";
       say(${JSON.stringify(copy)}, readFileSync(process.env.PI_CODING_AGENT_DIR + "/models.json", "utf8"));`,
    );
    const models = JSON.parse(await readFile(copy, "utf8")) as Json;
    expect(models).toMatchObject({ providers: { coppice: { baseUrl: `${under.url}/r/r0/v1` } } });
  });

  test("a command that is not there and flags that exclude each other are told in one line", async () => {
    const under = await startUnderTest();
    const parse = (...args: string[]): Promise<unknown> =>
      runCommand()
        .exitOverride()
        .parseAsync(["node", "run", "--gateway", under.url, ...args]);
    await expect(parse("--", "/nowhere/agent")).rejects.toThrow(/can't start \/nowhere\/agent/);
    await expect(parse("--reward", "1", "--reward-file", "x", "--", "true")).rejects.toThrow(/not both/);
  });
});
