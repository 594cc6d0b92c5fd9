import {
  Agent,
  OpenAIChatCompletionsModel,
  OpenAIResponsesModel,
  run,
  setTracingDisabled,
  tool,
} from "@openai/agents";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import type { UnderTest } from "./testing/gateway-under-test.ts";
import { startTwoTools } from "./testing/two-tool-answer.ts";

setTracingDisabled(true);

function agentOf(under: UnderTest, api: "responses" | "chat"): Agent {
  const client = new OpenAI({ apiKey: "EMPTY", maxRetries: 0, baseURL: `${under.url}/r/r1/v1` });
  const parameters = {
    type: "object" as const,
    properties: {},
    required: [] as string[],
    additionalProperties: true as const,
  };
  const make = (name: string): ReturnType<typeof tool> =>
    tool({ name, description: name, parameters, strict: false, execute: () => `${name} ran` });
  return new Agent({
    name: "worker",
    instructions: "You are X.",
    tools: [make("read"), make("list")],
    modelSettings: { maxTokens: 200 },
    model:
      api === "responses"
        ? new OpenAIResponsesModel(client, "m")
        : new OpenAIChatCompletionsModel(client, "m"),
  });
}

describe.each(["responses", "chat"] as const)("the Agents SDK over %s", (api) => {
  test.each([true, false])(
    "runs both tools and is done; its calls are one tree (stream: %s)",
    async (stream) => {
      const under = await startTwoTools({ gateway: { way: "token-in" } });
      const agent = agentOf(under, api);
      if (stream) {
        const streamed = await run(agent, "go", { stream: true });
        await streamed.completed;
        expect(streamed.finalOutput).toBe("all done");
      } else expect((await run(agent, "go")).finalOutput).toBe("all done");
      const [one, other, ...more] = await under.calls("r1");
      expect(more).toEqual([]);
      expect(other).toMatchObject({ parentCallId: one?.callId, rootReason: null, way: "token-in" });
      const results = (other?.messages ?? []).filter(({ role }) => role === "tool");
      expect(results.map((message) => message["content"])).toEqual(["read ran", "list ran"]);
    },
  );
});
