import { describe, expect, it } from "vitest";
import { CoppiceError } from "../errors.ts";
import type { Json, StoredAnswer } from "./dialect.ts";
import { chatDialect } from "./chat-completions.ts";
import { responsesDialect } from "./responses.ts";
import {
  chunkOf,
  FIELD_CASE,
  FIELD_CASE_WHOLE,
  headOf,
  toolDelta,
  UNIQUE,
  written,
} from "./testing/streams.ts";

const NONE: ReadonlyMap<string, StoredAnswer> = new Map();
const HEAD = headOf("resp_");

function decode(body: Json, stored = NONE): ReturnType<typeof responsesDialect.decode> {
  return responsesDialect.decode({ model: "m", ...body }, stored);
}

function streamed(chunks: readonly Json[], body: Json = {}): ReturnType<typeof written> {
  return written(decode({ input: "hi", stream: true, ...body }).writer.stream(HEAD), chunks);
}

function last(events: readonly Json[]): Json {
  return (events.at(-1) as { readonly response: Json }).response;
}

describe("the stream of a response", () => {
  it("has reasoning, text and two tool calls in the strict order, each begun and ended once (litellm 25321, 32357)", () => {
    const { events, types } = streamed(FIELD_CASE);
    expect(types).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.reasoning_text.delta",
      "response.reasoning_text.delta",
      "response.reasoning_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
      "response.output_item.done",
      "response.completed",
    ]);
    expect(events.map(({ sequence_number: sequence }) => sequence)).toEqual(events.map((_, index) => index));
    expect(events.map(({ type }) => type)).toEqual(types);
  });

  it("ends in the object that the same answer has unstreamed", () => {
    const whole = JSON.parse(decode({ input: "hi" }).writer.whole(FIELD_CASE_WHOLE, HEAD)) as Json;
    const { completed_at: _one, ...response } = last(streamed(FIELD_CASE).events);
    const { completed_at: _other, ...expected } = whole;
    expect(response).toEqual(expected);
    expect(whole).toMatchObject({
      id: `resp_${UNIQUE}`,
      model: "asked-name",
      status: "completed",
      usage: { input_tokens: 11, output_tokens: 7, total_tokens: 18 },
      output: [
        {
          id: `rs_${UNIQUE}_0`,
          type: "reasoning",
          content: [{ type: "reasoning_text", text: "let me think" }],
        },
        { id: `msg_${UNIQUE}_0`, content: [{ type: "output_text", text: "I look 世界" }] },
        { id: `fc_${UNIQUE}_0`, call_id: "call-a", name: "read", arguments: '{"path":  "a", "n": 1.0}' },
        { id: `fc_${UNIQUE}_1`, call_id: "call-b", name: "list", arguments: "{}" },
      ],
    });
  });

  it("tells nothing of how the answer ends before the held chunk is handed over", () => {
    const writer = decode({ input: "hi" }).writer.stream(HEAD);
    const before = FIELD_CASE.slice(0, 5).map((chunk) => writer.chunk(chunk));
    expect(before.join("")).not.toMatch(/response\.completed|output_text\.done/);
    expect(writer.end(FIELD_CASE.slice(7), null)).toContain("response.completed");
  });

  it("is incomplete where the length cut it off, and only what was open then", () => {
    const { events } = streamed([
      chunkOf({ content: "a" }),
      chunkOf(toolDelta(0, { id: "c", name: "f", args: '{"x":' })),
      chunkOf({}, "length"),
    ]);
    expect(events.at(-1)?.["type"]).toBe("response.incomplete");
    expect(last(events)).toMatchObject({
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
      output: [{ status: "completed" }, { status: "incomplete", arguments: '{"x":' }],
    });
  });

  it("tells the same of an answer that was cut off unstreamed", () => {
    const message = {
      content: "a",
      tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: '{"x":' } }],
    };
    const json = { choices: [{ index: 0, message, finish_reason: "length" }] };
    expect(JSON.parse(decode({ input: "hi" }).writer.whole(json, HEAD))).toMatchObject({
      status: "incomplete",
      output: [{ status: "completed" }, { status: "incomplete", arguments: '{"x":' }],
    });
  });

  it("tells reasoning as a summary where one was asked for, and seals it where that was", () => {
    const body = { reasoning: { summary: "auto" }, include: ["reasoning.encrypted_content"] };
    const { types, events } = streamed(FIELD_CASE, body);
    expect(types).toContain("response.reasoning_summary_text.delta");
    expect(types).not.toContain("response.reasoning_text.delta");
    const [item] = last(events)["output"] as Json[];
    expect(item).toMatchObject({ summary: [{ type: "summary_text", text: "let me think" }] });
    const again = decode({
      input: [{ type: "reasoning", summary: [], encrypted_content: item?.["encrypted_content"] }],
    });
    expect(again.messages[0]).toMatchObject({ role: "assistant", reasoning: "let me think" });
  });

  it("keeps log-probs with their text where they were asked for", () => {
    const entry = { token: "a", logprob: -1, bytes: [97], top_logprobs: [] };
    const chunks = [chunkOf({ content: "a" }, null, { logprobs: { content: [entry] } }), chunkOf({}, "stop")];
    const asked = streamed(chunks, { include: ["message.output_text.logprobs"] });
    expect(last(asked.events)["output"]).toMatchObject([{ content: [{ logprobs: [entry] }] }]);
    expect(last(streamed(chunks).events)["output"]).toMatchObject([{ content: [{ logprobs: [] }] }]);
  });

  it("tells a failure both as a failed response and as an error", () => {
    const writer = decode({ input: "hi" }).writer.stream(HEAD);
    writer.chunk(chunkOf({ content: "a" }));
    const text = writer.fail(new CoppiceError("engine_error", "it died"));
    expect(text).toContain("event: response.failed");
    expect(text).toContain('"error":{"type":"engine_error","code":"engine_error","message":"it died"');
  });

  it("puts the calls of a namespace back under it", () => {
    const tools = [
      {
        type: "namespace",
        name: "fs",
        tools: [{ type: "function", name: "read", parameters: { type: "object" } }],
      },
    ];
    const asked = decode({ input: "hi", tools });
    expect(asked.body["tools"]).toMatchObject([{ type: "function", function: { name: "fs__read" } }]);
    const chunks = [
      chunkOf(toolDelta(0, { id: "c", name: "fs__read", args: "{}" })),
      chunkOf({}, "tool_calls"),
    ];
    const { events } = streamed(chunks, { tools });
    const output = last(events)["output"] as Json[];
    expect(output).toMatchObject([{ name: "read", namespace: "fs" }]);
    const again = decode({
      input: [...output, { type: "function_call_output", call_id: "c", output: "x" }],
      tools,
    });
    expect(again.messages).toMatchObject([
      { tool_calls: [{ function: { name: "fs__read" } }] },
      { role: "tool" },
    ]);
  });
});

