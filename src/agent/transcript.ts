// The accepted list out of what an agent leaves behind: a list of chat messages, items of the Responses API, messages of
// the Messages API, or a session file of pi or Codex (JSON Lines). Each answer becomes its response id where it has one,
// else its content without the ids that are the agent's own, which the gateway matches together with the answers before it.
import { AgentError } from "./agent-error.ts";
import type { Reference } from "./rollout-api.ts";

export type TranscriptKind = "chat" | "responses" | "messages" | "pi" | "codex";

export interface Transcript {
  readonly kind: TranscriptKind;
  /** In the order in which they were given; half answers that the agent itself marks as broken are left out. */
  readonly accepted: readonly Reference[];
}

type Json = Readonly<Record<string, unknown>>;

/** Reads a file's text: JSON, or JSON Lines. Throws `invalid_transcript`. */
export function readTranscriptText(text: string): Transcript {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    value = jsonLines(text);
  }
  return readTranscript(value);
}

/** @param value a list, or an object that has one as `messages`, `items`, `input` or `output` */
export function readTranscript(value: unknown): Transcript {
  const list = listOf(value);
  if (list.length === 0) throw fault("it is empty");
  if (list.some(isPiEntry)) return { kind: "pi", accepted: piAnswers(list) };
  if (list.some(isCodexLine)) return { kind: "codex", accepted: responsesAnswers(codexItems(list)) };
  if (list.some((item) => typeof item["type"] === "string" && RESPONSES_TYPES.has(item["type"]))) {
    return { kind: "responses", accepted: responsesAnswers(list) };
  }
  if (!list.some((item) => typeof item["role"] === "string" || Array.isArray(item["choices"]))) {
    throw fault("it has no messages, no Responses items and no lines of a session of pi or Codex");
  }
  const isMessages = list.some(({ content }) => hasBlock(content, ["tool_use", "tool_result", "thinking"]));
  return { kind: isMessages ? "messages" : "chat", accepted: list.flatMap(chatAnswer) };
}

function jsonLines(text: string): readonly unknown[] {
  const lines = text.split("\n");
  return lines.flatMap((line, index) => {
    if (line.trim() === "") return [];
    try {
      return [JSON.parse(line) as unknown];
    } catch (cause) {
      // A last line that is cut is one that the agent was writing when it ended.
      if (index === lines.length - 1 && index > 0) return [];
      throw new AgentError("invalid_transcript", `line ${index + 1} of the transcript is no JSON`, { cause });
    }
  });
}

function listOf(value: unknown): readonly Json[] {
  const found = Array.isArray(value)
    ? value
    : isJson(value)
      ? (["messages", "items", "input", "output"]
          .map((field) => value[field])
          .find((field) => Array.isArray(field)) ?? [value])
      : null;
  if (!Array.isArray(found) || !found.every(isJson)) throw fault("it is no list of objects");
  // A response that was kept whole is one answer: its id names it.
  return isJson(value) && typeof value["id"] === "string" && Array.isArray(value["output"]) ? [value] : found;
}

/** A chat message, a message of the Messages API, or a whole completion. */
function chatAnswer(item: Json): readonly Reference[] {
  const { id, choices, role } = item;
  if (Array.isArray(choices)) {
    if (typeof id === "string") return [id];
    const [choice] = choices as readonly Json[];
    return isJson(choice?.["message"]) ? chatAnswer(choice["message"]) : [];
  }
  if (role !== "assistant") return [];
  if (typeof id === "string" && item["type"] === "message" && item["stop_reason"] !== undefined) return [id];
  const { content, tool_calls: calls } = item;
  const blocks = Array.isArray(content) ? content.filter((block) => !isThinking(block)) : content;
  return [{ role, content: blocks ?? null, ...(calls === undefined ? {} : { tool_calls: calls }) }];
}

const RESPONSES_TYPES: ReadonlySet<string> = new Set([
  "reasoning",
  "function_call",
  "function_call_output",
  "item_reference",
]);

/** Items of one answer stand together: what is said to the model parts them. */
function responsesAnswers(items: readonly Json[]): readonly Reference[] {
  const answers: Reference[] = [];
  let open: Json[] = [];
  const end = (): void => {
    if (open.some((item) => item["type"] !== "reasoning")) answers.push({ output: open });
    open = [];
  };
  for (const item of items) {
    if (Array.isArray(item["output"]) && typeof item["id"] === "string") {
      end();
      answers.push(item["id"]);
    } else if (isAnswerItem(item)) {
      const { id: _id, ...content } = item;
      open.push(content);
    } else end();
  }
  end();
  return answers;
}

function isAnswerItem({ type, role }: Json): boolean {
  return type === "reasoning" || type === "function_call" || role === "assistant";
}

function isCodexLine({ type, payload }: Json): boolean {
  return (type === "response_item" || type === "session_meta") && isJson(payload);
}

function codexItems(lines: readonly Json[]): readonly Json[] {
  return lines.flatMap(({ type, payload }) => {
    if (!isJson(payload)) return [];
    if (type === "event_msg" && payload["type"] === "thread_rolled_back") {
      throw fault("turns were rolled back in it, and which answers stay is not told: give their ids");
    }
    return type === "response_item" ? [payload] : [];
  });
}

function isPiEntry({ type, message, parentId }: Json): boolean {
  return type === "message" && isJson(message) && parentId !== undefined;
}

/** The walk from the last entry up to the first: branches that were left are not on it. */
function piAnswers(lines: readonly Json[]): readonly Reference[] {
  const byId = new Map(lines.map((line) => [line["id"], line]));
  const walk: Json[] = [];
  const seen = new Set<Json>();
  let at = lines.findLast(({ parentId }) => parentId !== undefined);
  while (at !== undefined && !seen.has(at)) {
    seen.add(at);
    walk.push(at);
    at = typeof at["parentId"] === "string" ? byId.get(at["parentId"]) : undefined;
  }
  return walk.toReversed().flatMap(({ message }) => (isJson(message) ? piAnswer(message) : []));
}

function piAnswer({ role, content, stopReason, responseId }: Json): readonly Reference[] {
  if (role !== "assistant" || stopReason === "error" || stopReason === "aborted") return [];
  if (typeof responseId === "string" && responseId !== "") return [responseId];
  const parts = (Array.isArray(content) ? content : []).filter(isJson);
  const calls = parts
    .filter(({ type }) => type === "toolCall")
    .map(({ id, name, arguments: given }) => ({
      // pi writes ids of the Responses API as CALL|ITEM.
      id: typeof id === "string" ? id.split("|", 1)[0] : id,
      type: "function",
      function: { name, arguments: JSON.stringify(given ?? {}) },
    }));
  const texts = parts.filter(({ type }) => type === "text").map(({ text }) => ({ type: "text", text }));
  return [{ role: "assistant", content: texts, ...(calls.length === 0 ? {} : { tool_calls: calls }) }];
}

function isThinking(block: unknown): boolean {
  return isJson(block) && (block["type"] === "thinking" || block["type"] === "redacted_thinking");
}

function hasBlock(content: unknown, types: readonly string[]): boolean {
  return (
    Array.isArray(content) && content.some((block) => isJson(block) && types.includes(String(block["type"])))
  );
}

function isJson(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function fault(why: string): AgentError {
  return new AgentError("invalid_transcript", `the transcript cannot be read: ${why}`);
}
