// Items of the Responses API as chat messages. What one answer was made of (reasoning, text, function calls) becomes
// one assistant message again; a reference by id becomes the item that it means.
// Reference: https://platform.openai.com/docs/api-reference/responses/create (input)
import type { Message } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";
import { reasoningOf } from "./answer-blocks.ts";
import type { Json, StoredAnswer } from "./dialect.ts";
import { refused, shown, wrong } from "./request-fields.ts";
import { readSealed } from "./reasoning-seal.ts";
import { readItemId } from "./responses-ids.ts";
import { engineToolName } from "./responses-tools.ts";

interface Turn {
  /** Of the response that its items came from; null where they do not say. */
  responseId: string | null;
  reasoning: string;
  texts: string[];
  refusal: string;
  readonly calls: Json[];
}

/** Chat messages of an `input`, which is a text or a list of items. */
export function messagesOfInput(input: unknown, stored: ReadonlyMap<string, StoredAnswer>): Message[] {
  if (typeof input === "string") return [{ role: "user", content: input }];
  if (!Array.isArray(input)) throw wrong("input", input, "a text or a list of items");
  const gathering = new ItemGathering(stored);
  for (const [index, item] of input.entries()) {
    const path = `input[${index}]`;
    if (!isRecord(item)) throw wrong(path, item, "an object");
    gathering.take(item, path);
  }
  return gathering.end();
}

class ItemGathering {
  readonly #stored: ReadonlyMap<string, StoredAnswer>;
  readonly #messages: Message[] = [];
  #turn: Turn | null = null;

  constructor(stored: ReadonlyMap<string, StoredAnswer>) {
    this.#stored = stored;
  }

  take(item: Json, path: string): void {
    const type = item["type"] ?? "message";
    switch (type) {
      case "message":
        this.#takeMessage(item, path);
        return;
      case "reasoning":
        this.#takeReasoning(reasoningText(item, path), readItemId(item["id"])?.responseId ?? null);
        return;
      case "function_call":
        this.#takeCall(callOf(item, path), readItemId(item["id"])?.responseId ?? null);
        return;
      case "function_call_output":
        this.#add({
          role: "tool",
          tool_call_id: item["call_id"],
          content: outputContent(item["output"], `${path}.output`),
        });
        return;
      case "item_reference":
        this.#takeReference(item, path);
        return;
      default:
        throw refused(
          `${path}.type`,
          `items of type ${shown(type)} belong to tools of OpenAI's own servers; send messages, reasoning, function_call, function_call_output or item_reference`,
        );
    }
  }

  end(): Message[] {
    this.#endTurn();
    return this.#messages;
  }

  #add(message: Message): void {
    this.#endTurn();
    this.#messages.push(message);
  }

  #takeMessage(item: Json, path: string): void {
    const { role, content } = item;
    if (typeof role !== "string") throw wrong(`${path}.role`, role, "a text such as user");
    if (role !== "assistant") {
      // Engines know no developers.
      const known = role === "developer" ? "system" : role;
      this.#add({ role: known, content: inputContent(content, `${path}.content`) });
      return;
    }
    const { text, refusal } = answerContent(content, `${path}.content`);
    this.#takeText(text, refusal, readItemId(item["id"])?.responseId ?? null);
  }

  #takeText(text: string, refusal: string, responseId: string | null): void {
    // Text stands in front of the calls of its answer; after another text it goes on only where both say so.
    const turn = this.#turn;
    const goesOn =
      turn !== null &&
      turn.calls.length === 0 &&
      (turn.texts.length === 0 || (responseId !== null && turn.responseId === responseId));
    const into = this.#turnOf(responseId, goesOn);
    into.texts.push(text);
    into.refusal += refusal;
  }

  #takeReasoning(text: string, responseId: string | null): void {
    const turn = this.#turn;
    const goesOn = turn !== null && responseId !== null && turn.responseId === responseId;
    this.#turnOf(responseId, goesOn).reasoning += text;
  }

  #takeCall(call: Json, responseId: string | null): void {
    this.#turnOf(responseId, true).calls.push(call);
  }

  #turnOf(responseId: string | null, goesOn: boolean): Turn {
    const turn = this.#turn;
    const other =
      turn !== null && responseId !== null && turn.responseId !== null && turn.responseId !== responseId;
    if (turn !== null && goesOn && !other) {
      turn.responseId ??= responseId;
      return turn;
    }
    this.#endTurn();
    return (this.#turn = { responseId, reasoning: "", texts: [], refusal: "", calls: [] });
  }

  #endTurn(): void {
    const turn = this.#turn;
    if (turn === null) return;
    this.#turn = null;
    this.#messages.push({
      role: "assistant",
      content: turn.texts.length === 0 && turn.calls.length > 0 ? null : turn.texts.join(""),
      ...(turn.reasoning === "" ? {} : { reasoning: turn.reasoning, reasoning_content: turn.reasoning }),
      ...(turn.refusal === "" ? {} : { refusal: turn.refusal }),
      ...(turn.calls.length === 0 ? {} : { tool_calls: turn.calls }),
    });
  }

  #takeReference(item: Json, path: string): void {
    const reference = readItemId(item["id"]);
    const answer = reference === null ? undefined : this.#stored.get(reference.responseId)?.answer;
    if (reference === null || answer === undefined) {
      throw wrong(`${path}.id`, item["id"], "the id of an item of an earlier answer of this rollout");
    }
    const { responseId, kind, place } = reference;
    if (kind === "function_call") {
      const call = (Array.isArray(answer["tool_calls"]) ? (answer["tool_calls"] as unknown[]) : [])[place];
      if (!isRecord(call)) throw wrong(`${path}.id`, item["id"], "an item that the answer has");
      this.#takeCall(call, responseId);
      return;
    }
    // Where an answer came in several pieces of a kind, the first stands for all of them: they were stored as one.
    if (place > 0) return;
    if (kind === "reasoning") this.#takeReasoning(reasoningOf(answer), responseId);
    else {
      const { content, refusal } = answer;
      this.#takeText(
        typeof content === "string" ? content : "",
        typeof refusal === "string" ? refusal : "",
        responseId,
      );
    }
  }
}