describe("reading a Responses request", () => {
  it("makes one assistant message of the items of one answer, and a new one for the next", () => {
    const { messages } = decode({
      instructions: "be good",
      input: [
        { role: "developer", content: [{ type: "input_text", text: "dev" }] },
        { role: "user", content: "u" },
        { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "r" }] },
        {
          type: "message",
          role: "assistant",
          content: [{ type: "output_text", text: "t", annotations: [] }],
        },
        { type: "function_call", call_id: "a", name: "f", arguments: "{}" },
        { type: "function_call", call_id: "b", name: "f", arguments: "{}" },
        { type: "function_call_output", call_id: "a", output: "1" },
        { type: "function_call_output", call_id: "b", output: [{ type: "input_text", text: "2" }] },
        { type: "message", role: "assistant", content: "done" },
        { type: "message", role: "assistant", content: "once more" },
      ],
    });
    const call = (id: string): Json => ({ id, type: "function", function: { name: "f", arguments: "{}" } });
    expect(messages).toEqual([
      {
        role: "system",
        content: [
          { type: "text", text: "be good" },
          { type: "text", text: "dev" },
        ],
      },
      { role: "user", content: "u" },
      {
        role: "assistant",
        content: "t",
        reasoning: "r",
        reasoning_content: "r",
        tool_calls: [call("a"), call("b")],
      },
      { role: "tool", tool_call_id: "a", content: "1" },
      { role: "tool", tool_call_id: "b", content: "2" },
      { role: "assistant", content: "done" },
      { role: "assistant", content: "once more" },
    ]);
  });

  it("resolves references to items by the ids that it gave them, and asks for their answers", () => {
    const answer = FIELD_CASE_WHOLE["choices"] as readonly { readonly message: Json }[];
    const stored = new Map([
      [`resp_${UNIQUE}`, { messages: [], answer: answer[0]?.message as Json, notes: [] }],
    ]);
    const body = {
      input: [
        { role: "user", content: "u" },
        { type: "item_reference", id: `rs_${UNIQUE}_0` },
        { type: "item_reference", id: `msg_${UNIQUE}_0` },
        { type: "item_reference", id: `fc_${UNIQUE}_0` },
        { type: "function_call", call_id: "call-b", name: "list", arguments: "{}" },
      ],
    };
    expect(responsesDialect.neededAnswers(body)).toEqual([`resp_${UNIQUE}`]);
    expect(decode(body, stored).messages).toHaveLength(2);
    expect(decode(body, stored).messages[1]).toMatchObject({
      content: "I look 世界",
      reasoning: "let me think",
      tool_calls: [{ id: "call-a" }, { id: "call-b" }],
    });
    expect(() => decode(body)).toThrow(/input\[1\]\.id is "rs_/);
  });

  it("goes on from an earlier response without its instructions", () => {
    const first = decode({
      instructions: "old",
      input: [
        { role: "system", content: "s" },
        { role: "user", content: "u" },
      ],
    });
    const stored = new Map([
      [
        "resp_x",
        { messages: first.messages, answer: { role: "assistant", content: "a" }, notes: first.notes },
      ],
    ]);
    expect(
      decode({ previous_response_id: "resp_x", instructions: "new", input: "v" }, stored).messages,
    ).toEqual([
      {
        role: "system",
        content: [
          { type: "text", text: "new" },
          { type: "text", text: "s" },
        ],
      },
      { role: "user", content: "u" },
      { role: "assistant", content: "a" },
      { role: "user", content: "v" },
    ]);
    expect(() => decode({ previous_response_id: "resp_y", input: "v" }, stored)).toThrow(
      /previous_response_id is "resp_y"; it must be the id of an earlier answer/,
    );
  });

  it("drops earlier instructions that were the whole system message", () => {
    const first = decode({ instructions: "old", input: "u" });
    const answer = { role: "assistant", content: "a" };
    const stored = new Map([["resp_x", { messages: first.messages, answer, notes: first.notes }]]);
    expect(decode({ previous_response_id: "resp_x", input: "v" }, stored).messages).toEqual([
      { role: "user", content: "u" },
      answer,
      { role: "user", content: "v" },
    ]);
  });

  it("translates what engines call otherwise, and lets through what it does not know", () => {
    const { body } = decode({
      input: "u",
      max_output_tokens: 9,
      reasoning: { effort: "xhigh" },
      text: {
        format: { type: "json_schema", name: "n", schema: { type: "object" }, strict: true },
        verbosity: "low",
      },
      tools: [{ type: "function", name: "f", parameters: { type: "object" }, strict: false }],
      tool_choice: { type: "function", name: "f" },
      parallel_tool_calls: false,
      temperature: 0.5,
      min_p: 0.1,
      store: false,
      prompt_cache_key: "k",
      client_metadata: { a: 1 },
    });
    expect(body).toEqual({
      model: "m",
      messages: [{ role: "user", content: "u" }],
      max_tokens: 9,
      reasoning_effort: "high",
      response_format: {
        type: "json_schema",
        json_schema: { name: "n", schema: { type: "object" }, strict: true },
      },
      tools: [{ type: "function", function: { name: "f", parameters: { type: "object" }, strict: false } }],
      tool_choice: { type: "function", function: { name: "f" } },
      parallel_tool_calls: false,
      temperature: 0.5,
      min_p: 0.1,
    });
  });

  it.each([
    [{ tools: [{ type: "file_search" }] }, /tools\[0\]\.type is not served here.*"file_search"/],
    [{ tools: [{ type: "custom", name: "x" }] }, /tools\[0\]\.type is not served here.*"custom"/],
    [{ conversation: "c" }, /conversation is not served here/],
    [{ prompt: { id: "p" } }, /prompt is not served here/],
    [{ background: true }, /background is not served here/],
    [{ input: [{ type: "computer_call" }] }, /input\[0\]\.type is not served here/],
    [{ input: [{ role: "user", content: [{ type: "input_file", file_id: "f" }] }] }, /content\[0\]\.type/],
    [{ input: [{ type: "reasoning", summary: [], encrypted_content: "gAAA" }] }, /encrypted_content/],
    [{ text: { format: { type: "grammar" } } }, /text\.format\.type/],
    [{ input: 5 }, /input is 5; it must be/],
  ])("refuses by name what no engine can be given: %j", (fields, message) => {
    expect(() => decode({ input: "u", ...fields })).toThrow(message);
  });

  it("leaves web search out, which agents offer whether anybody serves it or not, and says so", () => {
    const { body, notes } = decode({
      input: "u",
      tools: [{ type: "web_search" }],
      parallel_tool_calls: true,
    });
    expect(body["tools"]).toBeUndefined();
    expect(notes).toEqual(["left out: tools[0], a tool of type web_search"]);
  });
});

