import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  startUnderTest,
  type Json,
  type UnderTest,
  type UnderTestOptions,
} from "../gateway/testing/gateway-under-test.ts";
import { postOutcome } from "./rollout-api.ts";
import { codeOf } from "./testing/conversations.ts";
import { readTranscript, readTranscriptText, type Transcript } from "./transcript.ts";

const user = (content: string): Json => ({ role: "user", content });

/** A tool is called, then a text is told. */
const TWO_TURNS: UnderTestOptions = {
  standIn: {
    template: "chatml",
    script: (_request, count) => ({
      kind: "answer",
      answer:
        count === 1
          ? { content: "t8", reasoning: "t7", toolCalls: [{ name: "bash", arguments: '{"cmd":"ls"}' }] }
          : { content: "t9" },
    }),
  },
};

/** Which calls train once the transcript's list is the outcome, by their place. */
async function trainedBy(under: UnderTest, { accepted }: Transcript): Promise<unknown[]> {
  await postOutcome("r0", { reward: 1, accepted }, { gatewayUrl: under.url });
  const { text } = await under.send("GET", "/rollouts/r0/rows?format=jsonl");
  const rows = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Json);
  const order = (await under.calls("r0")).map((call) => call.callId);
  return rows
    .flatMap((row) => row["spans"] as readonly Json[])
    .filter((span) => span["trained"] === true)
    .map((span) => order.indexOf(span["call_id"] as (typeof order)[number]));
}

async function send(under: UnderTest, path: string, body: Json): Promise<Json> {
  return (await under.send("POST", `/r/r0/v1/${path}`, { model: "any", ...body })).json;
}

describe("transcripts over the gateway", () => {
  test("a list of chat messages names the answers that stand in it, and no retry", async () => {
    const under = await startUnderTest();
    const messages: unknown[] = [user("t1")];
    for (const next of ["t2", "t3"]) {
      await send(under, "chat/completions", { messages: [...messages, user("@@fault:tool@@")] });
      const { choices } = await send(under, "chat/completions", { messages });
      messages.push((choices as readonly Json[])[0]?.["message"], user(next));
    }
    const transcript = readTranscript({ messages });
    expect(transcript).toMatchObject({
      kind: "chat",
      accepted: [{ role: "assistant" }, { role: "assistant" }],
    });
    expect(await trainedBy(under, transcript)).toEqual([1, 3]);
  });

  test("items of the Responses API are joined into their answers: reasoning, text and calls", async () => {
    const under = await startUnderTest(TWO_TURNS);
    const input: unknown[] = [user("t1")];
    const { output } = await send(under, "responses", {
      input,
      store: false,
      tools: [{ type: "function", name: "bash", parameters: { type: "object" } }],
    });
    const call = (output as readonly Json[]).find(({ type }) => type === "function_call");
    input.push(...(output as readonly Json[]));
    input.push({ type: "function_call_output", call_id: call?.["call_id"], output: "t5" });
    const second = await send(under, "responses", {
      input,
      store: false,
      tools: [{ type: "function", name: "bash", parameters: { type: "object" } }],
    });
    input.push(...(second["output"] as readonly Json[]));
    const transcript = readTranscriptText(JSON.stringify(input));
    expect(transcript.kind).toBe("responses");
    expect(transcript.accepted).toHaveLength(2);
    expect(await trainedBy(under, transcript)).toEqual([0, 1]);
  });

  test("content of the Messages API is matched by its blocks, thinking aside", async () => {
    const under = await startUnderTest(TWO_TURNS);
    const messages: unknown[] = [user("t1")];
    const first = await send(under, "messages", {
      messages,
      max_tokens: 64,
      tools: [{ name: "bash", input_schema: { type: "object" } }],
    });
    const [use] = (first["content"] as readonly Json[]).filter(({ type }) => type === "tool_use");
    messages.push({ role: "assistant", content: first["content"] });
    messages.push({
      role: "user",
      content: [{ type: "tool_result", tool_use_id: use?.["id"], content: "t5" }],
    });
    const second = await send(under, "messages", {
      messages,
      max_tokens: 64,
      tools: [{ name: "bash", input_schema: { type: "object" } }],
    });
    messages.push({ role: "assistant", content: second["content"] });
    const transcript = readTranscript(messages);
    expect(transcript.kind).toBe("messages");
    expect(await trainedBy(under, transcript)).toEqual([0, 1]);
  });

  test("a Codex session is read line by line: its response items alone, with ids that are its own left out", async () => {
    const under = await startUnderTest();
    const { output } = await send(under, "responses", { input: [user("t1")], store: false });
    const lines = [
      { timestamp: "1", type: "session_meta", payload: { id: "s" } },
      { timestamp: "2", type: "response_item", payload: { type: "message", role: "user", content: [] } },
      ...(output as readonly Json[]).map((item) => ({
        timestamp: "3",
        type: "response_item",
        payload: { ...item, id: "codex-1" },
      })),
      { timestamp: "4", type: "event_msg", payload: { type: "token_count" } },
    ];
    const text = `${lines.map((line) => JSON.stringify(line)).join("\n")}\n{"timest`;
    const transcript = readTranscriptText(text);
    expect(transcript.kind).toBe("codex");
    expect(await trainedBy(under, transcript)).toEqual([0]);
  });

  test("a pi session is walked from its last entry up: branches that were left are not kept", async () => {
    const said = (id: string, parentId: string | null, text: string, more: object = {}): Json => ({
      type: "message",
      id,
      parentId,
      message: { role: "assistant", content: [{ type: "text", text }], stopReason: "stop", ...more },
    });
    const lines: Json[] = [
      { type: "session", id: "s" },
      { type: "message", id: "1", parentId: null, message: user("go") },
      said("2", "1", "left"),
      said("3", "1", "kept", { responseId: "chatcmpl-3" }),
      said("4", "3", "broken", { stopReason: "aborted" }),
      {
        type: "message",
        id: "5",
        parentId: "4",
        message: {
          role: "assistant",
          content: [{ type: "toolCall", id: "c1|fc_1", name: "look", arguments: { at: 1 } }],
        },
      },
    ];
    expect(readTranscriptText(lines.map((line) => JSON.stringify(line)).join("\n"))).toEqual({
      kind: "pi",
      accepted: [
        "chatcmpl-3",
        {
          role: "assistant",
          content: [],
          tool_calls: [{ id: "c1", type: "function", function: { name: "look", arguments: '{"at":1}' } }],
        },
      ],
    });
  });
});

describe("what is no transcript", () => {
  test("is refused with what is wrong about it", async () => {
    expect(() => readTranscript([])).toThrow(/it is empty/);
    expect(() => readTranscript([1])).toThrow(/it is no list of objects/);
    expect(() => readTranscript([{ a: 1 }])).toThrow(/no messages, no Responses items/);
    expect(() => readTranscriptText('{"type":"session_meta","payload":{}}\n{"a\n{}')).toThrow(/line 2/);
    const rolledBack = [
      { type: "session_meta", payload: {} },
      { type: "event_msg", payload: { type: "thread_rolled_back" } },
    ];
    expect(await codeOf(() => readTranscript(rolledBack))).toBe("invalid_transcript");
  });

  test("the package's own description is not taken for one", () => {
    const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
    expect(() => readTranscriptText(text)).toThrow(/cannot be read/);
  });
});
