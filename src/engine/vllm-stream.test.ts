import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SseReader } from "../dialect/sse.ts";
import type { EngineChunk } from "./engine.ts";
import { recordedBody } from "./testing/recorded.ts";
import { DONE, framesOf, StreamGathering } from "./vllm-stream.ts";

/** Everything that is read out of a stream that arrives in pieces. */
function gather(pieces: readonly Uint8Array[], maxTokens: number | null = null): unknown {
  const gathering = new StreamGathering({ body: "", keepIds: false, maxTokens });
  const chunks: EngineChunk[] = [];
  const reader = new SseReader((event) => {
    for (const frame of framesOf(event))
      if (frame !== DONE) chunks.push(gathering.take(gathering.parse(frame)));
  });
  for (const piece of pieces) reader.feed(piece);
  reader.end();
  const { promptTokenIds, usage, finished } = gathering;
  return { promptTokenIds, usage, finished, chunks, choices: gathering.choices("whole") };
}

/** Pieces of at most 7 bytes, and larger ones, all over the stream. */
const sizes = fc.infiniteStream(fc.oneof(fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 2_000 })));

function cut(bytes: Buffer, lengths: Iterator<number>): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length;) {
    const size = lengths.next().value as number;
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

describe("gathering a recorded stream", () => {
  it.each(["chat_multibyte_stream", "chat_n2_stream", "chat_named_tool_cut_stream"])(
    "reads the same call at every cut position: %s (opencode 27365)",
    (name) => {
      const bytes = Buffer.from(recordedBody(name));
      const expected = JSON.stringify(gather([bytes]));
      for (let at = 1; at < bytes.length; at++) {
        const told = JSON.stringify(gather([bytes.subarray(0, at), bytes.subarray(at)]));
        if (told !== expected) expect(told, `cut at ${at}`).toBe(expected);
      }
    },
  );

  it("reads the same call in any pieces, with any line ends and framing", () => {
    const framing = fc.record({
      newline: fc.constantFrom("\n", "\r\n", "\r"),
      blank: fc.constantFrom(" ", ""),
      one: fc.boolean(),
    });
    const name = fc.constantFrom(
      "chat_required_tool_stream",
      "chat_capture_stream",
      "chat_n2_stream",
      "chat_stop_stream",
    );
    fc.assert(
      fc.property(name, framing, sizes, (name, { newline, blank, one }, lengths) => {
        const recordedText = recordedBody(name);
        const text = recordedText
          .replaceAll("data: ", `data:${blank}`)
          .replaceAll("\n\n", one ? "\n" : "\n\n")
          .replaceAll("\n", newline);
        expect(gather(cut(Buffer.from(text), lengths))).toEqual(gather([Buffer.from(recordedText)]));
      }),
      { numRuns: 60 },
    );
  });

  it("fails at a frame that cannot be read and never skips it, wherever the stream is cut", () => {
    const text = recordedBody("chat_required_tool_stream").replace(
      '{"arguments":"rance"}',
      '{"arguments":"rance}',
    );
    const bytes = Buffer.from(text);
    expect(() => gather([bytes])).toThrow(/frame \d+ of the engine's stream is not JSON/);
    fc.assert(
      fc.property(sizes, (lengths) => {
        expect(() => gather(cut(bytes, lengths))).toThrow(/frame \d+ of the engine's stream is not JSON/);
      }),
      { numRuns: 20 },
    );
  });

  it("takes a frame that is JSON and no object for unreadable", () => {
    for (const frame of ["7", "null", "[]", '"[DONE]"']) {
      expect(() => gather([Buffer.from(`data: ${frame}\n\n`)])).toThrow(
        "frame 1 of the engine's stream is no object",
      );
    }
  });
});

describe("the frames of an event", () => {
  const event = (text: string): Parameters<typeof framesOf>[0] => ({
    type: "message",
    text,
    lastEventId: "",
    terminated: true,
  });

  it("are its lines where each is a frame of its own, else the whole text", () => {
    expect(framesOf(event('{"a":1}'))).toEqual(['{"a":1}']);
    expect(framesOf(event('{"a":1}\n{"b":NaN}\n[DONE]'))).toEqual(['{"a":1}', '{"b":NaN}', "[DONE]"]);
    expect(framesOf(event('{\n"a":1\n}'))).toEqual(['{\n"a":1\n}']);
    expect(framesOf(event('{"a":1}\n{"b":'))).toEqual(['{"a":1}\n{"b":']);
  });
});
