import { describe, expect, test } from "vitest";
import { wireRequests, type WireRequest } from "../dialect/testing/wire-fixtures.ts";
import type { ScriptedAnswer } from "../engine/stand-in/answer.ts";
import { startUnderTest, type Json, type UnderTest } from "./testing/gateway-under-test.ts";

const U1 = { role: "user", content: "t1 t2" };

/** A gateway whose engine gives these answers, in order. */
function answering(
  answers: readonly ScriptedAnswer[],
  template: "bare" | "chatml" = "chatml",
): Promise<UnderTest> {
  return startUnderTest({
    standIn: {
      template,
      script: (_request, count) => {
        const answer = answers[count - 1];
        return answer === undefined ? null : { kind: "answer", answer };
      },
    },
  });
}

function toolCall(id: string, name: string, given: string): Json {
  return { id, type: "function", function: { name, arguments: given } };
}

describe("an agent without a label", () => {
  test("is the agent whose history it extends, with requests overlapping, and never the last one that called", async () => {
    const under = await startUnderTest();
    const headers = (agent: string): Record<string, string> => ({ "x-coppice-agent": agent });
    const ask = async (messages: readonly Json[], label?: string): Promise<Json> => {
      const answered = await under.send(
        "POST",
        "/r/r1/v1/chat/completions",
        { messages },
        label === undefined ? {} : headers(label),
      );
      return (answered.json["choices"] as readonly { readonly message: Json }[])[0]?.message as Json;
    };
    const a = [{ role: "user", content: "of a" }];
    const b = [{ role: "user", content: "of b" }];
    const answerA = await ask(a, "a");
    const answerB = await ask(b, "b");
    await Promise.all([
      ask([...b, answerB, { role: "user", content: "on" }]),
      ask([...a, answerA, { role: "user", content: "on" }]),
      ask([{ role: "user", content: "of nobody" }]),
    ]);
    const calls = await under.calls("r1");
    const byId = new Map(calls.map((call) => [call.callId, call]));
    const children = calls.filter((call) => call.parentCallId !== null);
    expect(children).toHaveLength(2);
    for (const child of children) expect(child.agent).toBe(byId.get(child.parentCallId as never)?.agent);
    expect(calls.map((call) => call.agent).filter((agent) => agent === null)).toHaveLength(1);
  });
});

describe("a prompt", () => {
  test("that is shorter than the sequence it goes on from is noted (qwen-code 4285)", async () => {
    const under = await startUnderTest({
      standIn: {
        template: "chatml",
        dropReasoning: true,
        script: (_request, count) =>
          count === 1
            ? { kind: "answer", answer: { reasoning: "t7 ".repeat(50).trim(), content: "t9" } }
            : null,
      },
    });
    await under.chat("r1", [U1], { max_tokens: 200 });
    const [first] = await under.calls("r1");
    const sent = { role: "assistant", content: "t9", reasoning_content: first?.answer?.["reasoning"] };
    await under.chat("r1", [U1, sent, { role: "user", content: "t3" }]);
    const [, second] = await under.calls("r1");
    expect(second?.rootReason?.kind).toBe("drift");
    expect(second?.notes).toEqual([expect.stringMatching(/^prompt_shrank: .* has \d+ tokens/)]);
    // Both names of reasoning reach the engine untouched.
    const asked = under.standIn.requests.filter(({ path }) => path === "/v1/chat/completions").at(-1);
    expect(asked?.body).toMatchObject({ messages: [U1, sent, {}] });
  });
});

