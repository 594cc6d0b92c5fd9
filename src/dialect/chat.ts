// Joins the deltas of a streamed chat completion into the message that the same answer has when it is not streamed.
// Engines differ in what they split and repeat: a tool call's name may come once or in every delta, nulls stand for
// "nothing new", reasoning has two names. Fields that nobody here knows are kept. It reads no tokens.
import type { Message } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";

interface JoinedToolCall {
  readonly index: number;
  readonly fields: Record<string, unknown>;
}

/** Takes the deltas of one choice in order; `message()` may be asked at any time. */
export class MessageJoiner {
  #role: string | null = null;
  #content: string | null = null;
  readonly #others: Record<string, unknown> = {};
  readonly #toolCalls: JoinedToolCall[] = [];

  add(delta: Readonly<Record<string, unknown>>): void {
    for (const name in delta) {
      const value = delta[name];
      if (value === null || value === undefined) continue;
      if (name === "content" && typeof value === "string") this.#content = (this.#content ?? "") + value;
      else if (name === "role") this.#role = typeof value === "string" && value !== "" ? value : this.#role;
      else if (name === "tool_calls" && Array.isArray(value)) {
        for (const call of value) if (isRecord(call)) this.#addToolCall(call);
      } else this.#others[name] = append(this.#others[name], value);
    }
  }

  /**
   * The message so far. `content` is null where there are tool calls and no text; a function call whose arguments have
   * not begun has empty ones, as every client sends it back.
   */
  message(): Message {
    const calls = this.#toolCalls.map(({ fields }) => {
      const target = fields["function"];
      return isRecord(target) ? { ...fields, function: { arguments: "", ...target } } : fields;
    });
    const content = this.#content === "" && calls.length > 0 ? null : this.#content;
    const message: Record<string, unknown> = { role: this.#role ?? "assistant", content, ...this.#others };
    if (calls.length > 0) message["tool_calls"] = calls;
    return message;
  }

  #addToolCall(delta: Readonly<Record<string, unknown>>): void {
    const call = this.#toolCallFor(delta);
    for (const [name, value] of Object.entries(delta)) {
      if (name === "index" || value === null || value === undefined) continue;
      const known = call.fields[name];
      if (!isRecord(value)) call.fields[name] = value === "" && known !== undefined ? known : value;
      else call.fields[name] = joinFunction(isRecord(known) ? known : {}, value);
    }
  }

  #toolCallFor(delta: Readonly<Record<string, unknown>>): JoinedToolCall {
    const index = typeof delta["index"] === "number" ? delta["index"] : this.#indexWithout(delta["id"]);
    const known = this.#toolCalls.find((call) => call.index === index);
    if (known !== undefined) return known;
    const call = { index, fields: {} };
    const after = this.#toolCalls.findIndex((other) => other.index > index);
    this.#toolCalls.splice(after === -1 ? this.#toolCalls.length : after, 0, call);
    return call;
  }

  /** Where no index is told, a new id begins a new call and everything else belongs to the last one. */
  #indexWithout(id: unknown): number {
    const last = this.#toolCalls.at(-1);
    if (last === undefined) return 0;
    if (typeof id !== "string" || id === "") return last.index;
    return this.#toolCalls.find((call) => call.fields["id"] === id)?.index ?? last.index + 1;
  }
}

/** `function` (or `custom`) of a tool call: names are whole, everything that is a text else comes in fragments. */
function joinFunction(
  known: Readonly<Record<string, unknown>>,
  delta: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const joined: Record<string, unknown> = { ...known };
  for (const [name, value] of Object.entries(delta)) {
    if (value === null || value === undefined) continue;
    // Some servers repeat the name with every fragment of the arguments.
    if (name === "name" && joined[name] === value) continue;
    // Arguments that were parsed already must read like the text that others send.
    joined[name] = append(
      joined[name],
      name === "arguments" && isRecord(value) ? JSON.stringify(value) : value,
    );
  }
  return joined;
}

/** Texts go on, lists grow, records are joined field by field; of anything else the last word stands. */
function append(known: unknown, value: unknown): unknown {
  if (typeof known === "string" && typeof value === "string") return known + value;
  if (Array.isArray(known) && Array.isArray(value)) return [...(known as unknown[]), ...(value as unknown[])];
  if (!isRecord(known) || !isRecord(value)) return value;
  const joined: Record<string, unknown> = { ...known };
  for (const [name, inner] of Object.entries(value)) {
    if (inner !== null && inner !== undefined) joined[name] = append(joined[name], inner);
  }
  return joined;
}

/** True where a tool call's arguments do not parse: the answer was cut off inside it. */
export function hasCutToolCall(message: Message): boolean {
  const calls = Array.isArray(message["tool_calls"]) ? message["tool_calls"] : [];
  return calls.some((call: unknown) => {
    const target = isRecord(call) ? call["function"] : null;
    const given = isRecord(target) ? target["arguments"] : null;
    return given === undefined || (typeof given === "string" && !isJson(given));
  });
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}
