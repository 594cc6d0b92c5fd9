import { describe, expect, it } from "vitest";
import { chatOfText } from "../engine/text-completion.ts";
import { recordedBody } from "../engine/testing/recorded.ts";
import { completionsDialect } from "./completions.ts";
import type { Json } from "./dialect.ts";
import { chunkOf, headOf, written } from "./testing/streams.ts";

const HEAD = headOf("cmpl-");

function decode(body: Json): ReturnType<typeof completionsDialect.decode> {
  return completionsDialect.decode({ model: "m", ...body }, new Map());
}

describe("a text completion", () => {
  it.each([
    ["hi", "hi"],
    [["hi"], "hi"],
    [
      [1, 2],
      [1, 2],
    ],
    [[[1, 2]], [1, 2]],
  ])("takes the prompt %j", (prompt, sent) => {
    const { body, kind, messages } = decode({ prompt, min_p: 0.1, echo: false, best_of: 1 });
    expect(body).toEqual({ model: "m", prompt: sent, min_p: 0.1 });
    expect({ kind, messages }).toEqual({ kind: "text", messages: [] });
  });

  it.each([
    [{ prompt: "a", echo: true }, /echo is not served here/],
    [{ prompt: "a", suffix: "b" }, /suffix is not served here/],
    [{ prompt: "a", best_of: 3 }, /best_of is not served here/],
    [{ prompt: ["a", "b"] }, /prompt is not served here: send one prompt a call/],
    [{ prompt: [] }, /prompt is \[\]/],
    [{ prompt: [1, -2] }, /prompt is \[1,-2\]/],
    [{}, /prompt is missing/],
    [{ prompt: "a", n: 0 }, /n is 0/],
  ])("refuses by name what it cannot record: %j", (body, message) => {
    expect(() => decode(body)).toThrow(message);
  });

  it("gives back what the real engine wrote, under its own id and the name that was asked for", () => {
    const recorded = JSON.parse(recordedBody("completions_logprobs2_whole")) as Json;
    const chat = chatOfText(structuredClone(recorded), false);
    const back = JSON.parse(decode({ prompt: "a", logprobs: 2 }).writer.whole(chat, HEAD)) as Json;
    const { prompt_token_ids: _lifted, ...rest } = back;
    expect(rest).toMatchObject({ id: HEAD.responseId, object: "text_completion", model: "asked-name" });
    const choices = (recorded["choices"] as Json[]).map(({ prompt_token_ids: _ids, ...choice }) => choice);
    expect(rest["choices"]).toEqual(choices);
  });

  it("streams texts, the usage only for who asked, and the terminator", () => {
    const chunks = [chunkOf({ content: "a" }), chunkOf({ content: "b" }, "stop")];
    const bare = written(decode({ prompt: "x" }).writer.stream(HEAD), chunks);
    expect(bare.events.map(({ choices }) => (choices as Json[])[0])).toMatchObject([
      { text: "a", finish_reason: null },
      { text: "b", finish_reason: "stop" },
    ]);
    expect(bare.text.endsWith("data: [DONE]\n\n")).toBe(true);
    const asked = decode({ prompt: "x", stream_options: { include_usage: true } });
    const { events } = written(asked.writer.stream(HEAD), chunks);
    expect(events.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 18 } });
  });
});
