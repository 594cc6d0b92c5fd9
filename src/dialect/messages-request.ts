// A Messages request as the one internal form. Fields that engines know under other names are translated, those that
// steer Anthropic's own servers are set aside by name (docs/dialects.md has the table), the rest goes on.
import type { Message } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";
import type { ClientRequest, Json } from "./dialect.ts";
import { chatMessages } from "./messages-content.ts";
import { optionalFlag, optionalString, refused, shown, without, wrong } from "./request-fields.ts";
import { effort } from "./responses-request.ts";

export interface MessagesAsked {
  /** `context_management` was asked for: the answer says that nothing was edited. */
  readonly asksForEdits: boolean;
}

const TRANSLATED = [
  "system",
  "messages",
  "tools",
  "tool_choice",
  "stop_sequences",
  "thinking",
  "output_config",
  "output_format",
  "context_management",
  "stream",
];

/** They steer Anthropic's own servers and change nothing of what a model is asked. */
const SET_ASIDE = [
  "metadata",
  "service_tier",
  "cache_control",
  "betas",
  "inference_geo",
  "speed",
  "safeguards",
  "diagnostics",
];

const NOT_PASSED: ReadonlySet<string> = new Set([...TRANSLATED, ...SET_ASIDE]);

const REFUSED: Readonly<Record<string, string>> = {
  container: "there are no containers",
  mcp_servers: "the agent talks to its MCP servers itself; give their tools as custom tools",
};

export interface DecodedMessages extends Omit<ClientRequest, "writer"> {
  readonly asked: MessagesAsked;
}

/** @param needsLimit `max_tokens` must be there; counting needs none */
export function decodeMessages(body: Json, needsLimit: boolean): DecodedMessages {
  for (const [field, why] of Object.entries(REFUSED)) {
    const value = body[field];
    const isEmpty = Array.isArray(value) && value.length === 0;
    if (value !== undefined && value !== null && !isEmpty) throw refused(field, why);
  }
  const { max_tokens: limit } = body;
  if ((needsLimit || limit !== undefined) && !(typeof limit === "number" && limit >= 1)) {
    throw wrong("max_tokens", limit, "a whole number of at least 1");
  }
  checkContextManagement(body["context_management"]);
  const tools = readTools(body["tools"]);
  const messages = chatMessages(body);
  const config = isRecord(body["output_config"]) ? body["output_config"] : {};
  const chat: Record<string, unknown> = {
    ...without(body, NOT_PASSED),
    messages,
    ...(tools.length === 0 ? {} : { tools, ...readToolChoice(body["tool_choice"]) }),
    ...stops(body["stop_sequences"]),
    ...effort(config["effort"], "output_config.effort"),
    ...outputFormat(config["format"] ?? body["output_format"]),
    ...thinking(body["thinking"], body["chat_template_kwargs"]),
    ...prefill(messages.at(-1)),
  };
  return {
    body: chat,
    kind: "chat",
    messages,
    stream: optionalFlag(body, "stream"),
    choices: 1,
    model: optionalString(body, "model"),
    notes: [],
    asked: { asksForEdits: isRecord(body["context_management"]) },
  };
}

function readTools(tools: unknown): readonly Json[] {
  if (tools === undefined || tools === null) return [];
  if (!Array.isArray(tools)) throw wrong("tools", tools, "a list of tools");
  return tools.map((tool: unknown, index) => {
    const path = `tools[${index}]`;
    if (!isRecord(tool)) throw wrong(path, tool, "an object");
    const { type, name, description, input_schema: parameters, strict } = tool;
    if (type !== undefined && type !== null && type !== "custom") {
      throw refused(
        `${path}.type`,
        `no engine has tools of type ${shown(type)}; give a custom tool with input_schema, which the agent runs itself`,
      );
    }
    if (typeof name !== "string" || name === "") throw wrong(`${path}.name`, name, "the tool's name");
    if (!isRecord(parameters)) throw wrong(`${path}.input_schema`, parameters, "a JSON schema");
    return {
      type: "function",
      function: {
        name,
        ...(typeof description === "string" ? { description } : {}),
        parameters,
        ...(typeof strict === "boolean" ? { strict } : {}),
      },
    };
  });
}

function readToolChoice(choice: unknown): Json {
  if (choice === undefined || choice === null) return {};
  if (!isRecord(choice)) throw wrong("tool_choice", choice, "an object with a type");
  const parallel = choice["disable_parallel_tool_use"] === true ? { parallel_tool_calls: false } : {};
  switch (choice["type"]) {
    case "auto":
    case "none":
      return { tool_choice: choice["type"], ...parallel };
    case "any":
      return { tool_choice: "required", ...parallel };
    case "tool":
      if (typeof choice["name"] !== "string")
        throw wrong("tool_choice.name", choice["name"], "a tool's name");
      return { tool_choice: { type: "function", function: { name: choice["name"] } }, ...parallel };
    default:
      throw wrong("tool_choice.type", choice["type"], "auto, any, tool or none");
  }
}

function stops(sequences: unknown): Json {
  return Array.isArray(sequences) && sequences.length > 0 ? { stop: sequences } : {};
}

function outputFormat(format: unknown): Json {
  if (format === undefined || format === null) return {};
  if (!isRecord(format) || format["type"] !== "json_schema" || !isRecord(format["schema"])) {
    throw wrong("output_config.format", format, "a json_schema with its schema");
  }
  const schema = { name: "output", schema: format["schema"], strict: true };
  return { response_format: { type: "json_schema", json_schema: schema } };
}

/** Whether a model thinks is its template's; where the client says no, the option that most templates know says it. */
function thinking(asked: unknown, given: unknown): Json {
  if (!isRecord(asked) || asked["type"] !== "disabled") return {};
  return { chat_template_kwargs: { enable_thinking: false, ...(isRecord(given) ? given : {}) } };
}

/** An answer that the client has begun is gone on with, not followed by another. */
function prefill(last: Message | undefined): Json {
  const content = last?.["role"] === "assistant" ? last["content"] : null;
  if (typeof content !== "string" || content === "" || last?.["tool_calls"] !== undefined) return {};
  return { add_generation_prompt: false, continue_final_message: true };
}

/** Edits that only take away what a server might have kept short are not made, and the answer says so. */
function checkContextManagement(management: unknown): void {
  if (!isRecord(management)) return;
  const edits = management["edits"] ?? [];
  for (const [index, edit] of listOrEmpty(edits).entries()) {
    const type = isRecord(edit) ? edit["type"] : undefined;
    if (typeof type === "string" && type.startsWith("clear_")) continue;
    throw refused(
      `context_management.edits[${index}].type`,
      `${shown(type)} is no edit that is made here; the context is the agent's own, compact it there`,
    );
  }
}

function listOrEmpty(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
