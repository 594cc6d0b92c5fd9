// The llama.cpp adapter against answers as the real server writes them; interop/llama-cpp runs it on the server.
import { describe, expect, test } from "vitest";
import { llamaEngine } from "./llama.ts";
import { generatedOf } from "./llama-token-in.ts";
import { closeAfter, listen, only, refusal } from "./testing/asking.ts";
import { tokenInReply } from "./token-in-reply.ts";
import type { TokenIn } from "./token-in.ts";

const signal = new AbortController().signal;
const IDS = Uint32Array.of(1, 4093, 198);

/** An answer of `/completion`, cut to what matters. */
function completion(tokens: readonly number[], probabilities: readonly number[], more: object = {}): object {
  return {
    index: 0,
    content: "Sure",
    tokens,
    stop: true,
    model: "smollm2",
    tokens_predicted: tokens.length,
    tokens_evaluated: 3,
    truncated: false,
    stop_type: "eos",
    stopping_word: "",
    completion_probabilities: probabilities.map((id) => ({
      id,
      token: "x",
      bytes: [120],
      logprob: -0.5,
      top_logprobs: [],
    })),
    ...more,
  };
}

function replyTo(answer: object): ReturnType<typeof tokenInReply> {
  const generated = generatedOf(answer as Record<string, unknown>);
  const parsed = generated.choices.map(({ text, finishReason, entries }) => ({
    message: { role: "assistant", content: text },
    finishReason,
    entries,
  }));
  return tokenInReply({ body: {}, ids: IDS, generated, parsed });
}

async function serving(answers: Readonly<Record<string, object>>): Promise<{
  readonly tokenIn: TokenIn;
  readonly bodies: Record<string, Record<string, unknown>>;
}> {
  const bodies: Record<string, Record<string, unknown>> = {};
  const url = await listen((request, response) => {
    let text = "";
    request.setEncoding("utf8").on("data", (piece: string) => (text += piece));
    request.once("end", () => {
      const path = request.url ?? "";
      bodies[path] = JSON.parse(text) as Record<string, unknown>;
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify(answers[path]));
    });
  });
  const engine = llamaEngine({ url });
  closeAfter(() => engine.close());
  return { tokenIn: engine.tokenIn as TokenIn, bodies };
}

describe("what the llama.cpp server tells", () => {
  test("is trainable where ids, log-probs and counts agree", () => {
    const choice = only(replyTo(completion([34355, 2], [34355, 2])));
    expect([...choice.tokenIds]).toEqual([34355, 2]);
    expect(choice).toMatchObject({ untrainable: null, finishReason: "stop", weightVersions: [] });
  });

  test("is untrainable where tokens inside a character have no log-prob", () => {
    const choice = only(replyTo(completion([243, 243, 7], [7])));
    expect([...choice.tokenIds]).toEqual([243, 243, 7]);
    expect(choice.untrainable).toMatch(/3 ids and 1 log-probs/);
  });

  test("is untrainable where the log-probs are of other ids", () => {
    expect(only(replyTo(completion([5, 6], [5, 7]))).untrainable).toBe(
      "the log-prob of token 1 is of id 7, the token is 6",
    );
  });

  test("is untrainable where the server read another prompt than it was sent", () => {
    const reply = replyTo(completion([5], [5], { tokens_evaluated: 4 }));
    expect(only(reply).untrainable).toBe("the engine read 4 prompt tokens, it was sent 3");
  });

  test("ends by a limit, a stop word or the end of the turn", () => {
    const reasons = ["limit", "word", "eos", "none"].map(
      (stop) => only(replyTo(completion([5], [5], { stop_type: stop }))).finishReason,
    );
    expect(reasons).toEqual(["length", "stop", "stop", null]);
  });
});

describe("what the llama.cpp server is asked", () => {
  test("to sample from the policy unless the client sets other samplers", async () => {
    const { tokenIn, bodies } = await serving({ "/completion": completion([5], [5]) });
    const body = { ...tokenIn.defaults, temperature: 1.3, max_tokens: 9, stop: "END", seed: 4 };
    const rendering = { ids: IDS, sampling: null };
    await tokenIn.generate({ body, ids: IDS, rendering, stream: true, signal });
    expect(bodies["/completion"]).toEqual({
      prompt: [1, 4093, 198],
      n_predict: 9,
      n_probs: 1,
      return_tokens: true,
      cache_prompt: true,
      stream: false,
      stop: ["END"],
      seed: 4,
      temperature: 1.3,
      top_k: 0,
      top_p: 1,
      min_p: 0,
    });
  });

  test("renders with its template and tokenizes with special tokens", async () => {
    const { tokenIn, bodies } = await serving({
      "/apply-template": { prompt: "<|im_start|>user" },
      "/tokenize": { tokens: [1, 4093] },
    });
    const messages = [{ role: "user", content: "hi" }];
    const rendering = await tokenIn.render({ body: { model: "m" }, messages, ending: "none", signal });
    expect([...rendering.ids]).toEqual([1, 4093]);
    expect(bodies["/apply-template"]).toEqual({ model: "m", messages, add_generation_prompt: false });
    expect(bodies["/tokenize"]).toEqual({
      content: "<|im_start|>user",
      add_special: true,
      parse_special: true,
    });
  });

  test("reads the tool calls that a model writes into its text", async () => {
    const { tokenIn } = await serving({});
    const text = 'Let me look.\n<tool_call>\n{"name": "bash", "arguments": {"cmd": "ls"}}\n</tool_call>';
    const generated = generatedOf(completion([5], [5], { content: text }) as Record<string, unknown>);
    const tools = [{ type: "function", function: { name: "bash" } }];
    const [called] = await tokenIn.parse({ body: { tools }, ids: IDS, generated, signal });
    expect(called).toMatchObject({
      finishReason: "tool_calls",
      message: {
        content: "Let me look.",
        tool_calls: [{ type: "function", function: { name: "bash", arguments: '{"cmd":"ls"}' } }],
      },
    });
    const [plain] = await tokenIn.parse({ body: {}, ids: IDS, generated, signal });
    expect(plain?.message).toEqual({ role: "assistant", content: text });
  });

  test("leaves a tool call that does not read as one in the text", async () => {
    const { tokenIn } = await serving({});
    const text = '<tool_call>\n{"name": "bash", "arg\n</tool_call>';
    const generated = generatedOf(completion([5], [5], { content: text }) as Record<string, unknown>);
    const [parsed] = await tokenIn.parse({ body: { tools: [{}] }, ids: IDS, generated, signal });
    expect(parsed?.message).toEqual({ role: "assistant", content: text });
  });

  test("cannot re-score", async () => {
    const engine = llamaEngine({ url: "http://127.0.0.1:9" });
    closeAfter(() => engine.close());
    expect(await refusal(engine.rescore(IDS))).toMatchObject({ code: "engine_error" });
  });
});
