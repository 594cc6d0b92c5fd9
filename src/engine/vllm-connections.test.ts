import { describe, expect, it } from "vitest";
import type { EngineChunk, EngineReply } from "./engine.ts";
import { poolOptions } from "./engine-http.ts";
import type { Fault, StandInOptions } from "./stand-in.ts";
import { until } from "./testing/ask.ts";
import {
  ANSWER,
  ASK,
  ask,
  canned,
  connect,
  faulty,
  listen,
  ids,
  only,
  refusal,
  start,
} from "./testing/asking.ts";
import { recordedBody } from "./testing/recorded.ts";

describe("a client that goes away (litellm 30244)", () => {
  async function leave(
    faults: readonly Fault[],
    options: { stream: boolean; standIn?: StandInOptions; after?: (chunk: EngineChunk) => boolean },
  ): Promise<{ reply: EngineReply; seenAfterMs: number }> {
    const { engine, standIn } = await start({ ...options.standIn, script: () => faults });
    const client = new AbortController();
    let leftAt = 0;
    const go = (): void => {
      leftAt = performance.now();
      client.abort(new Error("the client went away"));
    };
    const asking = engine.chat({
      body: ASK,
      stream: options.stream,
      signal: client.signal,
      onChunk: (chunk) => {
        if (options.after?.(chunk) === true) go();
      },
    });
    if (options.after === undefined) {
      await until(() => standIn.requests.length === 1);
      setTimeout(go, 50);
    }
    const reply = await asking;
    await until(() => standIn.requests[0]?.clientGoneAt !== null, 1_000);
    return { reply, seenAfterMs: (standIn.requests[0]?.clientGoneAt ?? Infinity) - leftAt };
  }

  const slow = { delayMs: 300 };
  const hang: Fault[] = [{ kind: "hang" }];
  const stall: Fault[] = [ANSWER, { kind: "stall", afterTokens: 2 }];

  it.each([
    ["before the head of a whole answer", hang, { stream: false }],
    ["before the first byte of a stream", hang, { stream: true }],
    ["in a whole answer", stall, { stream: false }],
    ["while a whole answer is sampled", [ANSWER], { stream: false, standIn: slow }],
  ] as const)("is seen by the engine within a second: %s", async (_name, faults, options) => {
    const { reply, seenAfterMs } = await leave(faults, options);
    expect(seenAfterMs).toBeLessThan(1_000);
    expect(reply).toMatchObject({
      ending: "aborted",
      error: { message: "the client went away" },
      choices: [],
    });
  });

  it("is seen by the engine in the middle of a stream, and what was handed on is kept", async () => {
    const { reply, seenAfterMs } = await leave([ANSWER], {
      stream: true,
      standIn: { delayMs: 30 },
      after: ({ json }) => JSON.stringify(json).includes("t6"),
    });
    expect(seenAfterMs).toBeLessThan(1_000);
    expect(reply).toMatchObject({ ending: "aborted", usage: null });
    expect(only(reply)).toMatchObject({
      tokenIds: Uint32Array.of(5, 6),
      finishReason: null,
      untrainable: null,
    });
    expect(only(reply).logprobs).toHaveLength(2);
    expect(only(reply).message).toEqual({ role: "assistant", content: "t5 t6" });
  });

  it("is seen by the engine while a stream stalls", async () => {
    const { reply, seenAfterMs } = await leave(stall, { stream: true });
    expect(seenAfterMs).toBeLessThan(1_000);
    expect(reply.ending).toBe("aborted");
    expect(ids(only(reply))).toEqual([5, 6]);
  });

  it("leaves out chunks that had come but were not handed on", async () => {
    const { engine } = await faulty(ANSWER);
    const client = new AbortController();
    const reply = await engine.chat({
      body: ASK,
      stream: true,
      signal: client.signal,
      onChunk: ({ json }) => {
        if (JSON.stringify(json).includes("t5")) client.abort();
      },
    });
    expect(reply.ending).toBe("aborted");
    expect(ids(only(reply))).toEqual([5]);
  });

  it("leaves before its first token: no ids, and nothing that must not train", async () => {
    const { reply } = await leave([ANSWER, { kind: "stall", afterTokens: 0 }], { stream: true });
    expect(reply.promptTokenIds).toEqual(Uint32Array.of(10, 11));
    expect(only(reply)).toMatchObject({ tokenIds: new Uint32Array(), untrainable: null });
  });

  it("is no reason to ask: a signal that has fired already asks nothing", async () => {
    const { engine, standIn } = await start();
    const { reply } = await ask(engine, { signal: AbortSignal.abort() });
    expect(reply.ending).toBe("aborted");
    expect(standIn.requests).toEqual([]);
  });
});

