// The SGLang adapter against exchanges recorded with the real HTTP front end of SGLang 0.5.23.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Engine } from "./engine.ts";
import { sglangEngine } from "./sglang.ts";
import { closeAfter, listen, only, refusal } from "./testing/asking.ts";
import { tokenInReply } from "./token-in-reply.ts";
import type { Generated, TokenIn } from "./token-in.ts";

interface Recorded {
  readonly name: string;
  readonly request: { readonly path: string };
  readonly response: { readonly status: number; readonly content_type: string; readonly body: string };
}

const RECORDED: readonly Recorded[] = readFileSync(
  new URL("testing/fixtures/sglang-0.5.23.jsonl", import.meta.url),
  "utf8",
)
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Recorded);

interface Replay {
  readonly engine: Engine;
  readonly tokenIn: TokenIn;
  readonly bodies: Record<string, Record<string, unknown>[]>;
}

/** A server that answers each path with the recorded exchange of this name. */
async function replay(names: readonly string[]): Promise<Replay> {
  const bodies: Record<string, Record<string, unknown>[]> = {};
  const url = await listen((request, response) => {
    let text = "";
    request.setEncoding("utf8").on("data", (piece: string) => (text += piece));
    request.once("end", () => {
      const path = request.url ?? "";
      (bodies[path] ??= []).push(text === "" ? {} : (JSON.parse(text) as Record<string, unknown>));
      const recorded = RECORDED.find((one) => one.request.path === path && names.includes(one.name));
      response.writeHead(recorded?.response.status ?? 404, {
        "content-type": recorded?.response.content_type ?? "",
      });
      response.end(recorded?.response.body ?? '{"detail":"Not Found"}');
    });
  });
  const engine = sglangEngine({ url });
  closeAfter(() => engine.close());
  return { engine, tokenIn: engine.tokenIn as TokenIn, bodies };
}

const signal = new AbortController().signal;
const IDS = Uint32Array.of(10, 11, 20);

function generate({ tokenIn }: Replay, body: Record<string, unknown> = {}): Promise<Generated> {
  const rendering = { ids: IDS, sampling: { max_model_len: 128 } };
  return tokenIn.generate({ body, ids: IDS, rendering, stream: false, signal });
}

