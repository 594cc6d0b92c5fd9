import Anthropic, { APIError } from "@anthropic-ai/sdk";
import { describe, expect, test } from "vitest";
import { startUnderTest, type UnderTest } from "./testing/gateway-under-test.ts";
import { rawPost } from "./testing/raw-client.ts";
import { MAX_TOKENS, startTwoTools, straightFromEngine, type ReadAnswer } from "./testing/two-tool-answer.ts";

function client(under: UnderTest): Anthropic {
  return new Anthropic({ apiKey: "EMPTY", maxRetries: 0, baseURL: `${under.url}/r/r1` });
}

const ASK = { model: "asked", max_tokens: MAX_TOKENS, messages: [{ role: "user", content: "go" }] } as const;

function asking(content: string): Anthropic.MessageCreateParamsNonStreaming {
  return { model: "asked", max_tokens: 50, messages: [{ role: "user", content }] };
}

/** What a user of the client reads. */
function read({ content, usage }: Anthropic.Message): ReadAnswer {
  const texts = (kind: "thinking" | "text"): string =>
    content
      .map((block) =>
        block.type === "thinking" && kind === "thinking"
          ? block.thinking
          : block.type === "text" && kind === "text"
            ? block.text
            : "",
      )
      .join("");
  return {
    reasoning: texts("thinking"),
    text: texts("text"),
    calls: content.flatMap((block) =>
      block.type === "tool_use" ? [{ id: block.id, name: block.name, input: block.input }] : [],
    ),
    tokens: {
      input: usage.input_tokens + (usage.cache_read_input_tokens ?? 0),
      output: usage.output_tokens,
    },
  };
}

describe("the official client of the Messages API", () => {
  test("reads thinking, text and two tool calls as the engine's own API gives them, whole and streamed", async () => {
    const under = await startTwoTools();
    const engine = await straightFromEngine(under);
    const whole = await client(under).messages.create({ ...ASK, messages: [...ASK.messages] });
    expect(read(whole)).toEqual(engine);
    expect(whole).toMatchObject({ model: "asked", stop_reason: "tool_use", stop_sequence: null });
    const streamed = await client(under)
      .messages.stream({ ...ASK, messages: [...ASK.messages] })
      .finalMessage();
    expect(read(streamed)).toEqual(engine);
    expect(streamed.content).toEqual(whole.content);
    const calls = await under.calls("r1");
    expect(calls.map(({ responseId }) => responseId)).toEqual([whole.id, streamed.id]);
  });

  test("goes on from its own blocks, and the second call hangs under the first", async () => {
    const under = await startTwoTools({ gateway: { way: "token-in" } });
    const anthropic = client(under);
    const first = await anthropic.messages.stream({ ...ASK, messages: [...ASK.messages] }).finalMessage();
    const second = await anthropic.messages.create({
      ...ASK,
      messages: [
        ...ASK.messages,
        { role: "assistant", content: first.content },
        {
          role: "user",
          content: read(first).calls.map(({ id }) => ({
            type: "tool_result" as const,
            tool_use_id: id,
            content: [{ type: "text" as const, text: "ok" }],
          })),
        },
      ],
    });
    expect(read(second).text).toBe("all done");
    const [one, other] = await under.calls("r1");
    expect(other).toMatchObject({ parentCallId: one?.callId, rootReason: null, way: "token-in" });
    expect(other?.notes.join()).not.toContain("client_rewrote");
  });

  test("counts the tokens of a prompt as the call itself is billed, in bursts too", async () => {
    const under = await startTwoTools();
    const anthropic = client(under);
    const { usage } = await anthropic.messages.create({ ...ASK, messages: [...ASK.messages] });
    const counts = await Promise.all(
      Array.from({ length: 25 }, () =>
        anthropic.messages.countTokens({ model: "asked", messages: [...ASK.messages] }),
      ),
    );
    expect(counts.map(({ input_tokens: count }) => count)).toEqual(Array(25).fill(usage.input_tokens));
    expect(await under.calls("r1")).toHaveLength(1);
  });

  test("is told what is wrong in its own words, before a stream and inside one", async () => {
    const under = await startUnderTest();
    const anthropic = client(under);
    const refused = anthropic.messages.create(asking("@@fault:http429@@"));
    await expect(refused).rejects.toMatchObject({ status: 429, type: "rate_limit_error" });
    const wrong = anthropic.messages.create({ ...asking("x"), max_tokens: 0 });
    await expect(wrong).rejects.toMatchObject({ status: 400, error: { type: "error" } });
    const stream = anthropic.messages.stream(asking("@@fault:error_event=3@@"));
    await expect(stream.finalMessage()).rejects.toBeInstanceOf(APIError);
    const [, , broken] = await under.calls("r1");
    expect(broken ?? (await under.calls("r1")).at(-1)).toMatchObject({ status: "aborted" });
  });

  test("never gets a clean end where the engine broke off", async () => {
    for (const fault of ["cut=3", "end_early=3", "broken_frame=3"]) {
      const under = await startUnderTest();
      const stream = await client(under).messages.create({ ...asking(`@@fault:${fault}@@`), stream: true });
      const types: string[] = [];
      const reading = (async () => {
        for await (const event of stream) types.push(event.type);
      })();
      await expect(reading).rejects.toThrow();
      expect(types).not.toContain("message_stop");
    }
  });

  test("reads that its prompt was too long in the words by which agents compact", async () => {
    const under = await startUnderTest({ standIn: { maxModelLength: 8 } });
    const long = client(under).messages.create(asking("a b c d e f g h i j k l m n"));
    await expect(long).rejects.toThrow(/prompt is too long: \d+ tokens > 8 maximum/);
    await expect(long).rejects.toMatchObject({ status: 400, type: "invalid_request_error" });
  });

  test("lists models in its own shape, and any name is one", async () => {
    const under = await startUnderTest();
    const list = await client(under).models.list();
    expect(list.data).toMatchObject([{ type: "model", id: "stand-in" }]);
    expect(await client(under).models.retrieve("some-name")).toMatchObject({ id: "some-name" });
  });

  test("gets pings while nothing is said, and the answer behind them", async () => {
    const under = await startUnderTest({
      standIn: { script: () => ({ kind: "slow", delayMs: 120 }) },
      gateway: { heartbeatMs: 30 },
    });
    const call = await rawPost(under.url, "/r/r1/v1/messages", {
      ...asking("x"),
      max_tokens: 2,
      stream: true,
    });
    await call.until("event: message_stop");
    expect(call.received()).toMatch(/event: message_start\n[^]*event: ping\n[^]*event: content_block_delta/);
    expect(call.received().match(/event: message_start/g)).toHaveLength(1);
    expect(call.received()).not.toContain("\n: keep-alive");
    call.leave();
  });
});
