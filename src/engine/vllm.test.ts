import { describe, expect, it } from "vitest";
import type { EngineChunk, EngineReply } from "./engine.ts";
import type { Fault } from "./stand-in.ts";
import {
  ANSWER,
  ASK,
  BOTH,
  ask,
  canned,
  closeAfter,
  connect,
  faulty,
  ids,
  only,
  refusal,
  start,
} from "./testing/asking.ts";
import { startCanned } from "./testing/canned-server.ts";
import { recorded, recordedBody } from "./testing/recorded.ts";
import { vllmEngine } from "./vllm.ts";

describe("answers of a real vLLM 0.32.0, replayed", () => {
  it.each([
    "capture",
    "top2_length",
    "n2",
    "stop",
    "multibyte",
    "required_tool",
    "named_tool_cut",
    "continuous",
  ])("are complete and the same streamed and whole: chat_%s", async (name) => {
    const whole = JSON.parse(recordedBody(`chat_${name}_whole`)) as {
      prompt_token_ids: number[];
      choices: { token_ids: number[]; finish_reason: string; message: Record<string, unknown> }[];
    };
    const body = recorded(`chat_${name}_whole`).request.body as Record<string, unknown>;
    const asked = await ask(await canned(recordedBody(`chat_${name}_whole`), "application/json"), { body });
    const streaming = await canned(recordedBody(`chat_${name}_stream`), "text/event-stream; charset=utf-8");
    const streamed = await ask(streaming, { stream: true, body });
    for (const { reply } of [asked, streamed]) {
      expect(reply).toMatchObject({ ending: "complete", error: null });
      expect([...(reply.promptTokenIds ?? [])]).toEqual(whole.prompt_token_ids);
      expect(reply.choices.map((choice) => ids(choice))).toEqual(
        whole.choices.map((choice) => choice.token_ids),
      );
      expect(reply.choices.map((choice) => choice.finishReason)).toEqual(
        whole.choices.map((choice) => choice.finish_reason),
      );
      expect(reply.choices.every((choice) => choice.logprobs.length === choice.tokenIds.length)).toBe(true);
    }
    expect(asked.reply.choices.map((choice) => choice.untrainable)).toEqual(whole.choices.map(() => null));
    const logprobs = (reply: EngineReply): number[] =>
      reply.choices.flatMap((choice) => [...choice.logprobs]);
    expect(logprobs(streamed.reply)).toEqual(logprobs(asked.reply));
    // Without the usage that the adapter asks for and these recordings lack, the count cannot be checked.
    const told = streamed.reply.usage === null ? "usage.completion_tokens is not told" : null;
    for (const choice of streamed.reply.choices) {
      if (told === null) expect(choice.untrainable).toBeNull();
      else expect(choice.untrainable).toContain(told);
    }
  });

  it("hand on every chunk without its ids, those with an empty delta too", async () => {
    const body = recordedBody("chat_multibyte_stream");
    const { chunks, reply } = await ask(await canned(body, "text/event-stream"), { stream: true });
    expect(JSON.stringify(chunks)).not.toContain("token_ids");
    const told = body.split("\n\n").filter((event) => event.startsWith("data: {"));
    expect(chunks).toHaveLength(told.length);
    const strip = (text: string): unknown => {
      const chunk = JSON.parse(text.slice("data: ".length)) as Record<string, unknown>;
      delete chunk["prompt_token_ids"];
      for (const choice of chunk["choices"] as Record<string, unknown>[]) delete choice["token_ids"];
      return chunk;
    };
    expect(chunks.map((chunk) => chunk.json)).toEqual(told.map(strip));
    expect(only(reply).message).toEqual({ role: "assistant", content: "Repeat exactly: 世界 😀" });
  });

  it("stay readable where the usage chunk has no choices, which is terminal like the finish (headroom 2026)", async () => {
    const body = recordedBody("chat_capture_stream");
    const { chunks } = await ask(await canned(body, "text/event-stream"), { stream: true });
    expect(chunks.map((chunk) => chunk.terminal)).toEqual([
      ...Array.from({ length: 8 }, () => false),
      true,
      true,
    ]);
    expect(chunks.at(-1)?.json["choices"]).toEqual([]);
  });

  it("are refusals with the engine's own words, status, type and param", async () => {
    const { response } = recorded("error_too_long");
    const { error: said } = JSON.parse(response.body) as { error: { message: string } };
    for (const { stream } of BOTH) {
      const error = await refusal(ask(await canned(response.body, "application/json", 400), { stream }));
      expect(error).toMatchObject({
        code: "engine_error",
        status: 400,
        message: said.message,
        param: "input_tokens",
      });
      expect(error.detail).toEqual({
        status: 400,
        message: said.message,
        type: "BadRequestError",
        param: "input_tokens",
        code: 400,
      });
    }
  });

  it("tell the log-prob of each position when re-scored, NaN for the first", async () => {
    const engine = await canned(recordedBody("rescore"), "application/json");
    const { prompt } = recorded("rescore").request.body as { prompt: number[] };
    const told = await engine.rescore(Uint32Array.from(prompt));
    expect([...told]).toEqual(
      [Number.NaN, -13.943583488464355, -3.3212080001831055, -3.5307023525238037].map((value) =>
        Math.fround(value),
      ),
    );
  });

  it("list models and texts of ids", async () => {
    const models = await (await canned(recordedBody("models"), "application/json")).models();
    expect(models).toEqual([{ id: "smollm2", maxModelLength: 2048 }]);
    const engine = await canned(recordedBody("detokenize"), "application/json");
    expect(await engine.detokenize(Uint32Array.of(504, 3575))).toBe("The capital of France");
  });
});

