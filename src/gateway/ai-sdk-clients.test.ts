import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import {
  generateText,
  jsonSchema,
  streamText,
  tool,
  type LanguageModel,
  type ModelMessage,
  type ToolSet,
} from "ai";
import { describe, expect, test } from "vitest";
import { startUnderTest, type UnderTest } from "./testing/gateway-under-test.ts";
import { startTwoTools, straightFromEngine, type ReadAnswer } from "./testing/two-tool-answer.ts";

const TOOLS: ToolSet = {
  read: tool({ inputSchema: jsonSchema({ type: "object", properties: { path: { type: "string" } } }) }),
  list: tool({ inputSchema: jsonSchema({ type: "object", properties: {} }) }),
};

const MODELS: readonly (readonly [string, (under: UnderTest) => LanguageModel])[] = [
  [
    "openai-compatible",
    ({ url }) =>
      createOpenAICompatible({
        name: "local",
        apiKey: "EMPTY",
        includeUsage: true,
        baseURL: `${url}/r/r1/v1`,
      })("m"),
  ],
  ["openai (responses)", ({ url }) => createOpenAI({ apiKey: "EMPTY", baseURL: `${url}/r/r1/v1` })("m")],
  ["openai (chat)", ({ url }) => createOpenAI({ apiKey: "EMPTY", baseURL: `${url}/r/r1/v1` }).chat("m")],
  ["anthropic", ({ url }) => createAnthropic({ apiKey: "EMPTY", baseURL: `${url}/r/r1/v1` })("m")],
];

interface SdkAnswer {
  readonly text: string;
  readonly reasoningText: string | undefined;
  readonly toolCalls: readonly {
    readonly toolCallId: string;
    readonly toolName: string;
    readonly input: unknown;
  }[];
  readonly usage: { readonly inputTokens: number | undefined; readonly outputTokens: number | undefined };
}

function read({ text, reasoningText, toolCalls, usage }: SdkAnswer): ReadAnswer {
  return {
    reasoning: reasoningText ?? "",
    text,
    calls: toolCalls.map(({ toolCallId: id, toolName: name, input }) => ({ id, name, input })),
    tokens: { input: usage.inputTokens ?? 0, output: usage.outputTokens ?? 0 },
  };
}

async function streamed(
  model: LanguageModel,
  messages: ModelMessage[],
): Promise<SdkAnswer & { messages: ModelMessage[] }> {
  const result = streamText({
    model,
    messages,
    tools: TOOLS,
    maxOutputTokens: 200,
    maxRetries: 0,
    onError: () => undefined,
  });
  await result.consumeStream();
  const [text, reasoningText, toolCalls, usage, response] = await Promise.all([
    result.text,
    result.reasoningText,
    result.toolCalls,
    result.usage,
    result.response,
  ]);
  return { text, reasoningText, toolCalls, usage, messages: response.messages };
}

const USER: ModelMessage = { role: "user", content: "go" };

/** The calls that the answer made, each answered. */
function resultsOf({ toolCalls }: SdkAnswer): ModelMessage {
  return {
    role: "tool",
    content: toolCalls.map(({ toolCallId, toolName }) => ({
      type: "tool-result",
      toolCallId,
      toolName,
      output: { type: "text", value: "ok" },
    })),
  };
}

describe.each(MODELS)("the AI SDK with %s", (name, make) => {
  /** These two providers read no reasoning in the open: one keeps summaries alone, the other none. */
  const readsReasoning = name !== "openai (chat)" && name !== "openai (responses)";

  test("reads what the engine's own API gives, whole and streamed", async () => {
    const under = await startTwoTools();
    const engine = await straightFromEngine(under);
    const expected = readsReasoning ? engine : { ...engine, reasoning: "" };
    const asked = { model: make(under), tools: TOOLS, maxOutputTokens: 200, maxRetries: 0 };
    const whole = read(await generateText({ ...asked, messages: [USER] }));
    const [call] = await under.calls("r1");
    // The tools, which the engine was not asked with, stand in the prompt too.
    const tokens = { ...engine.tokens, input: call?.carriedLength };
    expect(whole).toEqual({ ...expected, tokens });
    expect(read(await streamed(make(under), [USER]))).toEqual({ ...expected, tokens });
  });

  test("goes on from its own messages, and the second call hangs under the first", async () => {
    const under = await startTwoTools({ gateway: { way: "token-in" } });
    const first = await streamed(make(under), [USER]);
    const second = await streamed(make(under), [USER, ...first.messages, resultsOf(first)]);
    expect(second.text).toBe("all done");
    const [one, other] = await under.calls("r1");
    expect(other).toMatchObject({ parentCallId: one?.callId, rootReason: null, way: "token-in" });
  });

  test("is told of a failure inside a stream", async () => {
    const under = await startUnderTest();
    const result = streamText({
      model: make(under),
      prompt: "@@fault:error_event=3@@",
      maxOutputTokens: 50,
      maxRetries: 0,
      onError: () => undefined,
    });
    const types: string[] = [];
    const reading = (async () => {
      for await (const part of result.fullStream) types.push(part.type);
    })();
    const thrown = await reading.then(
      () => null,
      (error: unknown) => error,
    );
    // An error part where its provider reads one, and the connection's end behind it.
    expect(types.includes("error") || thrown instanceof Error).toBe(true);
    expect(types).not.toContain("finish");
  });
});

test("a summary that was asked for is what the Responses provider reads as reasoning", async () => {
  const under = await startTwoTools();
  const { reasoningText } = await generateText({
    model: createOpenAI({ apiKey: "EMPTY", baseURL: `${under.url}/r/r1/v1` })("o3"),
    messages: [USER],
    tools: TOOLS,
    maxOutputTokens: 200,
    providerOptions: { openai: { reasoningSummary: "auto" } },
  });
  expect(reasoningText).toBe("let me think");
});