function callOf(item: Json, path: string): Json {
  const { call_id: id, name, arguments: given, namespace } = item;
  if (typeof name !== "string" || name === "") throw wrong(`${path}.name`, name, "the function's name");
  if (typeof id !== "string" || id === "") throw wrong(`${path}.call_id`, id, "the call's id");
  if (typeof given !== "string") throw wrong(`${path}.arguments`, given, "a text of JSON");
  const called = typeof namespace === "string" ? engineToolName(namespace, name) : name;
  return { id, type: "function", function: { name: called, arguments: given } };
}

function reasoningText(item: Json, path: string): string {
  const text = partTexts(item["content"]) || partTexts(item["summary"]);
  const sealed = item["encrypted_content"];
  if (text !== "" || sealed === undefined || sealed === null || sealed === "") return text;
  const opened = readSealed(sealed);
  if (opened === null) {
    throw refused(
      `${path}.encrypted_content`,
      "it was not made by this gateway and cannot be read; send the item's content, or leave the item out",
    );
  }
  return opened;
}

function partTexts(parts: unknown): string {
  if (!Array.isArray(parts)) return "";
  const texts = parts.map((part: unknown) => (isRecord(part) ? part["text"] : ""));
  return texts.filter((text) => typeof text === "string").join("");
}

/** An answer's own words; whatever else stands there (annotations, log-probs) was no part of what was sampled. */
function answerContent(content: unknown, path: string): { readonly text: string; readonly refusal: string } {
  if (typeof content === "string") return { text: content, refusal: "" };
  if (!Array.isArray(content)) throw wrong(path, content, "a text or a list of parts");
  let text = "";
  let refusal = "";
  for (const [index, part] of content.entries()) {
    const type = isRecord(part) ? part["type"] : undefined;
    const known = type === "output_text" || type === "input_text" || type === "text";
    if (isRecord(part) && known && typeof part["text"] === "string") text += part["text"];
    else if (isRecord(part) && type === "refusal" && typeof part["refusal"] === "string")
      refusal += part["refusal"];
    else throw wrong(`${path}[${index}]`, part, "a part of type output_text or refusal");
  }
  return { text, refusal };
}

function outputContent(output: unknown, path: string): unknown {
  return Array.isArray(output) || typeof output === "string"
    ? inputContent(output, path)
    : JSON.stringify(output ?? "");
}

function inputContent(content: unknown, path: string): unknown {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw wrong(path, content, "a text or a list of parts");
  const parts = content.map((part: unknown, index) => inputPart(part, `${path}[${index}]`));
  const [only] = parts;
  return parts.length === 1 && isRecord(only) && only["type"] === "text" ? only["text"] : parts;
}

function inputPart(part: unknown, path: string): unknown {
  if (!isRecord(part)) throw wrong(path, part, "an object");
  switch (part["type"]) {
    case "input_text":
    case "output_text":
    case "text":
      if (typeof part["text"] !== "string") throw wrong(`${path}.text`, part["text"], "a text");
      return { type: "text", text: part["text"] };
    case "refusal":
      return { type: "text", text: part["refusal"] };
    case "input_image": {
      const { image_url: url, detail } = part;
      if (typeof url !== "string") throw refused(`${path}.file_id`, "give the image as image_url");
      return { type: "image_url", image_url: { url, ...(typeof detail === "string" ? { detail } : {}) } };
    }
    case "input_audio":
      return { type: "input_audio", input_audio: part["input_audio"] };
    default:
      throw refused(`${path}.type`, `there are no parts of type ${shown(part["type"])}`);
  }
}
