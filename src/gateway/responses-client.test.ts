import OpenAI, { APIError } from "openai";
import { describe, expect, test } from "vitest";
import { startUnderTest, type UnderTest } from "./testing/gateway-under-test.ts";
import { MAX_TOKENS, startTwoTools, straightFromEngine, type ReadAnswer } from "./testing/two-tool-answer.ts";

function client(under: UnderTest, rollout = "r1"): OpenAI {
  return new OpenAI({ apiKey: "EMPTY", maxRetries: 0, baseURL: `${under.url}/r/${rollout}/v1` });
}

const ASK = { model: "asked", input: "go", max_output_tokens: MAX_TOKENS } as const;

/** What a user of the client reads. */
function read(response: OpenAI.Responses.Response): ReadAnswer {
  return {
    reasoning: response.output
      .flatMap((item) => (item.type === "reasoning" ? (item.content ?? []) : []))
      .map(({ text }) => text)
      .join(""),
    text: response.output_text,
    calls: response.output.flatMap((item) =>
      item.type === "function_call"
        ? [{ id: item.call_id, name: item.name, input: JSON.parse(item.arguments) as unknown }]
        : [],
    ),
    tokens: { input: response.usage?.input_tokens ?? 0, output: response.usage?.output_tokens ?? 0 },
  };
}

/** The calls that the answer made, each answered. */
function resultsOf({ output }: OpenAI.Responses.Response): OpenAI.Responses.ResponseInputItem[] {
  return output.flatMap((item) =>
    item.type === "function_call"
      ? [{ type: "function_call_output" as const, call_id: item.call_id, output: "ok" }]
      : [],
  );
}

describe("the official client of the Responses API", () => {
  test("reads reasoning, text and two tool calls as the engine's own API gives them, whole and streamed", async () => {
    const under = await startTwoTools();
    const engine = await straightFromEngine(under);
    const whole = await client(under).responses.create(ASK);
    expect(read(whole)).toEqual(engine);
    expect(whole).toMatchObject({ model: "asked", status: "completed", error: null });
    const streamed = await client(under).responses.stream(ASK).finalResponse();
    expect(read(streamed)).toEqual(engine);
    const calls = await under.calls("r1");
    expect(calls.map(({ responseId }) => responseId)).toEqual([whole.id, streamed.id]);
    expect(calls.map(({ untrainable }) => untrainable)).toEqual([null, null]);
  });

  test("goes on from its own items, and the second call hangs under the first", async () => {
    const under = await startTwoTools({ gateway: { way: "token-in" } });
    const openai = client(under);
    const first = await openai.responses.create(ASK);
    const results = resultsOf(first);
    const input = [{ role: "user", content: "go" } as const, ...first.output, ...results];
    const second = await openai.responses.create({ ...ASK, input: input as OpenAI.Responses.ResponseInput });
    expect(second.output_text).toBe("all done");
    const [one, other] = await under.calls("r1");
    expect(other).toMatchObject({ parentCallId: one?.callId, rootReason: null, way: "token-in" });
  });

  test("goes on by previous_response_id and by item references, whether it asked to store or not", async () => {
    const under = await startTwoTools({ gateway: { way: "token-in" } });
    const openai = client(under);
    const first = await openai.responses.create({ ...ASK, instructions: "be brief", store: false });
    const results = resultsOf(first);
    const second = await openai.responses.create({
      ...ASK,
      instructions: "be brief",
      previous_response_id: first.id,
      input: results,
    });
    const third = await openai.responses.create({
      ...ASK,
      instructions: "be brief",
      input: [
        { role: "user", content: "go" },
        ...first.output.map(({ id }) => ({ type: "item_reference", id: id as string }) as const),
        ...results,
      ],
    });
    const fourth = await openai.responses.create({
      ...ASK,
      instructions: "be brief",
      previous_response_id: third.id,
      input: "and now",
    });
    expect([second.output_text, third.output_text, fourth.output_text]).toEqual(Array(3).fill("all done"));
    const calls = await under.calls("r1");
    expect(calls.map(({ parentCallId }) => parentCallId)).toEqual([
      null,
      calls[0]?.callId,
      calls[0]?.callId,
      calls[2]?.callId,
    ]);
    const elsewhere = client(under, "r2").responses.create({ ...ASK, previous_response_id: first.id });
    await expect(elsewhere).rejects.toThrow(/must be the id of an earlier answer of this rollout/);
  });

  test("is told what is wrong by status and fields, before a stream and inside one", async () => {
    const under = await startUnderTest();
    const openai = client(under);
    await expect(openai.responses.create({ ...ASK, input: "@@fault:http429@@" })).rejects.toMatchObject({
      status: 429,
    });
    await expect(
      openai.responses.create({ ...ASK, tools: [{ type: "file_search", vector_store_ids: [] }] }),
    ).rejects.toMatchObject({ status: 400, param: "tools[0].type" });
    const types: string[] = [];
    const stream = await openai.responses.create({ ...ASK, input: "@@fault:error_event=3@@", stream: true });
    const reading = (async () => {
      for await (const event of stream) types.push(event.type);
    })();
    await expect(reading).rejects.toBeInstanceOf(APIError);
    expect(types.at(0)).toBe("response.created");
    expect(types.at(-1)).toBe("response.failed");
    expect(types).not.toContain("response.completed");
  });

  test("never gets a clean end where the engine broke off or left out its terminator", async () => {
    for (const fault of ["cut=3", "end_early=3"]) {
      const under = await startUnderTest();
      const stream = client(under).responses.stream({ ...ASK, input: `@@fault:${fault}@@` });
      await expect(stream.finalResponse()).rejects.toThrow();
      expect((await under.calls("r1")).map(({ status }) => status)).toEqual(["aborted"]);
    }
  });

  test("reads that its prompt was too long as its own API says it", async () => {
    const under = await startUnderTest({ standIn: { maxModelLength: 8 } });
    const long = client(under).responses.create({ ...ASK, input: "a b c d e f g h i j k l m n" });
    await expect(long).rejects.toMatchObject({ status: 400, code: "context_length_exceeded" });
  });

  test("tries again what failed before the first byte, and no call is recorded twice", async () => {
    const under = await startUnderTest({
      standIn: { script: (_request, count) => (count === 1 ? { kind: "status", status: 503 } : []) },
    });
    const openai = new OpenAI({ apiKey: "EMPTY", maxRetries: 2, baseURL: `${under.url}/r/r1/v1` });
    const response = await openai.responses.create(ASK);
    expect(response.status).toMatch(/completed|incomplete/);
    expect((await under.calls("r1")).map(({ status }) => status)).toEqual(["failed", "committed"]);
  });
});

