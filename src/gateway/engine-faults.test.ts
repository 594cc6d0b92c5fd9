import { describe, expect, test } from "vitest";
import { CoppiceError } from "../errors.ts";
import { rolloutId, type Call } from "../lineage/call.ts";
import {
  errorOf,
  eventually,
  framesOf,
  startUnderTest,
  type Json,
  type UnderTest,
} from "./testing/gateway-under-test.ts";
import { rawPost } from "./testing/raw-client.ts";
import { chunk, replyOf, withChat } from "./testing/scripted-engine.ts";

async function only(under: UnderTest, rollout = "r1"): Promise<Call> {
  const [call] = await under.calls(rollout);
  return call as Call;
}

describe("an engine that fails before the first byte", () => {
  test.each([false, true])(
    "answers with its own status and words, and the call has failed (stream: %s)",
    async (stream) => {
      const under = await startUnderTest();
      const answered = await under.chat("r1", "@@fault:http400@@", { stream });
      expect(answered.status).toBe(400);
      expect(answered.headers.get("content-type")).toContain("application/json");
      expect(errorOf(answered)).toMatchObject({ code: 400, type: expect.any(String) as string });
      expect(errorOf(answered)["message"]).toEqual(expect.any(String));
      expect(answered.headers.get("x-coppice-call-id")).toBe((await only(under)).callId);
      expect(await only(under)).toMatchObject({ status: "failed", address: null });
      const rollout = await under.ledger.rollout({ rolloutId: rolloutId("r1"), attempt: null });
      expect(rollout?.counts).toMatchObject({ admitted: 1, failed: 1, unknown: 0 });
    },
  );

  test("a prompt that is too long is a 400 in the engine's words, which clients know by heart", async () => {
    const under = await startUnderTest({ standIn: { maxModelLength: 20 } });
    const answered = await under.chat("r1", "word ".repeat(50));
    expect(answered.status).toBe(400);
    expect(errorOf(answered)["message"]).toMatch(/maximum context length is 20 tokens/);
  });

  test.each([false, true])(
    "an error inside an answer with status 200 is an error (stream: %s)",
    async (stream) => {
      const under = await startUnderTest();
      const answered = await under.chat("r1", "@@fault:error_first@@", { stream });
      expect(answered.status).toBe(503);
      expect((await only(under)).status).toBe("failed");
    },
  );

  test("a 429 goes on with its retry-after", async () => {
    const under = await startUnderTest();
    const answered = await under.chat("r1", "@@fault:http429@@");
    expect([answered.status, answered.headers.get("retry-after")]).toEqual([429, "1"]);
  });

  test.each(["refuse", "garbage", "truncated", "html"])(
    "%s is a 502 in the caller's dialect",
    async (fault) => {
      const under = await startUnderTest();
      for (const stream of [false, true]) {
        const answered = await under.chat("r1", `@@fault:${fault}@@`, { stream });
        expect(answered.status).toBe(502);
        expect(errorOf(answered)["type"]).toBe("engine_error");
      }
      expect((await under.calls("r1")).map((call) => call.status)).toEqual(["failed", "failed"]);
    },
  );

  test("an engine that is not there is a 502, and the log names neither prompt nor key", async () => {
    const under = await startUnderTest();
    await under.chat("r1", "once, so that the model's name is known");
    await under.standIn.close();
    const answered = await under.send(
      "POST",
      "/r/r1/v1/chat/completions",
      { messages: [{ role: "user", content: "a secret prompt" }] },
      { authorization: "Bearer a-secret-key" },
    );
    expect(answered.status).toBe(502);
    expect(errorOf(answered)["code"]).toBe("engine_unreachable");
    expect(JSON.stringify(under.logged)).not.toContain("secret");
    expect(under.logged.at(-1)).toMatchObject({
      event: "request_failed",
      fields: { code: "engine_unreachable" },
    });
  });

  test("an engine that hangs leaves the admitted record to be seen, and the deadline ends the call with a 504 (openhermit 280)", async () => {
    const under = await startUnderTest({ gateway: { callDeadlineMs: 400 } });
    const waiting = under.chat("r1", "@@fault:hang@@");
    const view = await eventually("the call is admitted", async () => {
      const { json } = await under.send("GET", "/rollouts/r1");
      return (json?.["calls"] as Json[] | undefined)?.[0];
    });
    expect(view).toMatchObject({ status: "admitted", settled_order: null });
    const answered = await waiting;
    expect(answered.status).toBe(504);
    expect(errorOf(answered)["message"]).toContain("400 ms");
    expect((await only(under)).status).toBe("failed");
    await eventually("the engine sees the close", () => under.standIn.requests.at(-1)?.clientGoneAt !== null);
  });
});

