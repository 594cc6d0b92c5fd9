import { describe, expect, it } from "vitest";
import type { Fault } from "./stand-in.ts";
import { ANSWER, BOTH, ask, canned, connect, faulty, ids, only } from "./testing/asking.ts";
import { recordedBody } from "./testing/recorded.ts";

describe("answers that must not train", () => {
  const counts: [string, Fault, string][] = [
    ["an id is lost", { kind: "counts", ids: -1 }, "3 ids and 4 log-probs, usage.completion_tokens is 4"],
    ["an id is doubled", { kind: "counts", ids: 1 }, "5 ids and 4 log-probs, usage.completion_tokens is 4"],
    [
      "log-probs are lost (vime 70)",
      { kind: "counts", logprobs: -2 },
      "4 ids and 2 log-probs, usage.completion_tokens is 4",
    ],
    [
      "usage counts more",
      { kind: "counts", usage: 1 },
      "4 ids and 4 log-probs, usage.completion_tokens is 5",
    ],
    [
      "usage counts fewer",
      { kind: "counts", usage: -3 },
      "4 ids and 4 log-probs, usage.completion_tokens is 1",
    ],
  ];
  const cases = counts.flatMap(([name, fault, reason]) =>
    BOTH.map(({ stream }) => ({ name, fault, reason, stream })),
  );

  it.each(cases)(
    "still reach the client when $name (vllm 27482; stream: $stream)",
    async ({ fault, reason, stream }) => {
      const { engine } = await faulty(ANSWER, fault);
      const { reply } = await ask(engine, { stream });
      expect(reply.ending).toBe("complete");
      const choice = only(reply);
      expect(choice.untrainable).toContain(reason);
      expect(choice.message).toMatchObject({ content: "t5 t6 t7 t8" });
      // Nothing is padded: what was told is what is there.
      const [, told, logprobs] = /(\d+) ids and (\d+) log-probs/.exec(reason) as unknown as [
        string,
        string,
        string,
      ];
      expect([choice.tokenIds.length, choice.logprobs.length]).toEqual([Number(told), Number(logprobs)]);
    },
  );

  const bad = (["NaN", "Infinity", "-Infinity", "null", "-9999"] as const).flatMap((told) =>
    BOTH.map(({ stream }) => ({ told, stream })),
  );

  it.each(bad)(
    "are readable with a bare $told on a sampled token, and name it (sglang 5984; stream: $stream)",
    async ({ told, stream }) => {
      const { engine } = await faulty(ANSWER, { kind: "logprob", at: 2, told });
      const { reply } = await ask(engine, { stream });
      expect(reply.ending).toBe("complete");
      expect(only(reply).untrainable).toContain("choices[0] has no log-prob for generated token 2");
      expect(ids(only(reply))).toEqual([5, 6, 7, 8]);
      expect(only(reply).message).toMatchObject({ content: "t5 t6 t7 t8" });
    },
  );

  it.each(BOTH)(
    "name the field that the engine lacks where it tells no ids (stream: $stream)",
    async ({ stream }) => {
      const { engine } = await faulty(ANSWER, { kind: "no_ids", when: "always" });
      const { reply } = await ask(engine, { stream });
      expect(reply).toMatchObject({ ending: "complete", promptTokenIds: null });
      expect(only(reply).untrainable).toBe("the engine told no prompt ids (prompt_token_ids is missing)");
      expect(only(reply).message).toMatchObject({ content: "t5 t6 t7 t8" });
    },
  );

  it("name an id that is none, and keep none of that list", async () => {
    const whole = recordedBody("chat_capture_whole").replace(
      '"token_ids":[504,3575,',
      '"token_ids":[504,-1,',
    );
    const { reply } = await ask(await canned(whole, "application/json"));
    expect(only(reply).untrainable).toBe("choices[0].token_ids[1] is -1, which is no token id");
    const stream = recordedBody("chat_capture_stream").replace('"token_ids":[3575]', '"token_ids":[1.5]');
    const streamed = await ask(await canned(stream, "text/event-stream"), { stream: true });
    expect(only(streamed.reply).untrainable).toBe("choices[0].token_ids[0] is 1.5, which is no token id");
    const prompt = recordedBody("chat_capture_whole").replace(
      '"prompt_token_ids":[1,',
      '"prompt_token_ids":["1",',
    );
    const other = await ask(await canned(prompt, "application/json"));
    expect(other.reply.promptTokenIds).toBeNull();
    expect(only(other.reply).untrainable).toBe('prompt_token_ids[0] is "1", which is no token id');
  });
});

