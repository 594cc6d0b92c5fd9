import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RECORDED, recordedBody } from "../engine/testing/recorded.ts";
import { SseReader, type SseEvent, type SseLimits } from "./sse.ts";
import { sseComment, sseEvent } from "./sse-write.ts";

/** All events of a stream that arrives in the given pieces. */
function read(pieces: readonly Uint8Array[], limits?: SseLimits): SseEvent[] {
  const events: SseEvent[] = [];
  const reader = new SseReader((event) => events.push(event), limits);
  for (const piece of pieces) reader.feed(piece);
  reader.end();
  return events;
}

function readText(text: string): SseEvent[] {
  return read([Buffer.from(text)]);
}

/** The text of each event, with a mark on those that were not ended. */
function texts(events: readonly SseEvent[]): string[] {
  return events.map((event) => (event.terminated ? event.text : `${event.text} (not ended)`));
}

/** What the specification's own line-based reading gives for a whole text, written plainly. */
function readPlainly(text: string): string[] {
  const events: string[] = [];
  let data: string[] = [];
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\r|\n/);
  // What stands behind the last line end is a line only if there is anything.
  if (lines.at(-1) === "") lines.pop();
  for (const line of lines) {
    if (line === "") {
      if (data.length > 0) events.push(data.join("\n"));
      data = [];
    } else if (line === "data") data.push("");
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  if (data.length > 0) events.push(`${data.join("\n")} (not ended)`);
  return events;
}

const HARD = [
  "\uFEFF",
  ": a comment\n",
  "data:no blank\r\n\r\n",
  'data: {"text":"世界 😀"}\n\n',
  "event: named\ndata: one\rdata:  two\n\r\n",
  "id: 7\nretry: 10\ndata\n\n",
  "event: nothing\n\n",
  ": comment in\r: two lines\r\rdata: mixed\r\n\r",
  "data: [DONE]\n",
].join("");

