// What agents do after a stream that broke: field case miles 1826 and the recorded requests of those that go on from
// half an answer. What was delivered stays as an aborted call; what comes next hangs where its tokens say.
import { describe, expect, test } from "vitest";
import { wireRequests, type WireRequest } from "../dialect/testing/wire-fixtures.ts";
import type { ScriptedAnswer } from "../engine/stand-in/answer.ts";
import {
  messageOfAnswer,
  sender,
  startUnderTest,
  type Answered,
  type Json,
  type UnderTest,
} from "./testing/gateway-under-test.ts";

const TEXT = "Let me look at that.\n\n";
const SEEN = "Now I know.";
const TOOL = { name: "read_file", arguments: '{"file_path":  "/repo/notes.txt"}' };

interface Cut {
  readonly answer: ScriptedAnswer;
  /** The stream breaks behind this much of it. */
  readonly after: string;
  /** Tokens that the template puts around it. */
  readonly around?: number;
}

/** A gateway whose engine breaks off its first answer, and gives whole ones from then on. */
async function cutting({ answer, after, around = 0 }: Cut): Promise<UnderTest> {
  let afterTokens = 0;
  const under = await startUnderTest({
    standIn: {
      template: "chatml",
      markers: false,
      script: (_request, count) =>
        count === 1
          ? [
              { kind: "answer", answer },
              { kind: "cut", afterTokens, inside: "event" },
            ]
          : { kind: "answer", answer: { content: SEEN } },
    },
  });
  const counted = await sender(under.standIn.url)("POST", "/tokenize", { prompt: after });
  afterTokens = Number(counted.json["count"]) + around;
  return under;
}

/** Sends a recorded request; a broken stream reads as what came of it. */
async function post(under: UnderTest, { path, headers, body }: WireRequest): Promise<string> {
  const { authorization: _authorization, "x-api-key": _key, ...kept } = headers;
  const response = await fetch(under.url + path.replace("ROLLOUT", "r1"), {
    method: "POST",
    headers: kept,
    body: JSON.stringify(body),
  });
  let text = `${response.status} `;
  const decoder = new TextDecoder();
  try {
    for await (const piece of response.body as ReadableStream<Uint8Array>) text += decoder.decode(piece);
  } catch (error) {
    return `${text} [broken: ${String(error)}]`;
  }
  return text;
}