describe("what the engine is asked", () => {
  it("has ids, log-probs and usage switched on, and all fields of the client untouched", async () => {
    const server = await startCanned({
      body: recordedBody("chat_capture_stream"),
      contentType: "text/event-stream",
    });
    closeAfter(() => server.close());
    const messages = [
      { role: "user", content: "a" },
      // Both names reach the engine (qwen-code 4285).
      { role: "assistant", content: "b", reasoning: "r", reasoning_content: "s", custom: { x: [1, null] } },
    ];
    const client = { model: "policy", messages, temperature: 0.3, cache_salt: "v7", unknown_field: { y: 1 } };
    await ask(connect(server.url), { stream: true, body: { ...client, stream_options: { chunk_size: 2 } } });
    expect(server.bodies[0]).toEqual({
      ...ASK,
      ...client,
      stream: true,
      logprobs: true,
      return_token_ids: true,
      stream_options: { chunk_size: 2, include_usage: true },
    });
    await ask(connect(server.url, { model: "real" }), {
      stream: true,
      body: { ...client, top_logprobs: 3, logprobs: false },
    });
    expect(server.bodies[1]).toMatchObject({ model: "real", top_logprobs: 3, logprobs: true });
  });

  it("has no stream options where nothing is streamed, which vLLM would refuse", async () => {
    const { engine, standIn } = await start();
    const { reply } = await ask(engine, { body: { stream: true, stream_options: { include_usage: true } } });
    expect(reply.ending).toBe("complete");
    expect(standIn.requests[0]?.body).toMatchObject({ stream: false });
    expect(standIn.requests[0]?.body).not.toHaveProperty("stream_options");
  });

  it("goes to the server's root or its /v1 alike, with the API key as a bearer token", async () => {
    const { standIn } = await start({ apiKey: "secret" });
    for (const url of [standIn.url, `${standIn.url}/`, `${standIn.url}/v1`, `${standIn.url}/v1/`]) {
      const engine = connect(url, { apiKey: "secret" });
      expect(engine.url).toBe(standIn.url);
      expect((await ask(engine)).reply.ending).toBe("complete");
    }
    expect(await refusal(ask(connect(standIn.url)))).toMatchObject({ code: "engine_error", status: 401 });
    expect(() => vllmEngine({ url: "localhost:8000" })).toThrow("it must be like http://127.0.0.1:8000");
  });

  it("leaves the ids in the answer for a client that asks for them itself (vllm 27561)", async () => {
    const { engine } = await start();
    const body = { return_token_ids: true };
    const whole = await ask(engine, { body });
    expect(whole.reply.json).toMatchObject({ prompt_token_ids: [10, 11] });
    const streamed = await ask(engine, { body, stream: true });
    expect(streamed.chunks[0]?.json).toMatchObject({ prompt_token_ids: [10, 11] });
    for (const { stream } of BOTH) {
      const without = await ask(engine, { stream });
      expect(JSON.stringify([without.reply.json, without.chunks])).not.toContain("token_ids");
    }
  });
});

