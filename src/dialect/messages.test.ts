import { describe, expect, it } from "vitest";
import { CoppiceError } from "../errors.ts";
import type { Json } from "./dialect.ts";
import { messagesErrors } from "./messages-errors.ts";
import { messagesDialect } from "./messages.ts";
import { objectOf } from "./partial-json.ts";
import { signatureOf } from "./reasoning-seal.ts";
import {
  chunkOf,
  FIELD_CASE,
  FIELD_CASE_WHOLE,
  headOf,
  toolDelta,
  USAGE,
  written,
} from "./testing/streams.ts";

const HEAD = headOf("msg_");
const USER = [{ role: "user", content: "hi" }];

function decode(body: Json): ReturnType<typeof messagesDialect.decode> {
  return messagesDialect.decode({ model: "m", max_tokens: 9, messages: USER, ...body }, new Map());
}

function streamed(
  chunks: readonly Json[],
  body: Json = {},
  usage: Json | null = USAGE,
): ReturnType<typeof written> {
  return written(decode(body).writer.stream(HEAD), chunks, usage);
}

describe("the stream of a message", () => {
  it("has one start, blocks one after the other, thinking signed, and one stop (litellm 25321, 32357)", () => {
    const { events, types } = streamed(FIELD_CASE);
    expect(events.map(({ type }) => type)).toEqual(types);
    expect(events.map((event) => [event["type"], event["index"]])).toEqual([
      ["message_start", undefined],
      ["content_block_start", 0],
      ["content_block_delta", 0],
      ["content_block_delta", 0],
      ["content_block_delta", 0],
      ["content_block_stop", 0],
      ["content_block_start", 1],
      ["content_block_delta", 1],
      ["content_block_delta", 1],
      ["content_block_stop", 1],
      ["content_block_start", 2],
      ["content_block_delta", 2],
      ["content_block_stop", 2],
      ["content_block_start", 3],
      ["content_block_delta", 3],
      ["content_block_stop", 3],
      ["message_delta", undefined],
      ["message_stop", undefined],
    ]);
    expect(events[4]).toMatchObject({
      delta: { type: "signature_delta", signature: signatureOf("let me think") },
    });
    expect(events[11]).toMatchObject({ delta: { partial_json: '{"path":  "a", "n": 1.0}' } });
    expect(events.at(-2)).toMatchObject({
      delta: { stop_reason: "tool_use", stop_sequence: null },
      usage: { input_tokens: 11, output_tokens: 7 },
    });
  });

  it("may be silent before it starts: a ping comes after the start", () => {
    const writer = decode({}).writer.stream(HEAD);
    expect(writer.heartbeat()).toMatch(/^event: message_start\n[^]*event: ping\ndata: {"type":"ping"}\n\n$/);
    expect(writer.heartbeat()).toBe('event: ping\ndata: {"type":"ping"}\n\n');
    expect(writer.chunk(chunkOf({ content: "a" }))).not.toContain("message_start");
  });

  it("opens no block inside another where fragments of two calls come mixed", () => {
    const { events } = streamed([
      chunkOf(toolDelta(0, { id: "a", name: "f", args: '{"x":' })),
      chunkOf(toolDelta(1, { id: "b" })),
      chunkOf(toolDelta(1, { name: "g", args: "[" })),
      chunkOf(toolDelta(0, { args: "1}" })),
      chunkOf(toolDelta(1, { args: "]" })),
      chunkOf({ content: "after" }),
      chunkOf({}, "tool_calls"),
    ]);
    const starts = events.filter(({ type }) => type === "content_block_start");
    expect(starts).toMatchObject([
      { index: 0, content_block: { type: "tool_use", id: "a", name: "f", input: {} } },
      { index: 1, content_block: { type: "tool_use", id: "b", name: "g" } },
      { index: 2, content_block: { type: "text" } },
    ]);
    const json = (index: number): string =>
      events
        .filter((event) => event["index"] === index && event["type"] === "content_block_delta")
        .map((event) => (event["delta"] as { readonly partial_json: string }).partial_json)
        .join("");
    expect([json(0), json(1)]).toEqual(['{"x":1}', "[]"]);
  });

  it("loses nothing of calls that never became whole", () => {
    const { events } = streamed([
      chunkOf(toolDelta(0, { id: "a", name: "f", args: '{"x":' })),
      chunkOf(toolDelta(1, { id: "b", name: "g", args: "{" })),
      chunkOf(toolDelta(1, { args: '"y"' })),
      chunkOf({}, "length"),
    ]);
    expect(events.filter(({ type }) => type === "content_block_delta")).toMatchObject([
      { index: 0, delta: { partial_json: '{"x":' } },
      { index: 1, delta: { partial_json: '{"y"' } },
    ]);
    expect(events.at(-2)).toMatchObject({ delta: { stop_reason: "max_tokens" } });
  });

  it("does not open a call again for the blanks behind it", () => {
    const { events } = streamed([
      chunkOf(toolDelta(0, { id: "a", name: "f", args: "{}" })),
      chunkOf(toolDelta(1, { id: "b", name: "g", args: "{}" })),
      chunkOf(toolDelta(0, { args: "\n" })),
      chunkOf({}, "tool_calls"),
    ]);
    const starts = events.filter(({ type }) => type === "content_block_start");
    expect(starts.map(({ content_block: block }) => (block as Json)["id"])).toEqual(["a", "b"]);
  });

  it("names the sequence that stopped it", () => {
    const { events } = streamed([chunkOf({ content: "a" }), chunkOf({}, "stop", { stop_reason: "END" })]);
    expect(events.at(-2)).toMatchObject({ delta: { stop_reason: "stop_sequence", stop_sequence: "END" } });
  });

  it("says tool_use of an answer with calls that the engine ended with stop", () => {
    const { events } = streamed([
      chunkOf(toolDelta(0, { id: "a", name: "f", args: "{}" })),
      chunkOf({}, "stop"),
    ]);
    expect(events.at(-2)).toMatchObject({ delta: { stop_reason: "tool_use" } });
  });

  it("counts what came from the cache apart", () => {
    const usage = { ...USAGE, prompt_tokens_details: { cached_tokens: 8 } };
    const { events } = streamed([chunkOf({ content: "a" }), chunkOf({}, "stop")], {}, usage);
    expect(events.at(-2)).toMatchObject({
      usage: {
        input_tokens: 3,
        cache_read_input_tokens: 8,
        cache_creation_input_tokens: 0,
        output_tokens: 7,
      },
    });
  });

  it("has the content that the same answer has unstreamed", () => {
    const whole = JSON.parse(decode({}).writer.whole(FIELD_CASE_WHOLE, HEAD)) as Json;
    expect(whole).toEqual({
      id: HEAD.responseId,
      type: "message",
      role: "assistant",
      model: "asked-name",
      content: [
        { type: "thinking", thinking: "let me think", signature: signatureOf("let me think") },
        { type: "text", text: "I look 世界" },
        { type: "tool_use", id: "call-a", name: "read", input: { path: "a", n: 1 } },
        { type: "tool_use", id: "call-b", name: "list", input: {} },
      ],
      stop_reason: "tool_use",
      stop_sequence: null,
      usage: {
        input_tokens: 11,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        output_tokens: 7,
      },
    });
  });

  it("tells a failure as an error event", () => {
    const text = decode({}).writer.stream(HEAD).fail(new CoppiceError("engine_error", "it died"));
    expect(text).toBe(
      'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"it died"}}\n\n',
    );
  });
});