describe("answers that look odd and are right", () => {
  it("gather log-probs that come in chunks of their own, never overwriting (Floway 481)", async () => {
    const { engine } = await faulty(ANSWER, { kind: "spread" });
    const choice = only((await ask(engine, { stream: true })).reply);
    expect(choice.untrainable).toBeNull();
    expect([...choice.logprobs]).toEqual([-0.25, -0.5, -0.75, -1]);
    expect(ids(choice)).toEqual([5, 6, 7, 8]);
  });

  it.each([0, 2])(
    "are a normal record where the engine aborts after %d tokens (vllm 22197)",
    async (afterTokens) => {
      const { engine } = await faulty(ANSWER, { kind: "abort", afterTokens });
      for (const { stream } of BOTH) {
        const { reply } = await ask(engine, { stream });
        expect(reply.ending).toBe("complete");
        const choice = only(reply);
        expect(choice).toMatchObject({ finishReason: "abort", untrainable: null });
        expect(ids(choice)).toEqual([5, 6].slice(0, afterTokens));
      }
    },
  );

  it.each(BOTH)(
    "report length for a tool call that the limit cut in half (vllm 47761; stream: $stream)",
    async ({ stream }) => {
      const answer: Fault = {
        kind: "answer",
        answer: { toolCalls: [{ name: "bash", arguments: '{"cmd":"ls -l"}' }] },
      };
      const { engine } = await faulty(answer, { kind: "finish", reason: "tool_calls" });
      const { reply, chunks } = await ask(engine, { stream, body: { max_tokens: 34 } });
      const choice = only(reply);
      expect(choice).toMatchObject({ finishReason: "length", untrainable: null });
      expect(choice.tokenIds).toHaveLength(34);
      const told = stream ? chunks.find((chunk) => chunk.terminal)?.json : reply.json;
      expect(told).toMatchObject({ choices: [{ finish_reason: "length" }] });
      const enough = await ask(engine, { stream, body: { max_tokens: 200 } });
      expect(only(enough.reply).finishReason).toBe("tool_calls");
    },
  );

  it("are asked whole where the engine tells ids only there (sglang 30917)", async () => {
    const noIds: Fault = { kind: "no_ids", when: "stream" };
    const { engine, standIn } = await faulty(ANSWER, noIds);
    expect(only((await ask(engine, { stream: true })).reply).untrainable).toContain(
      "prompt_token_ids is missing",
    );
    const whole = connect(standIn.url, { askWhole: true });
    const { reply, chunks } = await ask(whole, { stream: true });
    expect(only(reply)).toMatchObject({ untrainable: null, tokenIds: Uint32Array.of(5, 6, 7, 8) });
    expect(reply.json).toMatchObject({ object: "chat.completion" });
    expect(chunks).toEqual([]);
  });

  it("are taken whole from an engine that does not stream although it was asked to", async () => {
    const engine = await canned(recordedBody("chat_capture_whole"), "application/json");
    const { reply, chunks } = await ask(engine, { stream: true });
    expect(only(reply).untrainable).toBeNull();
    expect([reply.json?.["object"], chunks]).toEqual(["chat.completion", []]);
  });

  const framings: [string, Fault][] = [
    ["CRLF line ends", { kind: "framing", framing: { newline: "\r\n" } }],
    ["CR line ends", { kind: "framing", framing: { newline: "\r" } }],
    ["no blank after data:", { kind: "framing", framing: { space: false } }],
    ["comments and a byte order mark", { kind: "framing", framing: { comments: true, byteOrderMark: true } }],
    ["a last event without its blank line", { kind: "framing", framing: { lastNewlines: 1 } }],
    ["a last event without any line end", { kind: "framing", framing: { lastNewlines: 0 } }],
    ["events ended by one newline", { kind: "framing", framing: { newlines: 1, lastNewlines: 1 } }],
    ["no [DONE]", { kind: "no_done" }],
  ];

  it.each(framings)("are read with %s (claude-code-router 1672, opencode 27365)", async (_name, framing) => {
    const { engine } = await faulty({ kind: "answer", answer: { content: "世界 t5" } }, framing);
    const { reply, chunks } = await ask(engine, { stream: true });
    expect(reply).toMatchObject({ ending: "complete", error: null });
    expect(only(reply)).toMatchObject({ untrainable: null, message: { content: "世界 t5" } });
    expect(chunks.map((chunk) => chunk.terminal).slice(-2)).toEqual([true, true]);
  });
});
