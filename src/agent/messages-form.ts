// Chat messages and settings as a request of the Messages API, and its answer as a chat completion: for counting tokens
// through the gateway, and for conversations that talk through Anthropic's client.
// Reference: https://docs.anthropic.com/en/api/messages
import { AgentError } from "./agent-error.ts";
import type { ChatMessage, RequestFields } from "./chat-client.ts";

type Json = Readonly<Record<string, unknown>>;

/** System messages at the start become `system`; tool results become blocks of a user message. */
export function messagesRequest(messages: readonly ChatMessage[], request: RequestFields): Json {
  const lead = messages.findIndex(({ role }) => role !== "system" && role !== "developer");
  const start = lead === -1 ? messages.length : lead;
  const system = messages.slice(0, start).flatMap(({ content }) => blocks(content));
  const turns: { role: string; content: Json[] }[] = [];
  for (const message of messages.slice(start)) {
    const role = message.role === "tool" ? "user" : message.role === "developer" ? "system" : message.role;
    const content = contentOf(message);
    const last = turns.at(-1);
    if (last?.role === "user" && message.role === "tool") last.content.push(...content);
    else turns.push({ role, content: [...content] });
  }
  const { tools, tool_choice: choice, ...rest } = request;
  return {
    ...rest,
    ...(system.length === 0 ? {} : { system }),
    ...(Array.isArray(tools) ? { tools: tools.map(toolForm) } : {}),
    ...choiceForm(choice),
    messages: turns,
  };
}

function contentOf(message: ChatMessage): readonly Json[] {
  if (message.role === "tool") {
    const content = blocks(message.content);
    return [{ type: "tool_result", tool_use_id: message.tool_call_id, content }];
  }
  if (message.role !== "assistant") return blocks(message.content);
  const said: Json = { ...message };
  const reasoning = said["reasoning"] ?? said["reasoning_content"];
  return [
    ...(typeof reasoning === "string" && reasoning !== ""
      ? [{ type: "thinking", thinking: reasoning, signature: said["signature"] ?? "coppice" }]
      : []),
    ...blocks(message.content),
    ...(Array.isArray(message.tool_calls) ? message.tool_calls.map(toolUse) : []),
  ];
}

function blocks(content: unknown): readonly Json[] {
  if (content === null || content === undefined || content === "") return [];
  if (typeof content === "string") return [{ type: "text", text: content }];
  return (Array.isArray(content) ? (content as readonly Json[]) : []).map((part) => {
    if (part["type"] !== "image_url") return part;
    const { url } = part["image_url"] as { readonly url: string };
    const inline = /^data:([^;,]+);base64,(.*)$/s.exec(url);
    const source =
      inline === null ? { type: "url", url } : { type: "base64", media_type: inline[1], data: inline[2] };
    return { type: "image", source };
  });
}

function toolUse(call: unknown): Json {
  const { id, function: called } = call as {
    readonly id: string;
    readonly function?: { readonly name: string; readonly arguments: string };
  };
  if (called === undefined) {
    throw new AgentError("invalid_argument", `tool call ${id} is no function's: Messages has no other kind`);
  }
  return { type: "tool_use", id, name: called.name, input: parsed(called.arguments) };
}

/** What a model wrote as arguments may be no JSON; the text is told then. */
function parsed(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : { value };
  } catch (error) {
    if (error instanceof SyntaxError) return { text };
    throw error;
  }
}

function toolForm(tool: unknown): Json {
  const { function: called } = tool as { readonly function?: Json };
  if (called === undefined) return tool as Json;
  const { name, description, parameters } = called;
  return {
    name,
    ...(description === undefined ? {} : { description }),
    input_schema: parameters ?? { type: "object" },
  };
}

function choiceForm(choice: unknown): Json {
  if (choice === undefined || choice === null) return {};
  if (choice === "required") return { tool_choice: { type: "any" } };
  if (typeof choice === "string") return { tool_choice: { type: choice } };
  const { function: called } = choice as { readonly function?: { readonly name: string } };
  return { tool_choice: called === undefined ? choice : { type: "tool", name: called.name } };
}

const FINISH: Readonly<Record<string, string>> = {
  end_turn: "stop",
  stop_sequence: "stop",
  tool_use: "tool_calls",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  refusal: "content_filter",
};

/** A message of the Messages API as a chat completion. Throws `incomplete_answer` where it is none. */
export function completionOfMessage(message: unknown): Json {
  const { id, content, stop_reason: reason, usage } = (message ?? {}) as Json;
  if (typeof id !== "string" || !Array.isArray(content) || typeof reason !== "string") {
    throw new AgentError(
      "incomplete_answer",
      "the answer is no message: id, content and stop_reason are needed",
    );
  }
  const parts = content as readonly Json[];
  const join = (type: string, field: string): string =>
    parts
      .filter((block) => block["type"] === type)
      .map((block) => String(block[field]))
      .join("");
  const calls = parts
    .filter((block) => block["type"] === "tool_use")
    .map((block) => ({
      id: block["id"],
      type: "function",
      function: { name: block["name"], arguments: JSON.stringify(block["input"] ?? {}) },
    }));
  const text = join("text", "text");
  const reasoning = join("thinking", "thinking");
  const signature = parts.find((block) => block["type"] === "thinking")?.["signature"];
  const told = {
    role: "assistant",
    content: text === "" && calls.length > 0 ? null : text,
    ...(reasoning === "" ? {} : { reasoning, ...(signature === undefined ? {} : { signature }) }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return {
    id,
    choices: [{ index: 0, message: told, finish_reason: FINISH[reason] ?? reason }],
    usage: usageForm(usage),
  };
}

function usageForm(usage: unknown): Json | null {
  const told = (usage ?? {}) as Json;
  const number = (field: string): number => (typeof told[field] === "number" ? told[field] : 0);
  if (typeof told["input_tokens"] !== "number") return null;
  const prompt =
    number("input_tokens") + number("cache_read_input_tokens") + number("cache_creation_input_tokens");
  return { prompt_tokens: prompt, completion_tokens: number("output_tokens") };
}
