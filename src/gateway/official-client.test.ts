import OpenAI, { APIError } from "openai";
import { describe, expect, test } from "vitest";
import { startUnderTest, type UnderTest } from "./testing/gateway-under-test.ts";

type Params = Omit<OpenAI.Chat.ChatCompletionCreateParamsNonStreaming, "stream" | "model">;

function clients(under: UnderTest): { direct: OpenAI; through: OpenAI } {
  const settings = { apiKey: "EMPTY", maxRetries: 0 };
  return {
    direct: new OpenAI({ ...settings, baseURL: `${under.standIn.url}/v1` }),
    through: new OpenAI({ ...settings, baseURL: `${under.url}/r/r1/v1` }),
  };
}

/** What an agent reads of an answer; ids are made up for each. */
function readable(completion: OpenAI.Chat.ChatCompletion): unknown {
  const { id: _id, created: _created, ...rest } = completion;
  return JSON.parse(
    JSON.stringify(rest, (key, value: unknown) => {
      if (value === null && (key === "token_ids" || key === "prompt_token_ids")) return undefined;
      return key === "id" && typeof value === "string" ? value.replace(/[0-9a-f]{8,}/, "ID") : value;
    }),
  );
}

const TOOLS: OpenAI.Chat.ChatCompletionTool[] = [
  {
    type: "function",
    function: { name: "bash", parameters: { type: "object", properties: { cmd: { type: "string" } } } },
  },
];

const CASES: readonly (readonly [string, Params])[] = [
  ["text", { messages: [{ role: "user", content: "hello" }], seed: 1 }],
  ["a tool call", { messages: [{ role: "user", content: "@@fault:tool@@" }], tools: TOOLS, max_tokens: 60 }],
  ["several choices", { messages: [{ role: "user", content: "hello" }], n: 3, seed: 1 }],
  ["log-probs", { messages: [{ role: "user", content: "hello" }], logprobs: true, top_logprobs: 1, seed: 1 }],
];

describe("the official client", () => {
  test.each(CASES)("reads %s through the gateway as straight from the engine", async (_name, params) => {
    const { direct, through } = clients(await startUnderTest());
    const one = await direct.chat.completions.create({ model: "m", ...params });
    const other = await through.chat.completions.create({ model: "m", ...params });
    expect(readable(other)).toEqual(readable(one));
    expect(other.id).toMatch(/^chatcmpl-/);
  });

  test.each(CASES)("streams %s to the same end as straight from the engine", async (_name, params) => {
    const { direct, through } = clients(await startUnderTest());
    const one = await direct.chat.completions.stream({ model: "m", ...params }).finalChatCompletion();
    const other = await through.chat.completions.stream({ model: "m", ...params }).finalChatCompletion();
    expect(readable(other)).toEqual(readable(one));
  });

  test("reads usage where it asked for it, and `choices: []` crashes nobody", async () => {
    const { through } = clients(await startUnderTest());
    const stream = await through.chat.completions.create({
      model: "m",
      messages: [{ role: "user", content: "hello" }],
      stream: true,
      stream_options: { include_usage: true },
    });
    let usage: OpenAI.CompletionUsage | null = null;
    for await (const chunk of stream) usage = chunk.usage ?? usage;
    expect(usage?.completion_tokens).toBeGreaterThan(0);
  });

  test("gets errors as errors: before the stream, and in the middle of it", async () => {
    const { through } = clients(await startUnderTest());
    const ask = (fault: string) =>
      through.chat.completions.create({
        model: "m",
        messages: [{ role: "user", content: `@@fault:${fault}@@` }],
        stream: true,
        max_tokens: 20,
      });
    await expect(ask("http400")).rejects.toMatchObject({ status: 400 });
    const texts: string[] = [];
    const reading = (async () => {
      for await (const chunk of await ask("error_event=2")) texts.push(chunk.choices[0]?.delta.content ?? "");
    })();
    await expect(reading).rejects.toBeInstanceOf(APIError);
    expect(texts.join("")).not.toBe("");
  });

  test("lists models, and gives its call id to who asks for the response", async () => {
    const under = await startUnderTest({ standIn: { model: "policy" } });
    const { through } = clients(under);
    expect((await through.models.list()).data.map(({ id }) => id)).toEqual(["policy"]);
    const { response } = await through.chat.completions
      .create({ model: "m", messages: [{ role: "user", content: "hello" }] })
      .withResponse();
    expect(response.headers.get("x-coppice-call-id")).toBe((await under.calls("r1"))[0]?.callId);
  });
});