describe("an engine that fails in the middle of a stream", () => {
  test.each(["cut=3", "cut_character=3", "end_early=3", "error_event=3", "broken_frame=3"])(
    "%s: the client is told in an event, and the stream does not end as if it were whole",
    async (fault) => {
      const under = await startUnderTest();
      const call = await rawPost(under.url, "/r/r1/v1/chat/completions", {
        stream: true,
        max_tokens: 20,
        ignore_eos: true,
        messages: [{ role: "user", content: `@@fault:${fault}@@` }],
      });
      await call.closed;
      expect(call.received()).toContain('data: {"error":{"message":');
      expect(call.received()).not.toContain("[DONE]");
      // Chunked encoding ends with an empty chunk: its absence is what tells a client that this is no end.
      expect(call.received()).not.toMatch(/\r\n0\r\n\r\n$/);
      const record = await only(under);
      expect(record.status).toBe("aborted");
      expect(record.statusDetail).toContain("the engine broke off");
      expect(record.generatedLength).toBeGreaterThan(0);
      expect(record.untrainable).toBeNull();
    },
  );

  test("before any token was delivered, the call has failed: nobody can go on from it", async () => {
    const under = await startUnderTest({
      engine: (engine) =>
        withChat(engine, async (request) => {
          const head = {
            ...chunk(""),
            choices: [{ index: 0, delta: { role: "assistant" }, finish_reason: null }],
          };
          await request.onChunk?.({ json: head, terminal: false });
          return replyOf("broken", 0, { error: new Error("died") });
        }),
    });
    const call = await rawPost(under.url, "/r/r1/v1/chat/completions", {
      stream: true,
      messages: [{ role: "user", content: "x" }],
    });
    await call.closed;
    expect(call.received()).toContain("died");
    expect(await only(under)).toMatchObject({ status: "failed", generatedLength: 0 });
  });

  test("that tells no log-probs: what was delivered cannot be counted, so all of it stands and none of it trains", async () => {
    const bare = {
      ...chunk("some text"),
      choices: [{ index: 0, delta: { content: "some text" }, finish_reason: null }],
    };
    const under = await startUnderTest({
      engine: (engine) =>
        withChat(engine, async (request) => {
          await request.onChunk?.({ json: bare, terminal: false });
          return replyOf("broken", 4, { error: new Error("died") });
        }),
    });
    const call = await rawPost(under.url, "/r/r1/v1/chat/completions", {
      stream: true,
      messages: [{ role: "user", content: "x" }],
    });
    await call.closed;
    const record = await only(under);
    expect(record).toMatchObject({ status: "aborted", generatedLength: 4, answer: { content: "some text" } });
    expect(record.untrainable).toContain("not known");
  });

  test("without [DONE] but finished, the answer is whole", async () => {
    const under = await startUnderTest();
    const answered = await under.chat("r1", "@@fault:no_done@@", { stream: true });
    expect(framesOf(answered.text).at(-1)).toBe("[DONE]");
    expect(await only(under)).toMatchObject({ status: "committed", untrainable: null });
  });
});