describe("after a cut stream", () => {
  test("qwen-code goes on from the half, then merges both answers into one message that no call wrote", async () => {
    const under = await cutting({ answer: { content: TEXT, toolCalls: [TOOL] }, after: TEXT });
    const [first, second, third] = wireRequests("qwen-code-cut-stream") as [
      WireRequest,
      WireRequest,
      WireRequest,
    ];
    const broken = await post(under, first);
    expect(broken).toContain('"error"');
    expect(broken).not.toContain("[DONE]");
    expect(await post(under, second)).toContain("[DONE]");
    expect(await post(under, third)).toContain("[DONE]");
    const [half, resumed, merged] = await under.calls("r1");
    expect(half).toMatchObject({ status: "aborted", untrainable: null, answer: { content: TEXT } });
    expect(resumed?.parentCallId).toBe(half?.callId);
    // The merged message is told with reasoning that no call of this rollout gave: its prompt is another.
    expect(merged?.parentCallId).toBeNull();
    await sealAndCheck(
      under,
      [resumed?.responseId, merged?.responseId],
      (resumed?.generatedLength ?? 0) + (merged?.generatedLength ?? 0),
    );
  });

  test("opencode asks the same again and keeps the dead attempt's reasoning as a message of its own", async () => {
    const reasoning = "Let me think.";
    const under = await cutting({
      answer: { reasoning, content: TEXT, toolCalls: [TOOL] },
      after: reasoning,
      around: 1,
    });
    const [after] = wireRequests("opencode-after-cut-stream") as [WireRequest];
    const messages = after.body["messages"] as readonly Json[];
    const first = { ...after, body: { ...after.body, messages: messages.slice(0, 2) } };
    expect(await post(under, first)).not.toContain("[DONE]");
    expect(await post(under, first)).toContain("[DONE]");
    expect(await post(under, after)).toContain("[DONE]");
    const [half, again, next] = await under.calls("r1");
    expect([half?.status, again?.status, next?.status]).toEqual(["aborted", "committed", "committed"]);
    expect(half?.answer?.["reasoning"]).toBe(reasoning);
    expect([half?.parentCallId, again?.parentCallId]).toEqual([null, null]);
    await sealAndCheck(under, [next?.responseId], next?.generatedLength ?? 0);
  });

  test("claude-code keeps the finished text and goes on from it", async () => {
    const under = await cutting({ answer: { content: TEXT, toolCalls: [TOOL] }, after: TEXT });
    const [first, second] = wireRequests("claude-code-cut-stream") as [WireRequest, WireRequest];
    const broken = await post(under, first);
    expect(broken).toContain("event: error");
    expect(broken).not.toContain("message_stop");
    expect(await post(under, second)).toContain("message_stop");
    const [half, resumed] = await under.calls("r1");
    expect(half).toMatchObject({ status: "aborted", untrainable: null, answer: { content: TEXT } });
    expect(resumed?.parentCallId).toBe(half?.callId);
    await sealAndCheck(under, [resumed?.responseId], resumed?.generatedLength ?? 0);
  });

  test("codex keeps the finished reasoning and asks again with it: both are recorded, the whole one trains", async () => {
    const reasoning = "Let me think.";
    const under = await cutting({
      answer: { reasoning, content: TEXT, toolCalls: [TOOL] },
      after: reasoning,
      around: 4,
    });
    const [first, second] = wireRequests("codex-cut-stream").map((request) => ({
      ...request,
      body: { ...request.body, max_output_tokens: 200 },
    })) as unknown as [WireRequest, WireRequest];
    const broken = await post(under, first);
    expect(broken).toContain('"type":"reasoning"');
    expect(broken).toMatch(/event: (error|response\.failed)/);
    expect(broken).not.toContain("response.completed");
    expect(await post(under, second)).toContain("response.completed");
    const [half, resumed] = await under.calls("r1");
    expect(half).toMatchObject({ status: "aborted", untrainable: null, answer: { reasoning } });
    expect(resumed).toMatchObject({ status: "committed", untrainable: null });
    await sealAndCheck(under, [resumed?.responseId], resumed?.generatedLength ?? 0);
  });

  test("pi and the SDKs ask the same again: two sibling roots, and what follows hangs under the second (miles 1826)", async () => {
    const under = await cutting({ answer: { content: TEXT }, after: TEXT });
    const [first] = wireRequests("pi-chat-turns") as [WireRequest];
    expect(await post(under, first)).not.toContain("[DONE]");
    const again = await under.send("POST", "/r/r1/v1/chat/completions", {
      ...first.body,
      stream: false,
      stream_options: null,
    });
    const messages = [
      ...(first.body["messages"] as readonly Json[]),
      messageOfAnswer(again),
      { role: "user", content: "U2" },
    ];
    await under.send("POST", "/r/r1/v1/chat/completions", {
      ...first.body,
      messages,
      stream: false,
      stream_options: null,
    });
    const [half, whole, next] = await under.calls("r1");
    expect([half?.status, whole?.status]).toEqual(["aborted", "committed"]);
    expect(whole?.rootReason).toEqual({ kind: "asked_again", rootCallId: half?.callId });
    expect(next?.parentCallId).toBe(whole?.callId);
  });
});

/** The accepted calls alone train, and so many tokens of them. */
async function sealAndCheck(under: UnderTest, accepted: readonly unknown[], trained: number): Promise<void> {
  const sealed: Answered = await under.send("POST", "/rollouts/r1/outcome", { reward: 1, accepted });
  expect(sealed.json).toMatchObject({ refusal: null });
  const { text } = await under.send("GET", "/rollouts/r1/rows");
  const rows = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Json);
  const counts = rows.map((row) => Number(row["row_trainable_tokens"]));
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(trained);
}
