// The stand-in's chat templates: from messages to prompt ids. `bare` is the contents one after the other and nothing
// else; `chatml` puts a role token before each turn and a turn-end token after it, which the model also samples as its
// stop token; `llama3` has two newlines behind the role token; in `role_marker` no turn has an end: the model stops by
// sampling the role token of the next one. All write tool calls and reasoning as the model generates them, so that an
// echoed answer has the ids that were sampled.
import { isRecord } from "../../lineage/message.ts";
import { specialId, type Tokenizer } from "./tokenizer.ts";

export interface TemplateOptions {
  readonly template: "bare" | "chatml" | "llama3" | "role_marker";
  /** Leave the reasoning out of every turn that is over, as some templates do. */
  readonly dropReasoning: boolean;
}

export interface ChatPrompt {
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  readonly tools: readonly unknown[];
  /** The last message is to be gone on with: its turn stays open. */
  readonly continueFinalMessage: boolean;
  readonly addGenerationPrompt: boolean;
}

/** The stop tokens that the model samples after an answer; null: it stops by itself. */
export interface TurnEnds {
  readonly afterText: number | null;
  readonly afterTools: number | null;
}

export function turnEndsOf(template: TemplateOptions["template"]): TurnEnds {
  switch (template) {
    case "bare":
      return { afterText: null, afterTools: null };
    case "chatml":
    case "llama3":
      return { afterText: specialId("<|im_end|>"), afterTools: specialId("<|im_end|>") };
    case "role_marker":
      return { afterText: specialId("<|user|>"), afterTools: specialId("<|tool|>") };
  }
}

/** Ids that one image takes in a prompt, whatever is on it. */
const IMAGE_LENGTH = 4;

export function renderChat(prompt: ChatPrompt, tokenizer: Tokenizer, options: TemplateOptions): number[] {
  const ids: number[] = [];
  const marks = options.template !== "bare";
  const ends = marks && options.template !== "role_marker" ? [specialId("<|im_end|>")] : [];
  const head = (role: unknown): number[] =>
    marks ? [roleId(role), ...tokenizer.tokenize(options.template === "llama3" ? "\n\n" : "")] : [];
  if (marks && prompt.tools.length > 0) {
    pushAll(ids, [...head("system"), ...tokenizer.tokenize(JSON.stringify(prompt.tools)), ...ends]);
  }
  prompt.messages.forEach((message, index) => {
    pushAll(ids, head(message["role"]));
    pushAll(ids, renderMessage(message, tokenizer, options));
    const open = prompt.continueFinalMessage && index === prompt.messages.length - 1;
    if (!open) pushAll(ids, ends);
  });
  if (prompt.addGenerationPrompt) pushAll(ids, head("assistant"));
  return ids;
}

function roleId(role: unknown): number {
  switch (role) {
    case "system":
    case "developer":
      return specialId("<|system|>");
    case "assistant":
      return specialId("<|assistant|>");
    case "tool":
    case "function":
      return specialId("<|tool|>");
    default:
      return specialId("<|user|>");
  }
}

function renderMessage(
  message: Readonly<Record<string, unknown>>,
  tokenizer: Tokenizer,
  options: TemplateOptions,
): number[] {
  const ids: number[] = [];
  const reasoning = message["reasoning"] ?? message["reasoning_content"];
  if (typeof reasoning === "string" && reasoning !== "" && !options.dropReasoning) {
    ids.push(specialId("<think>"));
    pushAll(ids, tokenizer.tokenize(reasoning));
    ids.push(specialId("</think>"));
  }
  pushAll(ids, renderContent(message["content"], tokenizer));
  const calls = Array.isArray(message["tool_calls"]) ? (message["tool_calls"] as unknown[]) : [];
  for (const call of calls) {
    const target = isRecord(call) && isRecord(call["function"]) ? call["function"] : {};
    const given = typeof target["arguments"] === "string" ? target["arguments"] : "";
    const parts = toolCallParts(String(target["name"]), given, tokenizer);
    for (const part of [parts.head, parts.given, parts.tail]) pushAll(ids, part);
  }
  return ids;
}

function renderContent(content: unknown, tokenizer: Tokenizer): number[] {
  if (typeof content === "string") return tokenizer.tokenize(content);
  if (!Array.isArray(content)) return [];
  return (content as unknown[]).flatMap((part) => {
    if (typeof part === "string") return tokenizer.tokenize(part);
    if (!isRecord(part)) return [];
    if (typeof part["text"] === "string") return tokenizer.tokenize(part["text"]);
    const image = part["type"] === "image_url" || part["type"] === "image";
    return image ? Array.from({ length: IMAGE_LENGTH }, () => specialId("<|image|>")) : [];
  });
}

/** `push(...more)` fails on a long list: its arguments go onto the stack. */
function pushAll(ids: number[], more: readonly number[]): void {
  for (const id of more) ids.push(id);
}

/** A tool call as the model writes it: the head up to its arguments, the arguments, and the tail. */
export function toolCallParts(
  name: string,
  given: string,
  tokenizer: Tokenizer,
): { readonly head: readonly number[]; readonly given: readonly number[]; readonly tail: readonly number[] } {
  return {
    head: [specialId("<tool_call>"), ...tokenizer.tokenize(`{"name":${JSON.stringify(name)},"arguments":`)],
    given: tokenizer.tokenize(given),
    tail: [...tokenizer.tokenize("}"), specialId("</tool_call>")],
  };
}