describe("the official client of the Completions API", () => {
  const prompt = { model: "asked", max_tokens: 4, seed: 1, temperature: 1 } as const;

  test("reads texts, ids in and log-probs as straight from the engine, whole and streamed", async () => {
    const under = await startUnderTest();
    const direct = new OpenAI({ apiKey: "EMPTY", maxRetries: 0, baseURL: `${under.standIn.url}/v1` });
    for (const params of [
      { prompt: "hello there" },
      { prompt: [1, 2, 3], logprobs: 1 },
      { prompt: "x", n: 2 },
    ]) {
      const engine = await direct.completions.create({ ...prompt, ...params });
      const through = await client(under).completions.create({ ...prompt, ...params });
      expect(through.id).toMatch(/^cmpl-/);
      expect(plain(through)).toEqual(plain(engine));
      let streamed = "";
      const stream = await client(under).completions.create({ ...prompt, ...params, stream: true });
      for await (const chunk of stream) if (chunk.choices[0]?.index === 0) streamed += chunk.choices[0].text;
      expect(streamed).toBe(engine.choices[0]?.text);
    }
  });

  test("is recorded as a call with tokens and no messages", async () => {
    const under = await startUnderTest();
    await client(under).completions.create({ ...prompt, prompt: [5, 6, 7] });
    const [call] = await under.calls("r1");
    expect(call).toMatchObject({ status: "committed", untrainable: null, messages: null, messageCount: 0 });
    expect([...(call?.carriedTokenIds ?? [])]).toEqual([5, 6, 7]);
    const generated = [...(call?.generatedTokenIds ?? [])];
    expect(generated).toHaveLength(4);
    await client(under).completions.create({ ...prompt, prompt: [5, 6, 7, ...generated, 8] });
    await client(under).completions.create({ ...prompt, prompt: [9] });
    const [one, two, three] = await under.calls("r1");
    expect([two?.parentCallId, three?.rootReason]).toEqual([one?.callId, { kind: "unknown" }]);
  });

  test("is refused what cannot be recorded", async () => {
    const under = await startUnderTest();
    const echo = client(under).completions.create({ ...prompt, prompt: "x", echo: true });
    await expect(echo).rejects.toMatchObject({ status: 400, param: "echo" });
  });
});

/** Ids are made up for each; what is null may be left out. */
function plain({ id: _id, created: _created, ...rest }: OpenAI.Completion): unknown {
  return JSON.parse(
    JSON.stringify(rest, (key, value: unknown) =>
      value === null || /^(prompt_)?token_ids$/.test(key) ? undefined : value,
    ),
  );
}
