import { describe, expect, it } from "vitest";
import type { Fault } from "./stand-in.ts";
import { until } from "./testing/ask.ts";
import {
  ANSWER,
  ASK,
  BOTH,
  ask,
  canned,
  connect,
  faulty,
  freePort,
  ids,
  only,
  refusal,
  start,
} from "./testing/asking.ts";

describe("answers that break off", () => {
  const broken: [string, Fault, string][] = [
    [
      "in the middle of an event",
      { kind: "cut", afterTokens: 2, inside: "event" },
      "the engine's stream broke off",
    ],
    [
      "inside a character",
      { kind: "cut", afterTokens: 2, inside: "character" },
      "the engine's stream broke off",
    ],
    [
      "in good order before the finish",
      { kind: "end_early", afterTokens: 2 },
      "ended before every choice had told its finish",
    ],
    [
      "with a frame that is no JSON",
      { kind: "broken_frame", afterTokens: 2 },
      "frame 4 of the engine's stream is not JSON",
    ],
    ["with an error event", { kind: "error_event", afterTokens: 2, status: 500 }, "Internal server error"],
  ];

  it.each(broken)("keep what was sampled when they end %s", async (_name, fault, message) => {
    const content = fault.kind === "cut" && fault.inside === "character" ? "t5 t6世" : "t5 t6 t7 t8";
    const { engine } = await faulty({ kind: "answer", answer: { content } }, fault);
    const { reply, chunks } = await ask(engine, { stream: true });
    expect(reply.ending).toBe("broken");
    expect(reply.error?.message).toContain(message);
    expect(ids(only(reply))).toEqual([5, 6]);
    expect(only(reply).message).toEqual({ role: "assistant", content: "t5 t6" });
    expect(only(reply).untrainable).toContain("no terminal event");
    expect(reply.promptTokenIds).toEqual(Uint32Array.of(10, 11));
    expect(chunks).toHaveLength(3);
  });

  it("keep the error's own status and words", async () => {
    const { engine } = await faulty(ANSWER, { kind: "error_event", afterTokens: 2, status: 503 });
    const { reply } = await ask(engine, { stream: true });
    expect(reply.error).toMatchObject({
      code: "engine_error",
      status: 503,
      detail: { type: "InternalServerError" },
    });
  });

  it("close the engine's connection when a chunk cannot be handed on", async () => {
    const { engine, standIn } = await start({ delayMs: 20, script: () => ANSWER });
    const reply = await engine.chat({
      body: ASK,
      stream: true,
      signal: new AbortController().signal,
      onChunk: ({ json }) => {
        if (JSON.stringify(json).includes("t6")) throw new Error("the client is not there");
      },
    });
    expect(reply).toMatchObject({ ending: "broken", error: { message: "the client is not there" } });
    expect(ids(only(reply))).toEqual([5, 6]);
    await until(() => standIn.requests[0]?.clientGoneAt !== null, 1_000);
  });

  it("are no answer where one event is larger than the limit", async () => {
    const { engine } = await start({ script: () => ANSWER }, { maxAnswerBytes: 400 });
    const { reply } = await ask(engine, { stream: true, body: { top_logprobs: 5 } });
    expect(reply.error?.message).toContain("more than 400 bytes");
    const error = await refusal(ask(engine));
    expect(error).toMatchObject({
      code: "engine_error",
      message: "the engine's answer has more than 400 bytes",
    });
  });
});