describe("connections", () => {
  it("have no hidden limit on how long an engine may think (undici 1937)", () => {
    const options = poolOptions({ url: "http://127.0.0.1:1" });
    expect(options).toMatchObject({ headersTimeout: 0, bodyTimeout: 0, pipelining: 1, connections: null });
  });

  it("are kept alive from call to call, streamed or whole", async () => {
    const sockets = new Set<unknown>();
    const body = recordedBody("chat_capture_stream");
    const url = await listen((request, response) => {
      sockets.add(request.socket);
      request.resume().once("end", () => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(body.slice(0, -20));
        setTimeout(() => response.end(body.slice(-20)), 5);
      });
    });
    const engine = connect(url);
    for (let call = 0; call < 5; call++) {
      expect((await ask(engine, { stream: true })).reply.ending).toBe("complete");
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(sockets.size).toBe(1);
  });

  it("do not wait for a stream that stays open after its [DONE]", async () => {
    let closed = false;
    const url = await listen((request, response) => {
      request.socket.once("close", () => (closed = true));
      request.resume().once("end", () => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(recordedBody("chat_capture_stream"));
      });
    });
    const started = performance.now();
    expect((await ask(connect(url), { stream: true })).reply.ending).toBe("complete");
    expect(performance.now() - started).toBeLessThan(900);
    await until(() => closed, 2_500);
  });

  it("do not go through a proxy that the environment names", async () => {
    const before = process.env["HTTP_PROXY"];
    process.env["HTTP_PROXY"] = "http://127.0.0.1:1";
    process.env["http_proxy"] = "http://127.0.0.1:1";
    try {
      const { engine } = await start();
      expect((await ask(engine)).reply.ending).toBe("complete");
    } finally {
      if (before === undefined) delete process.env["HTTP_PROXY"];
      else process.env["HTTP_PROXY"] = before;
      delete process.env["http_proxy"];
    }
  });
});

describe("other questions", () => {
  it("re-score an exact row to a difference of 0", async () => {
    for (const mode of ["sampler", "counters"] as const) {
      const { engine } = await start({ mode });
      const { reply } = await ask(engine, { body: { min_tokens: 10 } });
      const row = Uint32Array.of(...(reply.promptTokenIds ?? []), ...only(reply).tokenIds);
      const scored = await engine.rescore(row);
      expect(scored.slice(-only(reply).tokenIds.length)).toEqual(only(reply).logprobs);
      expect(scored[0]).toBeNaN();
    }
  });

  it("re-score nothing and single ids without asking", async () => {
    const engine = connect("http://127.0.0.1:1");
    expect(await engine.rescore(new Uint32Array())).toEqual(new Float32Array());
    expect([...(await engine.rescore(Uint32Array.of(4)))]).toEqual([Number.NaN]);
  });

  it("say when an engine has no prompt log-probs", async () => {
    const engine = await canned(recordedBody("completions_ids_whole"), "application/json");
    const error = await refusal(engine.rescore(Uint32Array.of(1, 2, 3)));
    expect(error).toMatchObject({ code: "engine_error" });
    expect(error.message).toContain("told no prompt log-probs for 3 ids");
  });

  it("turn ids into text, or say null and never throw", async () => {
    const { engine, standIn } = await start();
    expect(await engine.detokenize(Uint32Array.of(5, 6))).toBe("t5 t6");
    expect(await engine.detokenize(new Uint32Array())).toBe("");
    expect(await engine.detokenize(Uint32Array.of(4_000_000_000))).toBeNull();
    expect(await (await canned("<html>", "text/html")).detokenize(Uint32Array.of(1))).toBeNull();
    expect(await engine.detokenize(Uint32Array.of(5), AbortSignal.abort())).toBeNull();
    await standIn.close();
    expect(await engine.detokenize(Uint32Array.of(5))).toBeNull();
  });

  it("list the stand-in's model, and time out when nobody answers", async () => {
    const { engine } = await start({ model: "policy", maxModelLength: 4096 });
    expect(await engine.models()).toEqual([{ id: "policy", maxModelLength: 4096 }]);
    const waiting = connect(await listen(() => undefined));
    expect(await refusal(waiting.models(AbortSignal.timeout(50)))).toMatchObject({
      code: "engine_timeout",
      status: 504,
    });
  });
});