describe("reading a Chat Completions request", () => {
  it("turns developers into what templates know, and nothing else", () => {
    const body = { messages: [{ role: "user", content: "u" }], x: 1 };
    expect(chatDialect.decode(body, NONE).body).toBe(body);
    const developer = { messages: [{ role: "developer", content: "d" }], x: 1 };
    expect(chatDialect.decode(developer, NONE).body).toEqual({
      messages: [{ role: "system", content: "d" }],
      x: 1,
    });
  });
});

describe("a Chat Completions history whose answers came back in pieces", () => {
  const user = { role: "user", content: "u" };
  const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };

  it("has each answer in one message again, and says so", () => {
    const messages = [
      user,
      { role: "assistant", content: null, reasoning: "r" },
      { role: "assistant", content: [{ type: "text", text: "t", tool_calls: [call] }] },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "c", content: "o" },
    ];
    const { messages: joined, notes } = chatDialect.decode({ messages }, NONE);
    expect(joined).toEqual([
      user,
      {
        role: "assistant",
        content: [{ type: "text", text: "t", tool_calls: [call] }],
        reasoning: "r",
        tool_calls: [call],
      },
      messages[4],
    ]);
    expect(notes).toEqual(["joined: messages[1] to messages[3], the pieces of one answer"]);
  });

  it("is left alone where two answers stand side by side", () => {
    const messages = [
      user,
      { role: "assistant", content: "half an answer" },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "assistant", content: "", reasoning: "of a dead attempt" },
      { role: "assistant", content: "t" },
    ];
    const body = { messages };
    expect(chatDialect.decode(body, NONE).body).toBe(body);
  });
});
