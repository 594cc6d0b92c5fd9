// Request bodies of public clients (testing/wire): nothing that the model is to read is lost in decoding, and the second
// request of a conversation goes on from the first and its answer.
import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Message } from "../lineage/call.ts";
import { digestMessages, isRecord } from "../lineage/message.ts";
import { chatDialect } from "./chat-completions.ts";
import type { ClientRequest, Dialect, Json, StoredAnswer } from "./dialect.ts";
import { messagesDialect } from "./messages.ts";
import { responsesDialect } from "./responses.ts";
import { UNIQUE } from "./testing/streams.ts";
import { wireRequests, type WireRequest } from "./testing/wire-fixtures.ts";

const FILES = readdirSync(new URL("./testing/wire/", import.meta.url)).map((name) =>
  name.replace(".json", ""),
);

/** For bodies that name earlier answers. */
const EARLIER: StoredAnswer = {
  messages: [{ role: "user", content: "one" }],
  answer: { role: "assistant", content: "Let me look at that.\n\n", reasoning: "hmm" },
  notes: [],
};

function dialectOf(path: string): Dialect {
  if (path.includes("/messages")) return messagesDialect;
  return path.includes("/responses") ? responsesDialect : chatDialect;
}

/** Ids that another server minted stand for ones of ours. */
function withOurIds(body: Json): Json {
  const text = JSON.stringify(body)
    .replaceAll(/"item_reference","id":"(rs|msg|fc)_[^"]*"/g, `"item_reference","id":"$1_${UNIQUE}_0"`)
    .replaceAll(/"previous_response_id":"[^"]*"/g, `"previous_response_id":"resp_${UNIQUE}"`);
  return JSON.parse(text) as Json;
}

function decode({ path, body }: WireRequest): ClientRequest {
  return dialectOf(path).decode(withOurIds(body), new Map([[`resp_${UNIQUE}`, EARLIER]]));
}

/** Texts that the model is to read, wherever they stand in a body. */
function textsIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(textsIn);
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const told = ["text", "thinking", "content", "output", "reasoning", "reasoning_content", "instructions"];
    if (typeof inner === "string") return told.includes(name) || /_id$|^name$/.test(name) ? [inner] : [];
    return textsIn(inner);
  });
}

describe.each(FILES)("the bodies of %s", (file) => {
  it.each(wireRequests(file).map((request, index) => [index, request] as const))(
    "decode without loss: request %d",
    (_index, request) => {
      const { body, messages } = decode(request);
      const { messages: list, input, system, instructions, tools } = request.body;
      const decoded = JSON.stringify(messages);
      for (const text of textsIn({ list, input, system, instructions })) {
        expect(decoded).toContain(JSON.stringify(text).slice(1, -1));
      }
      const names = (Array.isArray(tools) ? (tools as Json[]) : []).map(
        (tool) => tool["name"] ?? (tool["function"] as Json)["name"],
      );
      const sent = (body["tools"] ?? []) as readonly { readonly function: { readonly name: string } }[];
      expect(sent.map((tool) => tool.function.name)).toEqual(names);
    },
  );
});

/** Conversations whose second request holds the first one's answer, by file and by the index of the first request. */
const CONVERSATIONS: readonly (readonly [string, number])[] = [
  ["ai-sdk-openai-compatible-tool-turn", 0],
  ["ai-sdk-openai-responses-item-reference", 0],
  ["anthropic-sdk-tool-turn", 0],
  ["claude-code-turns", 0],
  ["codex-turns", 0],
  ["langchain-chat", 0],
  ["openai-agents-chat", 0],
  ["openai-js-7-tool-turn", 0],
  ["opencode-title-turns", 1],
  ["pi-chat-turns", 0],
  ["qwen-code-turns", 0],
];

describe("the second request of a conversation", () => {
  it.each(CONVERSATIONS)("goes on from the first and its answer: %s", (file, first) => {
    const requests = wireRequests(file);
    const one = requests[first] as WireRequest;
    const asked = decode(one).messages;
    const next = decode(requests[first + 1] as WireRequest).messages;
    const answer = answerOf(one, next[asked.length] as Message);
    expect(digestMessages(next).at(asked.length)).toBe(digestMessages([...asked, answer]).at(-1));
  });
});

/** The answer as an engine would have told it; the ids of its calls are the only ones that nobody wrote down. */
function answerOf({ answered_with: told }: WireRequest, echoed: Message): Message {
  // Two files do not say it: there the history before the answer is what is compared.
  if (told === undefined || told === null) return echoed;
  const calls = (echoed["tool_calls"] ?? []) as readonly Json[];
  return {
    role: "assistant",
    content: told["text"],
    reasoning: told["reasoning"] ?? told["thinking"] ?? null,
    tool_calls: calls.map(({ id }) => ({
      id,
      type: "function",
      function: { name: told["tool"], arguments: told["raw_arguments"] },
    })),
  };
}
