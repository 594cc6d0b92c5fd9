// Messages as the agent sent them: role, text, tool calls; whatever else a message holds as JSON. Always as text.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Message } from "../../src/lineage/call.ts";

/** Characters shown before a person asks for the rest. */
const FOLD = 2400;

export function MessageView({
  message,
  fate,
}: {
  readonly message: Message;
  readonly fate?: "kept" | "dropped" | "added";
}): JSX.Element {
  const [raw, setRaw] = useState(false);
  const role = typeof message["role"] === "string" ? message["role"] : "message";
  const { reasoning, reasoning_content: thought } = message as {
    reasoning?: unknown;
    reasoning_content?: unknown;
  };
  const thinking = typeof thought === "string" ? thought : typeof reasoning === "string" ? reasoning : null;
  return (
    <article class={`message ${fate ?? ""}`}>
      <header>
        {fate !== undefined && <span class={`fate ${fate}`}>{fate}</span>}
        <span class="role">{role}</span>
        {typeof message["name"] === "string" && <span class="dim">{message["name"]}</span>}
        {typeof message["tool_call_id"] === "string" && (
          <span class="dim mono">{message["tool_call_id"]}</span>
        )}
        <button type="button" class="quiet" aria-pressed={raw} onClick={() => setRaw(!raw)}>
          JSON
        </button>
      </header>
      {raw ? (
        <LongText text={JSON.stringify(message, null, 2)} mono />
      ) : (
        <>
          {thinking !== null && <LongText text={thinking} kind="thinking" />}
          {contentTexts(message["content"] ?? message["refusal"]).map((text, index) => (
            <LongText key={index} text={text} />
          ))}
          {toolCalls(message).map((call, index) => (
            <div key={index} class="tool-call">
              <b class="mono">{call.name}</b>
              <LongText text={call.args} mono />
            </div>
          ))}
        </>
      )}
    </article>
  );
}

function LongText({
  text,
  mono = false,
  kind = "",
}: {
  readonly text: string;
  readonly mono?: boolean;
  readonly kind?: string;
}): JSX.Element {
  const [whole, setWhole] = useState(false);
  const long = text.length > FOLD;
  return (
    <div class={`message-text ${mono ? "mono" : ""} ${kind}`}>
      {long && !whole ? `${text.slice(0, FOLD)}…` : text}
      {long && (
        <button type="button" class="link" onClick={() => setWhole(!whole)}>
          {whole ? "Show less" : `Show all ${text.length.toLocaleString("en-US")} characters`}
        </button>
      )}
    </div>
  );
}

function contentTexts(content: unknown): string[] {
  if (content === null || content === undefined || content === "") return [];
  if (typeof content === "string") return [content];
  if (!Array.isArray(content)) return [JSON.stringify(content, null, 2)];
  return content.map((part: unknown) => {
    if (typeof part === "string") return part;
    const { type, text } = (part ?? {}) as { type?: unknown; text?: unknown };
    return typeof text === "string" ? text : `[${String(type)}] ${JSON.stringify(part).slice(0, 400)}`;
  });
}

function toolCalls(message: Message): { readonly name: string; readonly args: string }[] {
  const calls = Array.isArray(message["tool_calls"]) ? (message["tool_calls"] as unknown[]) : [];
  return calls.map((call) => {
    const told = (call as { function?: { name?: unknown; arguments?: unknown } } | null)?.function;
    const args = told?.arguments;
    return {
      name: typeof told?.name === "string" ? told.name : "tool call",
      args: typeof args === "string" ? args : JSON.stringify(args ?? call),
    };
  });
}
