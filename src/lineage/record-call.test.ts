import { describe, expect, test } from "vitest";
import { byId, call, records } from "./testing/records.ts";

const user = (content: string) => ({ role: "user", content });
const assistant = (content: string) => ({ role: "assistant", content });

describe("why a root is a root", () => {
  test("the first root says nothing", () => {
    const [first] = records(call("c1", [1], [2], { messages: [user("a")], answer: assistant("b") }));
    expect(first?.rootReason).toBeNull();
  });

  test("trl 5224: an echoed answer that comes back as a merged id is drift, with the first differing index and both ids", () => {
    const calls = records(
      call("c1", [1], [6, 7], { messages: [user("a")], answer: assistant("xy") }),
      call("c2", [1, 8, 3], [4], {
        messages: [user("a"), assistant("xy"), user("go on")],
        answer: assistant("z"),
      }),
    );
    expect(byId(calls, "c2").parentCallId).toBeNull();
    expect(byId(calls, "c2").rootReason).toMatchObject({
      kind: "drift",
      followedCallId: "c1",
      index: 1,
      expectedId: 6,
      actualId: 8,
    });
  });

  test("qwen-code 4285: a prompt shorter than the sequence it goes on from is drift whose id is missing on one side", () => {
    const calls = records(
      call("c1", [1, 2], [6, 7], { messages: [user("a")], answer: assistant("xy") }),
      call("c2", [1, 2, 6], [4], { messages: [user("a"), assistant("xy")] }),
    );
    expect(byId(calls, "c2").rootReason).toMatchObject({ index: 3, expectedId: 7, actualId: null });
  });

  test("verl 6854: a template that drops earlier reasoning is drift, although the reasoning is not echoed", () => {
    const answer = { role: "assistant", content: "yes", reasoning: "let me think" };
    const calls = records(
      call("c1", [1], [50, 51, 7], { messages: [user("a")], answer }),
      call("c2", [1, 7, 3], [4], {
        messages: [
          user("a"),
          { role: "assistant", content: "yes", reasoning_content: "let me think" },
          user("b"),
        ],
      }),
    );
    expect(byId(calls, "c2").rootReason).toMatchObject({
      kind: "drift",
      index: 1,
      expectedId: 50,
      actualId: 7,
    });
  });

  test("the messages of an earlier root once more are asked again", () => {
    const calls = records(
      call("c1", [1], [2], { messages: [user("a")], answer: assistant("b") }),
      call("c2", [1], [3], { messages: [user("a")], answer: assistant("c") }),
    );
    expect(byId(calls, "c2").rootReason).toEqual({ kind: "asked_again", rootCallId: "c1" });
  });

  test("other messages are a rewrite, another agent's first call is its own reason, and without messages nobody knows", () => {
    const calls = records(
      call("c1", [1], [2], { messages: [user("a")], answer: assistant("b") }),
      call("c2", [5], [3], { messages: [user("summary of a")] }),
      call("c3", [6], [3], { messages: [user("search")], agent: "searcher" }),
      call("c4", [7], [3]),
    );
    expect(["c2", "c3", "c4"].map((id) => byId(calls, id).rootReason?.kind)).toEqual([
      "rewrite",
      "other_agent",
      "unknown",
    ]);
  });
});

describe("what a record keeps", () => {
  test("a child carries only what its prompt adds, and the messages that its parent lacks", () => {
    const calls = records(
      call("c1", [1, 2], [3], { messages: [user("a")], answer: assistant("b") }),
      call("c2", [1, 2, 3, 4, 5], [6], {
        messages: [user("a"), { role: "assistant", content: [{ type: "text", text: "b" }] }, user("c")],
        answer: assistant("d"),
      }),
    );
    const child = byId(calls, "c2");
    expect([...child.carriedTokenIds]).toEqual([4, 5]);
    expect(child.messagesFrom).toBe(2);
    expect(child.messages).toEqual([user("c")]);
  });

  test("slime 514: a stop token that also begins the next turn stands once, in what was generated", () => {
    const calls = records(call("c1", [1, 2], [3, 9]), call("c2", [1, 2, 3, 9, 4], [5]));
    expect(byId(calls, "c2").parentCallId).toBe("c1");
    expect([...byId(calls, "c2").carriedTokenIds]).toEqual([4]);
  });

  test("rllm 731: 200 turns keep each token once, however long the prompts grow", () => {
    const lines = [];
    let sequence: number[] = [];
    for (let turn = 0; turn < 200; turn++) {
      const prompt = [...sequence, 2 * turn, 2 * turn + 1];
      lines.push(call(`c${turn}`, prompt, [1000 + turn]));
      sequence = [...prompt, 1000 + turn];
    }
    const kept = records(...lines).map((one) => one.carriedTokenIds.length + one.generatedTokenIds.length);
    expect(kept.every((tokens) => tokens === 3)).toBe(true);
    expect(kept.reduce((sum, tokens) => sum + tokens, 0)).toBe(sequence.length);
  });

  test("prime-rl 1334: a prompt that matches nothing is a root, never an error", () => {
    const calls = records(call("c1", [1], [2]), call("c2", [99, 98], [3]));
    expect(byId(calls, "c2").parentCallId).toBeNull();
  });
});