describe("an answer that comes back otherwise than it was sampled", () => {
  const sampled = '{"description": "x", "command": "cd /repo && cat notes.txt", "timeout": 1e4}';

  test("under the same tool-call ids is client_rewrote, once; the sampled tokens stay the record", async () => {
    const under = await answering([
      { content: "t5", toolCalls: [{ id: "call_1", name: "Bash", arguments: sampled }] },
    ]);
    await under.chat("r1", [U1], { max_tokens: 500 });
    const [first] = await under.calls("r1");
    const rewritten = {
      role: "assistant",
      content: "t5",
      tool_calls: [
        toolCall("call_1", "Bash", '{"command":"cat notes.txt","description":"x","timeout":10000}'),
      ],
    };
    const second = [U1, rewritten, { role: "tool", tool_call_id: "call_1", content: "t8" }];
    const answered = await under.chat("r1", second);
    const message = (answered.json["choices"] as readonly { readonly message: Json }[])[0]?.message as Json;
    await under.chat("r1", [...second, message, { role: "user", content: "t9" }]);
    const [again, rewrote, third] = await under.calls("r1");
    expect(again?.generatedTokenIds).toEqual(first?.generatedTokenIds);
    expect(again?.answer).toMatchObject({ tool_calls: [{ function: { arguments: sampled } }] });
    expect(rewrote?.parentCallId).toBeNull();
    expect(rewrote?.notes).toEqual([
      `client_rewrote: messages[1] has the tool-call ids of call ${first?.callId} and means something else`,
    ]);
    expect(third?.notes).toEqual([]);
    expect(third?.parentCallId).toBe(rewrote?.callId);
  });

  test("in another formatting only is the same: order, spaces and 1e4 for 10000 are no rewrite", async () => {
    const under = await answering([{ toolCalls: [{ id: "call_1", name: "Bash", arguments: sampled }] }]);
    await under.chat("r1", [U1], { max_tokens: 500 });
    await under.chat("r1", [
      U1,
      {
        role: "assistant",
        content: null,
        tool_calls: [
          toolCall(
            "call_1",
            "Bash",
            '{"timeout":10000.0,"command":"cd /repo && cat notes.txt","description":"x"}',
          ),
        ],
      },
      { role: "tool", tool_call_id: "call_1", content: "t8" },
    ]);
    const [, second] = await under.calls("r1");
    expect(second?.notes.filter((note) => note.startsWith("client_rewrote"))).toEqual([]);
  });

  test("is told of the inputs that claude-code changes, and not of those that it only writes otherwise", async () => {
    const [recorded] = wireRequests("claude-code-rewritten-inputs") as [WireRequest];
    const messages = recorded.body["messages"] as readonly Json[];
    const echoed = messages.flatMap(({ role, content }) =>
      role === "assistant" ? (content as readonly Json[]).filter(({ type }) => type === "tool_use") : [],
    );
    const raw = [
      '{"limit": 5.0, "file_path": "notes.txt", "bogus": null}',
      '{"limit": "5", "file_path": "./notes.txt"}',
      '{"description": "x", "command": "cd /repo && cat notes.txt", "timeout": 1e4}',
      '{"a": 1}',
      '{"file_path":"/repo/notes.txt","old_string":"hello from notes","new_string":"hello from notes   \\n","replace_all":"false"}',
    ];
    const under = await answering(
      raw.map((given, index) => ({
        reasoning: " think \n",
        content: "  Leading spaces and trailing \n",
        toolCalls: [
          { id: String(echoed[index]?.["id"]), name: String(echoed[index]?.["name"]), arguments: given },
        ],
      })),
    );
    for (let turn = 0; turn <= raw.length; turn++) {
      const sent = { ...recorded.body, messages: messages.slice(0, 2 + 2 * turn), stream: turn % 2 === 0 };
      const answered = await under.send("POST", "/r/r1/v1/messages?beta=true", sent);
      expect(answered.status).toBe(200);
    }
    const calls = await under.calls("r1");
    const rewrote = calls.map(({ notes }) => notes.some((note) => note.startsWith("client_rewrote")));
    expect(rewrote).toEqual([false, false, false, true, false, true]);
    for (const [index, given] of raw.entries()) {
      expect(calls[index]?.answer).toMatchObject({ tool_calls: [{ function: { arguments: given } }] });
    }
  });

  test("without tool-call ids is nobody's: it is carried and never trains (qwen filler, smolagents text)", async () => {
    const under = await startUnderTest({ standIn: { template: "chatml" } });
    for (const [rollout, file] of [
      ["smolagents", "smolagents-toolcalling"],
      ["qwen", "qwen-code-compaction"],
      ["opencode", "opencode-compaction"],
    ] as const) {
      for (const { body } of wireRequests(file)) {
        const answered = await under.send("POST", `/r/${rollout}/v1/chat/completions`, {
          ...body,
          stream: false,
          stream_options: null,
          stop: null,
          max_tokens: 4,
        });
        expect(answered.status).toBe(200);
      }
      const calls = await under.calls(rollout);
      expect(calls.every((call) => call.notes.length === 0)).toBe(true);
      const last = calls.at(-1);
      await under.send("POST", `/rollouts/${rollout}/outcome`, { reward: 1, accepted: [last?.responseId] });
      const rows = (await under.send("GET", `/rollouts/${rollout}/rows`)).json;
      expect(rows["row_trainable_tokens"]).toBe(last?.generatedLength);
      expect(last?.carriedLength).toBeGreaterThan(10);
    }
  });
});
