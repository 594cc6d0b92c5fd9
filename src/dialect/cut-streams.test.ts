// The streams that clients get, as their official readers take them: in two pieces, cut at every byte, they are the same
// answer; ended at any byte before the last, they are none.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { chatDialect } from "./chat-completions.ts";
import { messagesDialect } from "./messages.ts";
import { responsesDialect } from "./responses.ts";
import { SseReader } from "./sse.ts";
import { chunkOf, FIELD_CASE, headOf, readStream, toolDelta, USAGE, written } from "./testing/streams.ts";
import type { Json } from "./dialect.ts";

/** Small, and with everything in it that the field case has. */
const CHUNKS: readonly Json[] = [
  chunkOf({ reasoning: "r" }),
  chunkOf({ content: "世" }),
  chunkOf(toolDelta(0, { id: "a", name: "f", args: '{"x":"é"}' })),
  chunkOf({}, "tool_calls"),
];

/** What the client is sent next, whatever it asks. */
let sent: readonly Uint8Array[] = [];

const sending: typeof fetch = () => {
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      for (const piece of sent) controller.enqueue(piece);
      controller.close();
    },
  });
  return Promise.resolve(new Response(body, { headers: { "content-type": "text/event-stream" } }));
};

const anthropic = new Anthropic({ apiKey: "EMPTY", maxRetries: 0, fetch: sending });
const openai = new OpenAI({ apiKey: "EMPTY", maxRetries: 0, fetch: sending });

/** What the client makes of the pieces; throws, or is not complete, where they are no whole stream. */
type Read = (
  pieces: readonly Uint8Array[],
) => Promise<{ readonly complete: boolean; readonly answer: unknown }>;

const READERS: readonly (readonly [string, string, Read])[] = [
  [
    "messages",
    written(
      messagesDialect
        .decode({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "u" }] }, new Map())
        .writer.stream(headOf("msg_")),
      CHUNKS,
    ).text,
    async (pieces) => {
      sent = pieces;
      const messages = [{ role: "user" as const, content: "u" }];
      const { content, stop_reason: reason } = await anthropic.messages
        .stream({ model: "m", max_tokens: 9, messages })
        .finalMessage();
      return { complete: reason !== null, answer: content };
    },
  ],
  [
    "responses",
    written(
      responsesDialect.decode({ model: "m", input: "u" }, new Map()).writer.stream(headOf("resp_")),
      CHUNKS,
    ).text,
    async (pieces) => {
      sent = pieces;
      let completed: OpenAI.Responses.Response | null = null;
      for await (const event of await openai.responses.create({ model: "m", input: "u", stream: true })) {
        if (event.type === "response.completed") completed = event.response;
      }
      return { complete: completed !== null, answer: completed?.output };
    },
  ],
];

describe.each(READERS)("a stream of the %s API", (_name, text, read) => {
  const bytes = Buffer.from(text);

  it("is the same answer wherever it is cut in two", async () => {
    const whole = await read([bytes]);
    for (let cut = 1; cut < bytes.length; cut++) {
      expect(await read([bytes.subarray(0, cut), bytes.subarray(cut)])).toEqual(whole);
    }
  }, 120_000);

  it("is no answer where it ends before its last event is whole", async () => {
    const lastEvent = bytes.lastIndexOf("\nevent:") + 1;
    for (let cut = 1; cut <= lastEvent; cut++) {
      const complete = await read([bytes.subarray(0, cut)]).then(
        (answer) => answer.complete,
        () => false,
      );
      expect(complete).toBe(false);
    }
  }, 120_000);
});

describe("the engine's stream behind a dialect", () => {
  const asked = [
    messagesDialect.decode(
      { model: "m", max_tokens: 9, messages: [{ role: "user", content: "u" }] },
      new Map(),
    ),
    responsesDialect.decode({ model: "m", input: "u" }, new Map()),
    chatDialect.decode({ model: "m", messages: [{ role: "user", content: "u" }] }, new Map()),
  ];

  it("gives the same events wherever its bytes were cut", () => {
    const source = Buffer.from(FIELD_CASE.map((chunk) => `data: ${JSON.stringify(chunk)}\r\n\r\n`).join(""));
    const chunksOf = (cut: number): Json[] => {
      const chunks: Json[] = [];
      const reader = new SseReader((event) => chunks.push(JSON.parse(event.text) as Json));
      reader.feed(source.subarray(0, cut));
      reader.feed(source.subarray(cut));
      reader.end();
      return chunks;
    };
    const expected = asked.map(({ writer }) => written(writer.stream(headOf("x_")), FIELD_CASE).types);
    for (let cut = 0; cut <= source.length; cut++) {
      const chunks = chunksOf(cut);
      expect(asked.map(({ writer }) => written(writer.stream(headOf("x_")), chunks).types)).toEqual(expected);
    }
  }, 60_000);

  it("crashes nobody where a chunk has no choices, no delta, or a delta that is none", () => {
    const odd = [
      { choices: [] },
      {},
      { choices: [{}] },
      { choices: [null, 5, { index: 0, delta: null }] },
      { choices: [{ index: 0, delta: { tool_calls: [null, {}, { function: null }] } }] },
      { choices: [{ index: 1, delta: { content: "of another choice" } }] },
      { choices: "x", usage: 5 },
    ] as readonly Json[];
    for (const { writer } of asked) {
      const stream = writer.stream(headOf("x_"));
      const text = odd.map((chunk) => stream.chunk(chunk)).join("") + stream.end(odd, USAGE);
      expect(() => readStream(text)).not.toThrow();
    }
  });
});
