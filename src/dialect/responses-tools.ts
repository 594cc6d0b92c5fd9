// Tools of the Responses API as the functions that engines know. Functions of a namespace get one flat name and their
// calls go back under the namespace; tools that run on OpenAI's servers are refused by name. One is left out instead of
// refused, because agents offer it whether anybody serves it or not: web search.
import { isRecord } from "../lineage/message.ts";
import type { Json } from "./dialect.ts";
import { refused, shown, wrong } from "./request-fields.ts";

export interface ResponsesTools {
  /** In the Chat Completions shape. */
  readonly tools: readonly Json[];
  /** Functions that stand in a namespace, by the name that the engine knows. */
  readonly namespaced: ReadonlyMap<string, { readonly namespace: string; readonly name: string }>;
  readonly notes: readonly string[];
}

const LEFT_OUT = /^web_search(_preview)?(_\d{4}_\d{2}_\d{2})?$/;

export function engineToolName(namespace: string, name: string): string {
  return `${namespace}__${name}`;
}

export function readTools(tools: unknown): ResponsesTools {
  const functions: Json[] = [];
  const namespaced = new Map<string, { namespace: string; name: string }>();
  const notes: string[] = [];
  if (tools === undefined || tools === null) return { tools: functions, namespaced, notes };
  if (!Array.isArray(tools)) throw wrong("tools", tools, "a list of tools");
  for (const [index, tool] of tools.entries()) {
    const path = `tools[${index}]`;
    if (!isRecord(tool)) throw wrong(path, tool, "an object");
    const type = tool["type"];
    if (type === "function") functions.push(functionOf(tool, path));
    else if (type === "namespace") {
      const namespace = tool["name"];
      if (typeof namespace !== "string" || namespace === "") throw wrong(`${path}.name`, namespace, "a name");
      for (const inner of innerFunctions(tool["tools"], `${path}.tools`)) {
        const { name } = inner["function"] as { readonly name: string };
        const flat = engineToolName(namespace, name);
        namespaced.set(flat, { namespace, name });
        functions.push({ ...inner, function: { ...(inner["function"] as Json), name: flat } });
      }
    } else if (typeof type === "string" && LEFT_OUT.test(type)) {
      notes.push(`left out: ${path}, a tool of type ${type}`);
    } else throw unknownTool(path, type);
  }
  return { tools: functions, namespaced, notes };
}

function unknownTool(path: string, type: unknown): Error {
  return refused(
    `${path}.type`,
    `no engine has tools of type ${shown(type)}; give a tool of type function, which the agent runs itself`,
  );
}

function innerFunctions(tools: unknown, path: string): Json[] {
  if (!Array.isArray(tools)) throw wrong(path, tools, "a list of functions");
  return tools.map((tool: unknown, index) => {
    const at = `${path}[${index}]`;
    if (!isRecord(tool)) throw wrong(at, tool, "an object");
    if (tool["type"] !== "function") throw unknownTool(at, tool["type"]);
    return functionOf(tool, at);
  });
}

function functionOf(tool: Json, path: string): Json {
  const { type: _type, name, description, parameters, strict, ...rest } = tool;
  if (typeof name !== "string" || name === "") throw wrong(`${path}.name`, name, "the function's name");
  const { defer_loading: _defer, ...others } = rest;
  return {
    type: "function",
    function: {
      name,
      ...(typeof description === "string" ? { description } : {}),
      ...(isRecord(parameters) ? { parameters } : {}),
      ...(typeof strict === "boolean" ? { strict } : {}),
      ...others,
    },
  };
}

/** `tool_choice` in the Chat Completions shape; undefined where the client says nothing. */
export function readToolChoice(choice: unknown): unknown {
  if (choice === undefined || choice === null) return undefined;
  if (choice === "auto" || choice === "none" || choice === "required") return choice;
  if (isRecord(choice) && choice["type"] === "function") {
    const { name, namespace } = choice;
    if (typeof name !== "string") throw wrong("tool_choice.name", name, "the function's name");
    const called = typeof namespace === "string" ? engineToolName(namespace, name) : name;
    return { type: "function", function: { name: called } };
  }
  if (isRecord(choice))
    throw refused("tool_choice.type", `engines know no choice of ${shown(choice["type"])}`);
  throw wrong("tool_choice", choice, "auto, none, required or a function");
}