describe("reading a Messages request", () => {
  it("makes chat messages of blocks: results stand alone, images go on, hints are gone", () => {
    const hint = { cache_control: { type: "ephemeral" } };
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } };
    const { messages } = decode({
      system: [
        { type: "text", text: "s1" },
        { type: "text", text: "s2", ...hint },
      ],
      messages: [
        { role: "user", content: [{ type: "text", text: "u", ...hint }] },
        { role: "system", content: "inside" },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "r", signature: "foreign" },
            { type: "text", text: "t" },
            { type: "tool_use", id: "c", name: "f", input: { x: 1 } },
          ],
        },
        {
          role: "user",
          content: [
            {
              type: "tool_result",
              tool_use_id: "c",
              is_error: false,
              content: [{ type: "text", text: "o" }, image],
            },
            { type: "text", text: "next" },
            { type: "image", source: { type: "url", url: "http://x/y.png" } },
          ],
        },
      ],
    });
    const png = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
    expect(messages).toEqual([
      {
        role: "system",
        content: [
          { type: "text", text: "s1" },
          { type: "text", text: "s2" },
        ],
      },
      { role: "user", content: "u" },
      { role: "system", content: "inside" },
      {
        role: "assistant",
        content: "t",
        reasoning: "r",
        reasoning_content: "r",
        tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: '{"x":1}' } }],
      },
      { role: "tool", tool_call_id: "c", content: [{ type: "text", text: "o" }, png] },
      {
        role: "user",
        content: [
          { type: "text", text: "next" },
          { type: "image_url", image_url: { url: "http://x/y.png" } },
        ],
      },
    ]);
  });

  it("translates what engines call otherwise, and lets through what it does not know", () => {
    const { body } = decode({
      tools: [
        {
          name: "f",
          description: "d",
          input_schema: { type: "object" },
          eager_input_streaming: true,
          defer_loading: true,
        },
      ],
      tool_choice: { type: "any", disable_parallel_tool_use: true },
      stop_sequences: ["END"],
      thinking: { type: "disabled" },
      output_config: { effort: "max", format: { type: "json_schema", schema: { type: "object" } } },
      context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
      metadata: { user_id: "u" },
      top_k: 5,
      min_p: 0.1,
    });
    expect(body).toEqual({
      model: "m",
      max_tokens: 9,
      messages: USER,
      tools: [
        { type: "function", function: { name: "f", description: "d", parameters: { type: "object" } } },
      ],
      tool_choice: "required",
      parallel_tool_calls: false,
      stop: ["END"],
      chat_template_kwargs: { enable_thinking: false },
      reasoning_effort: "high",
      response_format: {
        type: "json_schema",
        json_schema: { name: "output", schema: { type: "object" }, strict: true },
      },
      top_k: 5,
      min_p: 0.1,
    });
  });

  it("has an answer that the client began gone on with", () => {
    const begun = [...USER, { role: "assistant", content: "The answer is" }];
    expect(decode({ messages: begun }).body).toMatchObject({
      add_generation_prompt: false,
      continue_final_message: true,
    });
    expect(decode({}).body).not.toHaveProperty("continue_final_message");
  });

  it("says that no edit of the context was made where one was asked for", () => {
    const edits = { context_management: { edits: [{ type: "clear_tool_uses_20250919" }] } };
    const { events } = streamed([chunkOf({ content: "a" }), chunkOf({}, "stop")], edits);
    expect(events.at(-2)).toMatchObject({ context_management: { applied_edits: [] } });
  });

  it.each([
    [{ tools: [{ type: "web_search_20250305", name: "web_search" }] }, /tools\[0\]\.type is not served here/],
    [{ mcp_servers: [{ url: "http://x" }] }, /mcp_servers is not served here/],
    [{ container: "c" }, /container is not served here/],
    [
      { context_management: { edits: [{ type: "compact_20260112" }] } },
      /edits\[0\]\.type is not served here/,
    ],
    [{ messages: [{ role: "assistant", content: [{ type: "redacted_thinking", data: "x" }] }] }, /redacted/],
    [{ messages: [{ role: "assistant", content: [{ type: "server_tool_use" }] }] }, /content\[0\]\.type/],
    [
      { messages: [{ role: "user", content: [{ type: "search_result" }] }] },
      /messages\[0\]\.content\[0\]\.type/,
    ],
    [{ messages: [{ role: "user", content: [{ type: "document", source: { type: "base64" } }] }] }, /source/],
    [{ messages: [{ role: "tool", content: "x" }] }, /messages\[0\]\.role is "tool"/],
    [{ messages: [] }, /messages is \[\]/],
    [{ max_tokens: undefined }, /max_tokens is missing/],
    [
      { tool_choice: { type: "maybe" }, tools: [{ name: "f", input_schema: {} }] },
      /tool_choice\.type is "maybe"/,
    ],
  ])("refuses by name what no engine can be given: %j", (fields, message) => {
    expect(() => decode(fields)).toThrow(message);
  });
});

