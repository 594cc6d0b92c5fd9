// Tool calls and reasoning as models write them into their text, for engines that do not read them out themselves:
// `<tool_call>{"name": ..., "arguments": ...}</tool_call>` (Hermes, Qwen) and a `<think>` in front. What does not read
// as such stays text: nothing is guessed, nothing is lost. Pure.
import type { Message } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";

const TOOL_CALL = /<tool_call>([\s\S]*?)<\/tool_call>/g;
const THOUGHT = /^\s*(?:<think>)?([\s\S]*?)<\/think>/;

export interface TextReading {
  /** The request has tools, so tool calls are looked for. */
  readonly tools: boolean;
  /** The template opens a thought, or the model does: it is looked for. */
  readonly reasoning: boolean;
  /** Makes the ids of tool calls unique. */
  readonly idPrefix: string;
}

export function readAnswerText(text: string, { tools, reasoning, idPrefix }: TextReading): Message {
  const thought = reasoning ? THOUGHT.exec(text) : null;
  const rest = thought === null ? text : text.slice(thought[0].length).trimStart();
  const calls = tools ? readToolCalls(rest, idPrefix) : null;
  const content = calls === null ? rest : rest.slice(0, rest.indexOf("<tool_call>")).trim();
  return {
    role: "assistant",
    content: calls !== null && content === "" ? null : content,
    ...(thought === null ? {} : { reasoning_content: (thought[1] as string).trim() }),
    ...(calls === null ? {} : { tool_calls: calls }),
  };
}

/** Null where there are none, or where one of them does not read as a call. */
function readToolCalls(text: string, idPrefix: string): Message[] | null {
  const calls: Message[] = [];
  for (const [, inner] of text.matchAll(TOOL_CALL)) {
    const call = parseOrNull(inner as string);
    if (!isRecord(call) || typeof call["name"] !== "string") return null;
    const given = call["arguments"] ?? {};
    const target = {
      name: call["name"],
      arguments: typeof given === "string" ? given : JSON.stringify(given),
    };
    calls.push({ id: `${idPrefix}${calls.length}`, type: "function", function: target });
  }
  return calls.length === 0 ? null : calls;
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
