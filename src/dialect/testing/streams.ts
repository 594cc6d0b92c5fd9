// Internal chunks for codec tests, the events that come out, and a reader that gathers each dialect's stream the way
// its official client does.
import type { AnswerHead, Json, StreamWriter } from "../dialect.ts";
import { SseReader } from "../sse.ts";

export const UNIQUE = "0123456789abcdef0123456789abcdef";

export function headOf(prefix: string): AnswerHead {
  return { responseId: prefix + UNIQUE, model: "asked-name", createdAt: 1_700_000_000 };
}

export const USAGE: Json = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };

/** A chunk of choice 0. */
export function chunkOf(delta: Json, finishReason: string | null = null, fields: Json = {}): Json {
  return {
    id: "engine",
    object: "chat.completion.chunk",
    created: 1,
    model: "engine-model",
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason, ...fields }],
  };
}

export function toolDelta(index: number, fields: { id?: string; name?: string; args?: string }): Json {
  const target = {
    ...(fields.name === undefined ? {} : { name: fields.name }),
    ...(fields.args === undefined ? {} : { arguments: fields.args }),
  };
  const id = fields.id === undefined ? {} : { id: fields.id, type: "function" };
  return { tool_calls: [{ index, ...id, function: target }] };
}

export interface WrittenStream {
  readonly text: string;
  readonly events: readonly Json[];
  /** Event types as the `event:` fields have them. */
  readonly types: readonly string[];
}

/** The last chunk is held, as the gateway holds it. */
export function written(
  writer: StreamWriter,
  chunks: readonly Json[],
  usage: Json | null = USAGE,
): WrittenStream {
  const held = chunks.findIndex((chunk) => JSON.stringify(chunk).includes('"finish_reason":"'));
  const from = held === -1 ? chunks.length : held;
  const before = chunks.slice(0, from).map((chunk) => writer.chunk(chunk));
  return readStream(before.join("") + writer.end(chunks.slice(from), usage));
}

export function readStream(text: string): WrittenStream {
  const events: Json[] = [];
  const types: string[] = [];
  const reader = new SseReader((event) => {
    types.push(event.type);
    if (event.text !== "[DONE]") events.push(JSON.parse(event.text) as Json);
  });
  reader.feed(Buffer.from(text));
  reader.end();
  return { text, events, types };
}

/** Reasoning, then text, then two tool calls whose first delta holds the name and all arguments. */
export const FIELD_CASE: readonly Json[] = [
  chunkOf({ role: "assistant", content: "" }),
  chunkOf({ reasoning: "let me " }),
  chunkOf({ reasoning: "think" }),
  chunkOf({ content: "I look " }),
  chunkOf({ content: "世界" }),
  chunkOf(toolDelta(0, { id: "call-a", name: "read", args: '{"path":  "a", "n": 1.0}' })),
  chunkOf(toolDelta(1, { id: "call-b", name: "list", args: "{}" })),
  chunkOf({}, "tool_calls"),
  {
    id: "engine",
    object: "chat.completion.chunk",
    created: 1,
    model: "engine-model",
    choices: [],
    usage: USAGE,
  },
];

/** The same answer as the engine tells it unstreamed. */
export const FIELD_CASE_WHOLE: Json = {
  id: "engine",
  object: "chat.completion",
  created: 1,
  model: "engine-model",
  choices: [
    {
      index: 0,
      message: {
        role: "assistant",
        content: "I look 世界",
        reasoning: "let me think",
        tool_calls: [
          {
            id: "call-a",
            type: "function",
            function: { name: "read", arguments: '{"path":  "a", "n": 1.0}' },
          },
          { id: "call-b", type: "function", function: { name: "list", arguments: "{}" } },
        ],
      },
      logprobs: null,
      finish_reason: "tool_calls",
      stop_reason: null,
    },
  ],
  usage: USAGE,
};