describe("an engine that does not tell the truth", () => {
  test.each([
    "ids=-1",
    "logprobs=-2",
    "usage=3",
    "nan=1",
    "negative_infinity=0",
    "minus_9999=0",
    "null_logprob=0",
  ])("%s: the agent gets its answer and the call must not train, with the reason", async (fault) => {
    const under = await startUnderTest();
    for (const stream of [false, true]) {
      const answered = await under.chat("r1", `@@fault:${fault}@@`, { stream });
      expect(answered.status).toBe(200);
    }
    for (const call of await under.calls("r1")) {
      expect(call.status).toBe("committed");
      expect(call.untrainable).toEqual(expect.any(String));
      expect(call.address).not.toBeNull();
    }
  });

  test("ids only where it does not stream: the agent gets its stream, the call is untrainable (sglang 30917)", async () => {
    const under = await startUnderTest();
    const answered = await under.chat("r1", "@@fault:no_ids_stream@@", { stream: true });
    expect(framesOf(answered.text).at(-1)).toBe("[DONE]");
    expect((await only(under)).untrainable).toEqual(expect.any(String));
  });

  test("a choice that it leaves out has failed, and one too many makes the others doubtful", async () => {
    const json = {
      choices: [{ index: 0, message: { role: "assistant", content: "x" }, finish_reason: "stop" }],
    };
    const under = await startUnderTest({
      engine: (engine) => withChat(engine, () => Promise.resolve(replyOf("complete", 2, { json }))),
    });
    await under.chat("short", "x", { n: 2 });
    expect((await under.calls("short")).map((call) => [call.status, call.statusDetail])).toEqual([
      ["committed", null],
      ["failed", "the engine gave no choice 1"],
    ]);
    const two = replyOf("complete", 2);
    const many = { ...two, json, choices: [0, 1].map((index) => ({ ...two.choices[0], index })) };
    const over = await startUnderTest({
      engine: (engine) => withChat(engine, () => Promise.resolve(many as never)),
    });
    await over.chat("long", "x");
    expect((await only(over, "long")).untrainable).toBe("the engine gave 2 choices where 1 were asked for");
  });
});

describe("an engine that answers whole what was to be streamed", () => {
  test("is streamed from, with heartbeats meanwhile", async () => {
    const message = {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "call_1", type: "function", function: { name: "f", arguments: "{}" } }],
    };
    const json = {
      id: "x",
      object: "chat.completion",
      created: 1,
      model: "m",
      choices: [{ index: 0, message, logprobs: null, finish_reason: "tool_calls" }],
      usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
    };
    const under = await startUnderTest({
      gateway: { heartbeatMs: 50 },
      engine: (engine) =>
        withChat(engine, async () => {
          await new Promise((resolve) => setTimeout(resolve, 180));
          return replyOf("complete", 2, { json });
        }),
    });
    const answered = await under.chat("r1", "x", { stream: true });
    expect(answered.text.startsWith(": keep-alive\n\n")).toBe(true);
    const [content, end, done] = framesOf(answered.text) as [Json, Json, string];
    expect(content).toMatchObject({
      object: "chat.completion.chunk",
      choices: [
        { delta: { role: "assistant", tool_calls: [{ index: 0, id: "call_1" }] }, finish_reason: null },
      ],
    });
    expect(end).toMatchObject({ choices: [{ delta: {}, finish_reason: "tool_calls" }] });
    expect(done).toBe("[DONE]");
    expect(answered.headers.get("x-coppice-call-id")).toBe((await only(under)).callId);
  });
});

describe("silence", () => {
  test("in a stream is broken by heartbeats between whole events, and by nothing where tokens flow (verifiers 1688)", async () => {
    const under = await startUnderTest({ gateway: { heartbeatMs: 60 } });
    const slow = await under.chat("r1", "@@fault:slow=150@@", { stream: true, max_tokens: 3 });
    const events = slow.text.split("\n\n").filter((event) => event !== "");
    expect(events.filter((event) => event === ": keep-alive").length).toBeGreaterThan(2);
    for (const event of events) expect(event).toMatch(/^(: keep-alive|data: (\{.*\}|\[DONE\]))$/);
    const quick = await under.chat("r1", "quick", { stream: true });
    expect(quick.text).not.toContain("keep-alive");
  });

  test("before the first token sends heartbeats too; a failure after that is an event", async () => {
    const under = await startUnderTest({
      gateway: { heartbeatMs: 40 },
      engine: (engine) =>
        withChat(engine, async () => {
          await new Promise((resolve) => setTimeout(resolve, 150));
          throw new CoppiceError("engine_unreachable", "gone meanwhile");
        }),
    });
    const call = await rawPost(under.url, "/r/r1/v1/chat/completions", {
      stream: true,
      messages: [{ role: "user", content: "x" }],
    });
    await call.closed;
    expect(call.received()).toContain(": keep-alive");
    expect(call.received()).toContain("gone meanwhile");
    expect(call.received()).not.toContain("[DONE]");
    expect((await only(under)).status).toBe("failed");
  });
});