describe("errors of the Messages API", () => {
  it.each([
    "This model's maximum context length is 2048 tokens. However, your prompt contains 2100 input tokens, which exceeds this limit even without any output tokens.",
    "This model's maximum context length is 2048 tokens. However, you requested 2100 tokens (52 in the messages, 2048 in the completion).",
    "The decoder prompt (length 2100) is longer than the maximum model length of 2048.",
    "The input (2100 tokens) is longer than the model's context length (2048 tokens).",
    "request (2100 tokens) exceeds the available context size (2048 tokens), try increasing it",
  ])("tell a context that overflowed in the words by which agents compact: %s", (message) => {
    const error = new CoppiceError("engine_error", message, { status: 400 });
    expect(JSON.parse(messagesErrors.body(error))).toEqual({
      type: "error",
      error: { type: "invalid_request_error", message: "prompt is too long: 2100 tokens > 2048 maximum" },
    });
  });

  it.each([
    [400, "invalid_request_error"],
    [404, "not_found_error"],
    [429, "rate_limit_error"],
    [502, "api_error"],
    [529, "overloaded_error"],
  ])("have the type that goes with status %d", (status, type) => {
    const error = new CoppiceError("engine_error", "no", { status, detail: { type: "X" } });
    expect(JSON.parse(messagesErrors.body(error))).toEqual({ type: "error", error: { type, message: "no" } });
  });
});

describe("the input of a tool call", () => {
  it.each([
    ["", {}],
    ['{"a":1.0}', { a: 1 }],
    ['{"a":"x', { a: "x" }],
    ['{"a":"x\\', { a: "x" }],
    ['{"a":"x\\u00', { a: "x" }],
    ['{"a":[1,{"b":"c"', { a: [1, { b: "c" }] }],
    ['{"a":"x","b', { a: "x" }],
    ['{"a":"x","b":', { a: "x" }],
    ['{"a":{"b":true},"c":tr', { a: { b: true } }],
    ["[1]", { raw_arguments: "[1]" }],
    ["nonsense", { raw_arguments: "nonsense" }],
  ])("is what was said of %s", (text, input) => {
    expect(objectOf(text)).toEqual(input);
  });
});
