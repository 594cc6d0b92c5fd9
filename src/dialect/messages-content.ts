// Messages of the Messages API as chat messages: tool results become messages of their own, thinking becomes reasoning,
// images go on. What an engine cannot be given is refused by the name of its block.
// Reference: https://docs.anthropic.com/en/api/messages
import type { Message } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";
import type { Json } from "./dialect.ts";
import { listOfRecords, refused, shown, wrong } from "./request-fields.ts";

/** Chat messages of `system` and `messages`. */
export function chatMessages(body: Json): Message[] {
  const messages = systemMessages(body["system"]);
  const list = listOfRecords(body["messages"], "messages", "messages");
  for (const [index, message] of list.entries()) {
    const path = `messages[${index}]`;
    const { role } = message;
    if (role === "user") messages.push(...userMessages(message["content"], `${path}.content`));
    else if (role === "assistant") messages.push(assistantMessage(message["content"], `${path}.content`));
    else if (role === "system") {
      messages.push({ role: "system", content: textContent(message["content"], `${path}.content`) });
    } else throw wrong(`${path}.role`, role, "user, assistant or system");
  }
  if (list.length === 0) throw wrong("messages", body["messages"], "a list with at least one message");
  return messages;
}

function systemMessages(system: unknown): Message[] {
  if (system === undefined || system === null || system === "") return [];
  if (Array.isArray(system) && system.length === 0) return [];
  return [{ role: "system", content: textContent(system, "system") }];
}

/** A text, or a list of text parts where there are several. */
function textContent(content: unknown, path: string): unknown {
  if (typeof content === "string") return content;
  return onePartOrMany(
    listOfRecords(content, path, "text blocks").map((block, index) => {
      if (block["type"] !== "text") throw wrong(`${path}[${index}].type`, block["type"], "text");
      return textPart(block, `${path}[${index}]`);
    }),
  );
}

function userMessages(content: unknown, path: string): Message[] {
  if (typeof content === "string") return [{ role: "user", content }];
  const messages: Message[] = [];
  let parts: Json[] = [];
  const endUser = (): void => {
    if (parts.length > 0) messages.push({ role: "user", content: onePartOrMany(parts) });
    parts = [];
  };
  const blocks = listOfRecords(content, path, "blocks");
  if (blocks.length === 0) throw wrong(path, content, "a text or at least one block");
  for (const [index, block] of blocks.entries()) {
    const at = `${path}[${index}]`;
    if (block["type"] === "tool_result") {
      endUser();
      messages.push(toolMessage(block, at));
    } else parts.push(userPart(block, at));
  }
  endUser();
  return messages;
}

function toolMessage(block: Json, path: string): Message {
  const { tool_use_id: id, content } = block;
  if (typeof id !== "string") throw wrong(`${path}.tool_use_id`, id, "the id of a tool_use block");
  if (content === undefined || content === null) return { role: "tool", tool_call_id: id, content: "" };
  if (typeof content === "string") return { role: "tool", tool_call_id: id, content };
  const parts = listOfRecords(content, `${path}.content`, "blocks").map((inner, index) =>
    userPart(inner, `${path}.content[${index}]`),
  );
  return { role: "tool", tool_call_id: id, content: parts.length === 0 ? "" : onePartOrMany(parts) };
}

function userPart(block: Json, path: string): Json {
  switch (block["type"]) {
    case "text":
      return textPart(block, path);
    case "image":
      return { type: "image_url", image_url: { url: imageUrl(block["source"], `${path}.source`) } };
    case "document":
      return documentPart(block, path);
    default:
      throw refused(
        `${path}.type`,
        `engines know no blocks of type ${shown(block["type"])}; send text, image, tool_use and tool_result`,
      );
  }
}

function textPart(block: Json, path: string): Json {
  if (typeof block["text"] !== "string") throw wrong(`${path}.text`, block["text"], "a text");
  return { type: "text", text: block["text"] };
}

function imageUrl(source: unknown, path: string): string {
  if (!isRecord(source)) throw wrong(path, source, "an object");
  const { type, media_type: mediaType, data: bytes, url } = source;
  if (type === "url" && typeof url === "string") return url;
  if (type === "base64" && typeof mediaType === "string" && typeof bytes === "string") {
    return `data:${mediaType};base64,${bytes}`;
  }
  if (type === "file") throw refused(`${path}.type`, "there are no stored files; send the image as base64");
  throw wrong(path, source, "a base64 source with media_type and data, or a url");
}

function documentPart(block: Json, path: string): Json {
  const source = block["source"];
  if (isRecord(source) && source["type"] === "text" && typeof source["data"] === "string") {
    return { type: "text", text: source["data"] };
  }
  throw refused(`${path}.source`, "engines read no documents; send their text");
}

function onePartOrMany(parts: readonly Json[]): unknown {
  const [only] = parts;
  return parts.length === 1 && only?.["type"] === "text" ? only["text"] : parts;
}

function assistantMessage(content: unknown, path: string): Message {
  if (typeof content === "string") return { role: "assistant", content };
  let reasoning = "";
  let text: string | null = null;
  const calls: Json[] = [];
  for (const [index, block] of listOfRecords(content, path, "blocks").entries()) {
    const at = `${path}[${index}]`;
    switch (block["type"]) {
      case "text":
        text = (text ?? "") + String(textPart(block, at)["text"]);
        break;
      case "thinking":
        if (typeof block["thinking"] !== "string") throw wrong(`${at}.thinking`, block["thinking"], "a text");
        reasoning += block["thinking"];
        break;
      case "tool_use":
        calls.push(toolCall(block, at));
        break;
      case "redacted_thinking":
        throw refused(`${at}.type`, "redacted thinking cannot be read; leave the block out");
      default:
        throw refused(
          `${at}.type`,
          `engines know no blocks of type ${shown(block["type"])}; an answer has text, thinking and tool_use`,
        );
    }
  }
  return {
    role: "assistant",
    content: calls.length > 0 ? text : (text ?? ""),
    ...(reasoning === "" ? {} : { reasoning, reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function toolCall(block: Json, path: string): Json {
  const { id, name, input } = block;
  if (typeof id !== "string") throw wrong(`${path}.id`, id, "the call's id");
  if (typeof name !== "string") throw wrong(`${path}.name`, name, "the tool's name");
  return { id, type: "function", function: { name, arguments: JSON.stringify(input ?? {}) } };
}
