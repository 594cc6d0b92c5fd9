// The adapters with the real clients, over the real gateway.
import Anthropic from "@anthropic-ai/sdk";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent, OpenAIProvider, Runner, setTracingDisabled } from "@openai/agents";
import { generateText, streamText, wrapLanguageModel } from "ai";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import {
  startUnderTest,
  type UnderTest,
  type UnderTestOptions,
} from "../gateway/testing/gateway-under-test.ts";
import {
  answerLog,
  anthropicClient,
  Conversation,
  everyActions,
  notedProvider,
  postOutcome,
  rolloutBaseUrl,
  rolloutMiddleware,
} from "./index.ts";

const TOOL_TURN: UnderTestOptions = {
  standIn: {
    template: "chatml",
    script: (_request, count) => ({
      kind: "answer",
      answer:
        count === 1
          ? { content: "t8", reasoning: "t7", toolCalls: [{ name: "look", arguments: '{"at":1}' }] }
          : { content: `t${8 + count}` },
    }),
  },
};

const TOOLS = [{ type: "function", function: { name: "look", parameters: { type: "object" } } }];

async function parentsOf(under: UnderTest): Promise<readonly boolean[]> {
  return (await under.calls("r0")).map(({ parentCallId }) => parentCallId !== null);
}

describe("Anthropic's client", () => {
  test("a conversation through it has tools, reasoning, compaction and an outcome", async () => {
    const under = await startUnderTest(TOOL_TURN);
    const chat = new Conversation({
      client: anthropicClient(new Anthropic({ baseURL: `${under.url}/r/r0`, apiKey: "k", maxRetries: 0 })),
      rolloutId: "r0",
      model: "policy",
      system: "t1",
      task: "t2",
      policy: everyActions(2),
      request: { max_tokens: 64, tools: TOOLS },
    });
    const first = await chat.ask();
    expect(first).toMatchObject({ text: "t8", finishReason: "tool_calls", toolCalls: [{ name: "look" }] });
    expect(first.callId).toMatch(/^call-/);
    chat.accept(first);
    chat.accept(await chat.ask({ role: "tool", tool_call_id: first.toolCalls[0]?.id ?? "", content: "t5" }));
    chat.accept(await chat.ask("t6"));
    expect(await chat.finish({ reward: 1 })).toMatchObject({ state: "sealed", refusal: null });
    expect(await parentsOf(under)).toEqual([false, true, false]);
    await expect(
      new Conversation({
        client: anthropicClient(new Anthropic({ baseURL: `${under.url}/r/r1`, apiKey: "k" })),
        rolloutId: "r1",
        model: "policy",
        task: "t2",
      }).ask(undefined, { stream: true }),
    ).rejects.toMatchObject({ code: "invalid_argument" });
  });
});

describe("the AI SDK", () => {
  test("a wrapped model's answers are noted, whole and streamed, and the outcome names those that stayed", async () => {
    const under = await startUnderTest();
    const log = answerLog();
    const provider = createOpenAICompatible({ name: "coppice", apiKey: "k", baseURL: `${under.url}/v1` });
    const model = wrapLanguageModel({
      model: provider("policy"),
      middleware: rolloutMiddleware("r0", log, { agent: "main" }),
    });
    await generateText({ model, prompt: "t1", maxOutputTokens: 3 });
    await generateText({ model, prompt: "t2", maxOutputTokens: 3 });
    log.reject(log.last ?? "");
    const streamed = streamText({ model, prompt: "t3", maxOutputTokens: 3 });
    await streamed.consumeStream();
    const calls = await under.calls("r0");
    expect([...log.accepted]).toEqual([calls[0]?.responseId, calls[2]?.responseId]);
    expect(calls.every(({ agent }) => agent === "main")).toBe(true);
    const sealed = await postOutcome("r0", { reward: 1, accepted: log.accepted }, { gatewayUrl: under.url });
    expect(sealed).toMatchObject({ state: "sealed", refusal: null });
  });
});

describe("the OpenAI Agents SDK", () => {
  test("a provider that notes answers stands before its own one", async () => {
    setTracingDisabled(true);
    const under = await startUnderTest();
    const log = answerLog();
    const openAIClient = new OpenAI({ baseURL: rolloutBaseUrl(under.url, "r0"), apiKey: "k" });
    const provider = new OpenAIProvider({ openAIClient, useResponses: true });
    const runner = new Runner({ modelProvider: notedProvider(provider, log), tracingDisabled: true });
    const agent = new Agent({ name: "a", instructions: "t1", model: "policy" });
    await runner.run(agent, "t2");
    const streamed = await runner.run(agent, "t3", { stream: true });
    await streamed.completed;
    const calls = await under.calls("r0");
    expect([...log.accepted]).toEqual(calls.map(({ responseId }) => responseId));
    expect(calls).toHaveLength(2);
  });
});
