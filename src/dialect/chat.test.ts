import { describe, expect, it } from "vitest";
import { recordedBody } from "../engine/testing/recorded.ts";
import { hasCutToolCall, MessageJoiner } from "./chat.ts";
import { SseReader } from "./sse.ts";

function join(...deltas: Record<string, unknown>[]): Readonly<Record<string, unknown>> {
  const joiner = new MessageJoiner();
  for (const delta of deltas) joiner.add(delta);
  return joiner.message();
}

/** Deltas of one choice of a recorded stream. */
function recordedDeltas(name: string, index = 0): Record<string, unknown>[] {
  const deltas: Record<string, unknown>[] = [];
  const reader = new SseReader(({ text }) => {
    if (text === "[DONE]") return;
    const chunk = JSON.parse(text) as { choices: { index: number; delta: Record<string, unknown> }[] };
    for (const choice of chunk.choices) if (choice.index === index) deltas.push(choice.delta);
  });
  reader.feed(Buffer.from(recordedBody(name)));
  reader.end();
  return deltas;
}

function wholeMessage(name: string, index = 0): Record<string, unknown> {
  const whole = JSON.parse(recordedBody(name)) as { choices: { message: Record<string, unknown> }[] };
  return whole.choices[index]?.message as Record<string, unknown>;
}

describe("joining the deltas of a streamed message", () => {
  it.each([
    ["chat_capture", 0],
    ["chat_multibyte", 0],
    ["chat_stop", 0],
    ["chat_n2", 0],
    ["chat_n2", 1],
  ])("gives the content that the real engine gives unstreamed: %s, choice %d", (name, index) => {
    const joined = join(...recordedDeltas(`${name}_stream`, index));
    expect(joined).toEqual({ role: "assistant", content: wholeMessage(`${name}_whole`, index)["content"] });
  });

  it("gives the tool call that the real engine gives unstreamed", () => {
    const joined = join(...recordedDeltas("chat_required_tool_stream"));
    const calls = joined["tool_calls"] as { id: string }[];
    const whole = wholeMessage("chat_required_tool_whole")["tool_calls"] as Record<string, unknown>[];
    expect(calls).toEqual(whole.map((call) => ({ ...call, id: calls[0]?.id })));
    expect(joined["content"]).toBeNull();
  });

  it("keeps reasoning under the name that the engine uses, and the refusal (qwen-code 4285)", () => {
    expect(
      join(
        { role: "assistant", content: "" },
        { reasoning: "a" },
        { reasoning: "b", content: "c" },
        { content: "d" },
      ),
    ).toEqual({ role: "assistant", content: "cd", reasoning: "ab" });
    expect(
      join({ reasoning_content: "a", content: null }, { reasoning_content: "b" }, { refusal: "no" }),
    ).toEqual({
      role: "assistant",
      content: null,
      reasoning_content: "ab",
      refusal: "no",
    });
  });

  it("joins two tool calls whose fragments come mixed, in the order of their index", () => {
    const { tool_calls: calls } = join(
      {
        content: null,
        tool_calls: [{ index: 1, id: "b", type: "function", function: { name: "g", arguments: "" } }],
      },
      { tool_calls: [{ index: 0, id: "a", type: "function", function: { name: "f", arguments: '{"x":' } }] },
      { tool_calls: [{ index: 1, function: { arguments: "[" } }] },
      {
        tool_calls: [
          { index: 0, function: { arguments: "1}" } },
          { index: 1, function: { arguments: "]" } },
        ],
      },
    );
    expect(calls).toEqual([
      { id: "a", type: "function", function: { name: "f", arguments: '{"x":1}' } },
      { id: "b", type: "function", function: { name: "g", arguments: "[]" } },
    ]);
  });

  it("takes a first delta that holds the name and all arguments (litellm 25321, 32357)", () => {
    const call = { id: "a", type: "function", function: { name: "f", arguments: '{"x":1}' } };
    expect(
      join(
        { reasoning: "r" },
        { content: "t" },
        {
          tool_calls: [
            { index: 0, ...call },
            { index: 1, ...call },
          ],
        },
      ),
    ).toEqual({ role: "assistant", content: "t", reasoning: "r", tool_calls: [call, call] });
  });

  it("does not double what a server repeats or leaves null in every delta", () => {
    const { tool_calls: calls } = join(
      {
        role: "assistant",
        tool_calls: [{ index: 0, id: "a", type: "function", function: { name: "f", arguments: "{" } }],
      },
      {
        role: null,
        tool_calls: [{ index: 0, id: null, type: "function", function: { name: null, arguments: '"x"' } }],
      },
      { role: "assistant", tool_calls: [{ index: 0, id: "", function: { name: "f", arguments: ":1}" } }] },
    );
    expect(calls).toEqual([{ id: "a", type: "function", function: { name: "f", arguments: '{"x":1}' } }]);
  });

  it("tells tool calls without an index apart by their ids", () => {
    const { tool_calls: calls } = join(
      { tool_calls: [{ id: "a", function: { name: "f", arguments: "1" } }] },
      { tool_calls: [{ function: { arguments: "2" } }] },
      { tool_calls: [{ id: "b", function: { name: "g", arguments: "3" } }] },
      { tool_calls: [{ id: "a", function: { arguments: "4" } }] },
    );
    expect(calls).toEqual([
      { id: "a", function: { name: "f", arguments: "124" } },
      { id: "b", function: { name: "g", arguments: "3" } },
    ]);
  });

  it("writes arguments that came parsed as the text that others send", () => {
    const { tool_calls: calls } = join({
      tool_calls: [{ index: 0, function: { name: "f", arguments: { x: 1 } } }],
    });
    expect(calls).toEqual([{ function: { name: "f", arguments: '{"x":1}' } }]);
  });

  it("keeps fields that nobody here knows: texts go on, lists grow, records are joined", () => {
    const joined = join(
      {
        content: "a",
        notes: "x",
        reasoning_details: [{ index: 0, text: "r" }],
        audio: { id: "1", data: "ab" },
      },
      {
        notes: "y",
        reasoning_details: [{ index: 0, text: "s" }],
        audio: { data: "cd", expires_at: 5 },
        extra: null,
      },
    );
    expect(joined).toEqual({
      role: "assistant",
      content: "a",
      notes: "xy",
      reasoning_details: [
        { index: 0, text: "r" },
        { index: 0, text: "s" },
      ],
      audio: { id: "1", data: "abcd", expires_at: 5 },
    });
  });

  it("invents nothing where nothing came", () => {
    expect(join()).toEqual({ role: "assistant", content: null });
    expect(join({ role: "assistant", content: "" })).toEqual({ role: "assistant", content: "" });
  });
});

describe("a tool call that was cut off", () => {
  it("is one whose arguments do not parse, or never came", () => {
    const call = (given?: string): Record<string, unknown> => ({
      tool_calls: [{ function: { name: "f", ...(given === undefined ? {} : { arguments: given }) } }],
    });
    expect(hasCutToolCall(call('{"cmd":"ls'))).toBe(true);
    expect(hasCutToolCall(call(""))).toBe(true);
    expect(hasCutToolCall(call())).toBe(true);
    expect(hasCutToolCall(call('{"cmd":"ls"}'))).toBe(false);
    expect(hasCutToolCall({ content: "{" })).toBe(false);
  });
});
