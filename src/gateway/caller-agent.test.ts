import { describe, expect, test } from "vitest";
import { agentOf, classOf } from "./caller-agent.ts";
import { wireRequests } from "../dialect/testing/wire-fixtures.ts";

describe("an agent's label", () => {
  test("is the path's before a header's before another program's mark", () => {
    const marks = { "x-coppice-agent": "ours", "thread-id": "theirs" };
    expect(agentOf("path", marks)).toBe("path");
    expect(agentOf(undefined, marks)).toBe("ours");
    expect(agentOf(undefined, { "thread-id": "theirs" })).toBe("theirs");
    expect(agentOf(undefined, {})).toBeNull();
  });

  test("of ours is refused where it is too long, and another program's is left out", () => {
    const long = "x".repeat(201);
    expect(() => agentOf(undefined, { "x-coppice-agent": long })).toThrow("201 characters");
    expect(agentOf(undefined, { "thread-id": long, "session-id": "s" })).toBe("s");
  });
});

describe("what public agents send", () => {
  const told = (file: string): (readonly [string | null, string | null])[] =>
    wireRequests(file).map(({ headers }) => [agentOf(undefined, headers), classOf(headers)]);

  test("tells Claude Code's sub-agents from its main agent, and compaction and side calls from turns", () => {
    const agents = told("claude-code-subagents");
    expect(agents.map(([, callClass]) => callClass)).toEqual(["main", "sub_agent", "sub_agent"]);
    expect(new Set(agents.map(([agent]) => agent)).size).toBe(3);
    expect(told("claude-code-compaction")).toEqual([
      [null, "compaction"],
      [null, "main"],
    ]);
    expect(told("claude-code-title")).toEqual([[null, "auxiliary"]]);
  });

  test("tells Codex' threads and its compaction", () => {
    const [main, spawned] = told("codex-subagent");
    expect(main?.[1]).toBe("main");
    expect(spawned?.[1]).toBe("sub_agent");
    expect(spawned?.[0]).not.toBe(main?.[0]);
    expect(told("codex-compaction").map(([, callClass]) => callClass)).toEqual(["compaction", "main"]);
  });

  test("tells opencode's child session, and nothing of its title call", () => {
    const [main, child] = told("opencode-subagent");
    expect([main?.[1], child?.[1]]).toEqual([null, "sub_agent"]);
    expect(child?.[0]).not.toBe(main?.[0]);
    expect(told("opencode-title-turns").every(([, callClass]) => callClass === null)).toBe(true);
  });

  test("is nothing at all for clients that leave no mark: their class is not guessed", () => {
    for (const file of [
      "qwen-code-turns",
      "qwen-code-compaction",
      "pi-compaction",
      "openai-js-7-tool-turn",
    ]) {
      expect(told(file).every(([agent, callClass]) => agent === null && callClass === null)).toBe(true);
    }
  });

  test("never fails a call, whatever stands in the headers", () => {
    expect(classOf({ "x-codex-turn-metadata": "{no json" })).toBeNull();
    expect(classOf({ "x-codex-turn-metadata": "[1]" })).toBeNull();
    expect(classOf({ "x-claude-code-request-class": "constructor" })).toBeNull();
    expect(() => classOf({ "x-coppice-class": "other" })).toThrow("must be one of main, sub_agent");
  });
});