describe("the event-stream reader", () => {
  it("reads fields as the WHATWG's own examples have them", () => {
    expect(texts(readText("data: YHOO\ndata: +2\ndata: 10\n\n"))).toEqual(["YHOO\n+2\n10"]);
    expect(texts(readText("data\n\ndata\ndata\n\ndata:"))).toEqual(["", "\n", " (not ended)"]);
    expect(texts(readText("data:test\n\ndata: test\n\n"))).toEqual(["test", "test"]);
    const stream =
      ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n";
    expect(readText(stream)).toEqual([
      { type: "message", text: "first event", lastEventId: "1", terminated: true },
      { type: "message", text: "second event", lastEventId: "", terminated: true },
      { type: "message", text: " third event", lastEventId: "", terminated: true },
    ]);
  });

  it("tells the type of an event and forgets it with the next one", () => {
    const events = readText("event: sglext_ids\ndata: a\n\ndata: b\n\n");
    expect(events.map((event) => event.type)).toEqual(["sglext_ids", "message"]);
  });

  it("reads line ends of all three kinds, a byte order mark and a missing blank after the colon", () => {
    const expected = ["no blank", '{"text":"世界 😀"}', "one\n two", "", "mixed", "[DONE] (not ended)"];
    expect(texts(readText(HARD))).toEqual(expected);
  });

  it("hands out a last event that one newline or none ends, and says so", () => {
    expect(texts(readText("data: a\n\ndata: b\n\n"))).toEqual(["a", "b"]);
    expect(texts(readText("data: a\n\ndata: b\n"))).toEqual(["a", "b (not ended)"]);
    expect(texts(readText("data: a\n\ndata: b"))).toEqual(["a", "b (not ended)"]);
    expect(texts(readText("data: a\n\ndat"))).toEqual(["a"]);
  });

  it("takes an event for ended as soon as its blank line is there, without waiting for what follows a CR", () => {
    const events: SseEvent[] = [];
    const reader = new SseReader((event) => events.push(event));
    reader.feed(Buffer.from("data: a\r\r"));
    expect(texts(events)).toEqual(["a"]);
    reader.feed(Buffer.from("\ndata: b\n\n"));
    expect(texts(events)).toEqual(["a", "b"]);
  });

  it("takes a byte order mark for a mark at the start of the stream only", () => {
    expect(texts(readText("\uFEFFdata: \uFEFFa\n\n\uFEFFdata: b\n\n"))).toEqual(["\uFEFFa"]);
  });

  it("gives the same events at every cut position of a hard stream (claude-code-router 1672, opencode 27365)", () => {
    const bytes = Buffer.from(HARD);
    const expected = read([bytes]);
    for (let cut = 0; cut <= bytes.length; cut++) {
      expect(read([bytes.subarray(0, cut), bytes.subarray(cut)]), `cut at ${cut}`).toEqual(expected);
    }
    expect(read(Array.from(bytes, (byte) => Uint8Array.of(byte)))).toEqual(expected);
  });

  it.each(["chat_multibyte_stream", "chat_n2_stream", "completions_ids_stream"])(
    "gives the same events at every cut position of the recorded stream %s",
    (name) => {
      const bytes = Buffer.from(recordedBody(name));
      const expected = read([bytes]);
      expect(expected.at(-1)).toMatchObject({ text: "[DONE]", terminated: true });
      for (let cut = 1; cut < bytes.length; cut++) {
        const events = read([bytes.subarray(0, cut), bytes.subarray(cut)]);
        // Whole comparison at each of thousands of cuts takes most of the test's time.
        if (JSON.stringify(events) !== JSON.stringify(expected))
          expect(events, `cut at ${cut}`).toEqual(expected);
      }
    },
  );

  it("reads every recorded stream to its end, whatever the pieces", () => {
    const streams = RECORDED.filter((exchange) => exchange.response.content_type?.includes("event-stream"));
    expect(streams.length).toBeGreaterThan(10);
    const cuts = fc.array(fc.nat(20_000), { maxLength: 12 });
    fc.assert(
      fc.property(fc.constantFrom(...streams), cuts, ({ response }, at) => {
        const bytes = Buffer.from(response.body);
        const places = [0, ...at.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length];
        const pieces = places.slice(1).map((place, index) => bytes.subarray(places[index], place));
        expect(texts(read(pieces))).toEqual(readPlainly(response.body));
      }),
      { numRuns: 100 },
    );
  });

  it("agrees with a plain reading of the whole text for any mix of lines, ends and cuts", () => {
    const line = fc.oneof(
      fc.constantFrom(
        "",
        "data",
        "data:",
        "data: x",
        "data:  y",
        ":",
        ": z",
        "event: e",
        "id: 1",
        "datax: no",
        "世",
      ),
      fc.string({ unit: "grapheme", maxLength: 8 }).map((text) => `data: ${text.replaceAll(/[\r\n]/g, "")}`),
    );
    const end = fc.constantFrom("\n", "\r\n", "\r");
    const stream = fc.array(fc.tuple(line, end), { maxLength: 20 }).map((lines) => lines.flat().join(""));
    fc.assert(
      fc.property(stream, fc.infiniteStream(fc.integer({ min: 1, max: 7 })), (text, sizes) => {
        const bytes = Buffer.from(text);
        const pieces: Buffer[] = [];
        for (let at = 0; at < bytes.length;) {
          const size = sizes.next().value as number;
          pieces.push(bytes.subarray(at, at + size));
          at += size;
        }
        expect(texts(read(pieces))).toEqual(readPlainly(text));
      }),
      { numRuns: 500 },
    );
  });

  it("refuses an event above its limit, in one line or in many, and names the limit", () => {
    const limits = { maxEventBytes: 20 };
    expect(texts(read([Buffer.from("data: 12345678901234\n\n")], limits))).toEqual(["12345678901234"]);
    const message = "a server-sent event has more than 20 bytes, which is the limit for one event";
    expect(() => read([Buffer.from("data: 123456789012345\n\n")], limits)).toThrow(message);
    expect(() => read([Buffer.from("data: 1\ndata: 2\ndata: 3\n")], limits)).toThrow(message);
    // A line that never ends must not be gathered for ever.
    const reader = new SseReader(() => undefined, limits);
    const byte = Buffer.from("x");
    for (let count = 0; count < 20; count++) reader.feed(byte);
    expect(() => reader.feed(byte)).toThrow(message);
    const events = Array.from({ length: 30 }, () => Buffer.from("data: 1\n\n"));
    expect(read(events, limits)).toHaveLength(30);
  });

  it("lets what its listener throws out of feed", () => {
    const reader = new SseReader(() => {
      throw new Error("no more");
    });
    expect(() => reader.feed(Buffer.from("data: a\n\n"))).toThrow("no more");
  });
});

describe("the event-stream writer", () => {
  it("writes what the reader reads back, whatever the text", () => {
    const text = fc.string({ unit: fc.constantFrom("a", "\n", "\r", " ", ":", "世", "data:") });
    fc.assert(
      fc.property(
        text,
        fc.option(fc.constantFrom("ping", "response.created"), { nil: undefined }),
        (text, type) => {
          const wire =
            sseEvent(type === undefined ? { text } : { type, text }) +
            sseComment() +
            sseEvent({ text: "end" });
          const events = readText(wire);
          expect(events.map((event) => event.text)).toEqual([text.replaceAll(/\r\n|\r/g, "\n"), "end"]);
          expect(events[0]?.type).toBe(type ?? "message");
        },
      ),
    );
  });

  it("writes an id, and heartbeats that are nobody's event", () => {
    expect(sseEvent({ type: "ping", id: "4", text: "{}" })).toBe("event: ping\nid: 4\ndata: {}\n\n");
    expect(sseComment("still here")).toBe(": still here\n\n");
    expect(readText(sseComment())).toEqual([]);
  });

  it("takes a line end in a type, an id or a comment for a bug", () => {
    expect(() => sseEvent({ type: "a\ndata: b", text: "" })).toThrow("the type of a server-sent event");
    expect(() => sseEvent({ id: "\r", text: "" })).toThrow("the id of a server-sent event");
    expect(() => sseComment("a\nb")).toThrow("the comment of a server-sent event");
  });
});