describe("complete answers", () => {
  it.each(BOTH)("have ids, log-probs, message and usage (stream: $stream)", async ({ stream }) => {
    const { engine } = await start({ mode: "counters" });
    const { reply, chunks } = await ask(engine, { stream });
    expect(reply).toMatchObject({ ending: "complete", error: null, usage: { completion_tokens: 1 } });
    expect(reply.promptTokenIds).toEqual(Uint32Array.of(10, 11));
    expect(only(reply)).toMatchObject({
      index: 0,
      tokenIds: Uint32Array.of(1001),
      logprobs: Float32Array.of(-0.25),
      finishReason: "stop",
      untrainable: null,
      // The text way of vLLM tells no weight version (vllm 54443, slime 1514).
      weightVersions: [],
      message: { role: "assistant", content: "t1001" },
    });
    expect(reply.json === null).toBe(stream);
    expect(chunks.length > 0).toBe(stream);
  });

  it.each(BOTH)("have several choices where n is above 1 (stream: $stream)", async ({ stream }) => {
    const { engine } = await start({ mode: "counters" });
    const { reply } = await ask(engine, { stream, body: { n: 3 } });
    expect(reply.choices.map((choice) => [choice.index, ...choice.tokenIds, choice.untrainable])).toEqual([
      [0, 1001, null],
      [1, 1002, null],
      [2, 1003, null],
    ]);
  });

  it("mark each finish as terminal where choices end one after the other", async () => {
    const answers = ["t1", "t1 t2 t3"].map((content): Fault => ({ kind: "answer", answer: { content } }));
    const { standIn } = await start({ script: (_request, count) => answers[count - 1] ?? null });
    // One recorded stream of two choices of which the first ends early.
    const parts = await Promise.all(
      [0, 1].map(async (index) => {
        const body = JSON.stringify({ ...ASK, stream: true, return_token_ids: true, logprobs: true });
        const answer = await fetch(`${standIn.url}/v1/chat/completions`, { method: "POST", body });
        return (await answer.text()).replace("[DONE]", "").replaceAll('"index":0', `"index":${index}`).trim();
      }),
    );
    const body = `${parts.map((part) => part.replace(/data:\s*$/, "")).join("\n\n")}\n\ndata: [DONE]\n\n`;
    const { chunks, reply } = await ask(await canned(body, "text/event-stream"), { stream: true });
    expect(chunks.map((chunk) => chunk.terminal)).toEqual([false, true, false, false, false, true]);
    expect(reply.choices.map((choice) => choice.finishReason)).toEqual(["stop", "stop"]);
  });

  it.each(BOTH)("have reasoning and tool calls in the message (stream: $stream)", async ({ stream }) => {
    const toolCalls = [{ id: "a", name: "bash", arguments: '{"cmd":"ls"}' }];
    const { engine } = await faulty({
      kind: "answer",
      answer: { reasoning: "t7", content: "t8", toolCalls },
    });
    const choice = only((await ask(engine, { stream, body: { max_tokens: 200 } })).reply);
    expect(choice).toMatchObject({ finishReason: "tool_calls", untrainable: null });
    expect(choice.message).toMatchObject({
      content: "t8",
      reasoning: "t7",
      tool_calls: [{ id: "a", type: "function", function: { name: "bash", arguments: '{"cmd":"ls"}' } }],
    });
  });

  it("are waited for chunk by chunk while the client is slow", async () => {
    const { engine } = await faulty(ANSWER);
    let under = 0;
    let most = 0;
    const seen: EngineChunk[] = [];
    const reply = await engine.chat({
      body: ASK,
      stream: true,
      signal: new AbortController().signal,
      onChunk: async (chunk) => {
        most = Math.max(most, (under += 1));
        await new Promise((resolve) => setTimeout(resolve, 5));
        seen.push(chunk);
        under -= 1;
      },
    });
    expect(most).toBe(1);
    expect(seen).toHaveLength(6);
    expect(ids(only(reply))).toEqual([5, 6, 7, 8]);
  });

  it("say which log-probs they hold (trl 4159)", async () => {
    expect(connect("http://127.0.0.1:1").logprobsMode).toBe("raw");
    expect(connect("http://127.0.0.1:1", { logprobsMode: "processed" }).logprobsMode).toBe("processed");
    expect(connect("http://127.0.0.1:1", { kind: "stand-in" }).kind).toBe("stand-in");
  });
});
