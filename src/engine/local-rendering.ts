// Renders chats in this process, for engines that have no route for it: the model's own chat template and tokenizer,
// read from a folder as models are published in. It is close to what engines do and not the same program, so nothing
// uses it before its ids were held against the engine's own (completions-token-in.ts).
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Template } from "@huggingface/jinja";
import { Tokenizer } from "@huggingface/tokenizers";
import { CoppiceError, messageOf } from "../errors.ts";
import type { Message } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";

type Json = Readonly<Record<string, unknown>>;

export interface LocalRendering {
  /** Where it was read from, for people. */
  readonly name: string;
  /** Without the tokens that an encoder would add by itself: the template has them. */
  tokenize(text: string): Uint32Array;
  /** Text of the messages; `body` has tools and template options. Throws what the template throws. */
  render(messages: readonly Message[], body: Json, ending: "as asked" | "none"): string;
}

/** Reads `tokenizer.json`, `tokenizer_config.json` and the chat template. Throws `invalid_request` where one is missing. */
export async function loadRendering(folder: string): Promise<LocalRendering> {
  const config = await readJson(folder, "tokenizer_config.json");
  const tokenizer = new Tokenizer(await readJson(folder, "tokenizer.json"), config);
  const template = new Template(await readTemplate(folder, config));
  const tokens = { bos_token: textOf(config["bos_token"]), eos_token: textOf(config["eos_token"]) };
  return {
    name: folder,
    tokenize: (text) => Uint32Array.from(tokenizer.encode(text, { add_special_tokens: false }).ids),
    render(messages, body, ending) {
      const asked = ending === "as asked";
      const options = isRecord(body["chat_template_kwargs"]) ? body["chat_template_kwargs"] : {};
      const continues = asked && body["continue_final_message"] === true;
      const text = template.render({
        ...tokens,
        ...options,
        tools: Array.isArray(body["tools"]) && body["tools"].length > 0 ? body["tools"] : null,
        messages: messages.map(withParsedArguments),
        add_generation_prompt: asked && !continues && body["add_generation_prompt"] !== false,
      });
      return continues ? upToFinalContent(text, messages.at(-1)) : text;
    },
  };
}

async function readJson(folder: string, name: string): Promise<Record<string, unknown>> {
  try {
    const json: unknown = JSON.parse(await readFile(join(folder, name), "utf8"));
    if (isRecord(json)) return json;
    throw new Error("it is no JSON object");
  } catch (error) {
    throw unreadable(folder, name, error);
  }
}

async function readTemplate(folder: string, config: Json): Promise<string> {
  const told = config["chat_template"];
  if (typeof told === "string") return told;
  const named = Array.isArray(told) ? (told as unknown[]).filter(isRecord) : [];
  const usual = named.find(({ name }) => name === "default")?.["template"];
  if (typeof usual === "string") return usual;
  try {
    return await readFile(join(folder, "chat_template.jinja"), "utf8");
  } catch (error) {
    throw unreadable(folder, "chat_template.jinja", error);
  }
}

function unreadable(folder: string, name: string, error: unknown): CoppiceError {
  return new CoppiceError(
    "invalid_request",
    `the tokenizer folder ${folder} has no ${name} that can be read (${messageOf(error)})`,
    { param: "tokenizer", cause: error },
  );
}

/** A token in a config is a text, or an object with its text. */
function textOf(token: unknown): string {
  if (typeof token === "string") return token;
  return isRecord(token) && typeof token["content"] === "string" ? token["content"] : "";
}

/** Templates are given the arguments of tool calls as values. */
function withParsedArguments(message: Message): Message {
  const calls = message["tool_calls"];
  if (!Array.isArray(calls)) return message;
  return {
    ...message,
    tool_calls: (calls as unknown[]).map((call) => {
      const target = isRecord(call) ? call["function"] : null;
      if (!isRecord(call) || !isRecord(target) || typeof target["arguments"] !== "string") return call;
      return { ...call, function: { ...target, arguments: parsed(target["arguments"]) } };
    }),
  };
}

function parsed(given: string): unknown {
  try {
    return JSON.parse(given);
  } catch (error) {
    if (error instanceof SyntaxError) return given;
    throw error;
  }
}

/** The turn of the final message stays open. Throws where its content is not found in the text. */
function upToFinalContent(text: string, final: Message | undefined): string {
  const content = typeof final?.["content"] === "string" ? final["content"].trim() : "";
  const at = content === "" ? -1 : text.lastIndexOf(content);
  if (at === -1)
    throw new Error("the content of the final message is not found in what the template renders");
  return text.slice(0, at + content.length);
}