describe("SGLang asked token-in", () => {
  test("renders messages with its tokenizer", async () => {
    const at = await replay(["tokenize messages"]);
    const messages = [{ role: "user", content: "t20 t21" }];
    const rendering = await at.tokenIn.render({ body: { model: "tiny" }, messages, ending: "none", signal });
    expect([...rendering.ids]).toEqual([10, 20, 21, 11, 12, 13]);
    expect(at.bodies["/v1/tokenize"]).toEqual([{ model: "tiny", messages, add_generation_prompt: false }]);
  });

  test("tells ids, log-probs and weight versions as spans", async () => {
    const at = await replay(["generate, ids, logprobs"]);
    const generated = await generate(at, { max_tokens: 8, seed: 3, temperature: 0.5 });
    expect(at.bodies["/generate"]).toMatchObject([
      {
        input_ids: [10, 11, 20],
        sampling_params: { max_new_tokens: 8, sampling_seed: 3, temperature: 0.5 },
        return_logprob: true,
        stream: false,
      },
    ]);
    const parsed = [
      { message: { role: "assistant", content: "I will look." }, finishReason: "stop", entries: null },
    ];
    const reply = tokenInReply({ body: {}, ids: IDS, generated, parsed });
    const choice = only(reply);
    expect([...choice.tokenIds]).toEqual([1001, 1002, 1003]);
    expect([...choice.logprobs]).toEqual([-0.105361, -1.203973, -0.040822].map(Math.fround));
    expect(choice).toMatchObject({
      untrainable: null,
      finishReason: "stop",
      weightVersions: [
        { version: "7", start: 0 },
        { version: "8", start: 2 },
      ],
    });
  });

  test("is asked for the model's whole length where the client sets no limit", async () => {
    const at = await replay(["generate, ids, logprobs"]);
    await generate(at);
    expect(at.bodies["/generate"]?.[0]?.["sampling_params"]).toEqual({ max_new_tokens: 124 });
  });

  test("tells no weight versions before 0.5.19: the one at the end says nothing of the beginning", async () => {
    const generated = await generate(await replay(["generate, no spans (before 0.5.19)"]));
    expect(generated.choices[0]?.weightVersions).toEqual([]);
  });

  test("ends in length, or in an abort with what was sampled until then", async () => {
    const length = await generate(await replay(["generate, finish length"]));
    expect(length.choices[0]).toMatchObject({ finishReason: "length", stopReason: null });
    const aborted = await generate(await replay(["generate, graceful abort"]));
    expect(aborted.choices[0]).toMatchObject({ finishReason: "abort", tokenIds: Uint32Array.of(1001) });
  });

  test.each([
    ["generate, abort 503", 503],
    ["generate, too long", 400],
    ["generate, contract error", 400],
  ])("gives the engine's own error for %s", async (name, status) => {
    expect(await refusal(generate(await replay([name])))).toMatchObject({ code: "engine_error", status });
  });

  test("reads reasoning and tool calls with the parsers that the server has", async () => {
    const at = await replay([
      "model_info",
      "separate_reasoning",
      "parse_function_call",
      "generate, ids, logprobs",
    ]);
    const generated = await generate(at);
    const body = { tools: [{ type: "function", function: { name: "bash" } }] };
    const [parsed] = await at.tokenIn.parse({ body, ids: IDS, generated, signal });
    expect(parsed).toMatchObject({
      finishReason: "tool_calls",
      message: {
        content: "look",
        reasoning_content: "p",
        tool_calls: [{ type: "function", function: { name: "bash", arguments: '{"cmd": "ls"}' } }],
      },
    });
    expect(at.bodies["/separate_reasoning"]).toEqual([{ text: "I will look.", reasoning_parser: "qwen3" }]);
    expect(at.bodies["/parse_function_call"]).toMatchObject([{ text: "answer", tool_call_parser: "qwen" }]);
  });

  test("is aborted at the server too when the client goes", async () => {
    const paths: string[] = [];
    const url = await listen((request, response) => {
      paths.push(request.url ?? "");
      if (request.url === "/abort_request") response.end("{}");
    });
    const engine = sglangEngine({ url });
    closeAfter(() => engine.close());
    const gone = new AbortController();
    const rendering = { ids: IDS, sampling: null };
    const asked = (engine.tokenIn as TokenIn).generate({
      body: {},
      ids: IDS,
      rendering,
      stream: false,
      signal: gone.signal,
    });
    await expect.poll(() => paths).toEqual(["/generate"]);
    gone.abort();
    expect(await asked).toMatchObject({ ending: "aborted", choices: [] });
    await expect.poll(() => paths).toEqual(["/generate", "/abort_request"]);
  });
});

describe("SGLang asked with messages", () => {
  test("is asked whole, tells ids and spans, and keeps from the client what was not asked for", async () => {
    const at = await replay(["chat, ids + meta_info + tool call"]);
    const reply = await at.engine.chat({ body: { model: "tiny", messages: [] }, stream: true, signal });
    expect([...(reply.promptTokenIds ?? [])]).toEqual([10, 20, 11, 12, 13]);
    expect(only(reply)).toMatchObject({
      tokenIds: Uint32Array.of(1001, 1002, 1003),
      untrainable: null,
      finishReason: "tool_calls",
      weightVersions: [
        { version: "7", start: 0 },
        { version: "8", start: 2 },
      ],
    });
    expect(JSON.stringify(reply.json)).not.toMatch(/token_ids|meta_info/);
    expect(at.bodies["/v1/chat/completions"]).toMatchObject([{ stream: false, return_token_ids: true }]);
  });

  test.each([
    ["chat, abort 503", 503],
    ["chat, too long", 400],
    ["chat, bad body", 400],
  ])("gives the engine's own error for %s", async (name, status) => {
    const at = await replay([name]);
    expect(await refusal(at.engine.chat({ body: {}, stream: false, signal }))).toMatchObject({ status });
  });
});