describe("refusals before anything was sampled", () => {
  it("say where the engine should be when nobody is there", async () => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    for (const { stream } of BOTH) {
      const error = await refusal(ask(connect(url), { stream }));
      expect(error).toMatchObject({ code: "engine_unreachable", status: 502 });
      expect(error.message).toBe(
        `the engine at ${url} cannot be reached (connect ECONNREFUSED 127.0.0.1:${port}): is the engine running?`,
      );
    }
    const unknown = await refusal(ask(connect("http://engine.invalid:8000")));
    expect(unknown).toMatchObject({ code: "engine_unreachable" });
    expect(unknown.message).toContain("http://engine.invalid:8000 cannot be reached");
  });

  it("tell a connection that was closed in place of an answer from one that never was", async () => {
    const { engine } = await faulty({ kind: "refuse" });
    const error = await refusal(ask(engine));
    expect(error).toMatchObject({ code: "engine_unreachable" });
    expect(error.message).toContain("closed the connection before it answered");
  });

  it.each([400, 429, 500, 503])("keep the engine's own status %d and what it says of it", async (status) => {
    const { engine } = await faulty({ kind: "status", status, message: "not now", retryAfter: "7" });
    for (const { stream } of BOTH) {
      const error = await refusal(ask(engine, { stream }));
      expect(error).toMatchObject({ code: "engine_error", status, message: "not now" });
      expect(error.detail).toMatchObject({ status, message: "not now", type: "Error", retry_after: "7" });
    }
  });

  const garbage: [string, Fault, string][] = [
    [
      "HTML",
      { kind: "body", body: "<html>Bad gateway</html>", contentType: "text/html" },
      'begins "<html>Bad gateway</html>"',
    ],
    [
      "truncated JSON",
      { kind: "body", body: '{"id":"x","choices":[{"ind', contentType: "application/json" },
      "is not JSON",
    ],
    ["nothing", { kind: "body", body: "" }, "is not JSON"],
    ["other JSON", { kind: "body", body: '{"ok":true}' }, 'has no list of choices: {"ok":true}'],
    ["choices without messages", { kind: "body", body: '{"choices":[{}]}' }, "has no message in choices[0]"],
  ];

  it.each(garbage)("are an engine_error for %s with status 200", async (_name, fault, message) => {
    const { engine } = await faulty(fault);
    for (const { stream } of BOTH) {
      const error = await refusal(ask(engine, { stream }));
      expect(error).toMatchObject({ code: "engine_error", status: 502 });
      expect(error.message).toContain(message);
    }
  });

  it("are an engine_error for half a body", async () => {
    const { engine } = await faulty(ANSWER, { kind: "cut", afterTokens: 0, inside: "event" });
    const error = await refusal(ask(engine));
    expect(error).toMatchObject({ code: "engine_error", status: 502 });
    expect(error.message).toMatch(/the engine's answer broke off after \d+ bytes/);
  });

  it.each(BOTH)(
    "have the status of an error that stands in a 200 before any token (stream: $stream)",
    async ({ stream }) => {
      const { engine } = await faulty(ANSWER, { kind: "error_event", afterTokens: -1, status: 503 });
      const error = await refusal(ask(engine, { stream }));
      expect(error).toMatchObject({ code: "engine_error", status: 503, message: "Internal server error" });
      expect(error.detail).toMatchObject({ type: "InternalServerError", code: 503 });
    },
  );

  it("read the error envelopes of other servers", async () => {
    const sglang =
      '{"object":"error","message":"The request queue is full.","type":"503","param":null,"code":503}';
    expect(await refusal(ask(await canned(sglang, "application/json", 503)))).toMatchObject({
      status: 503,
      message: "The request queue is full.",
    });
    expect(await refusal(ask(await canned(sglang, "application/json")))).toMatchObject({ status: 503 });
    const bare = await refusal(ask(await canned('{"error":"Unauthorized"}', "application/json", 401)));
    expect(bare).toMatchObject({ status: 401, message: "Unauthorized" });
    const plain = await refusal(ask(await canned('{"detail":"Not Found"}', "application/json", 404)));
    expect(plain.message).toMatch(/^the engine at http:\S+ answered 404: \{"detail":"Not Found"\}$/);
    const redirect = await refusal(ask(await canned("", "text/plain", 307)));
    expect(redirect).toMatchObject({ status: 502 });
  });

  it("are an engine_error for a stream that breaks off before its first chunk", async () => {
    for (const body of ["", ": nothing\n\n", 'data: {"id":', "data: [DONE]\n\n", "data: 7\n\n"]) {
      const error = await refusal(ask(await canned(body, "text/event-stream"), { stream: true }));
      expect(error, body).toMatchObject({ code: "engine_error", status: 502 });
    }
  });
});
