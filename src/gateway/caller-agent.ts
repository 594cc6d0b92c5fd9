// Which agent makes a call, and what the call is for, as far as path and headers tell. What they do not tell stays
// null: the history that a request extends may still say whose it is (recorder.ts), but never "the last call", and a
// class is never guessed. The headers are those that public agents send of themselves; docs/agents/ has the pages.
import type { IncomingHttpHeaders } from "node:http";
import { CoppiceError } from "../errors.ts";
import type { CallClass } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";

export const CALL_CLASSES: readonly CallClass[] = ["main", "sub_agent", "compaction", "title", "auxiliary"];

/** Characters of a label. */
const MAX_LABEL = 200;

/**
 * Marks that public agents put on the calls of their (sub-)agents, most telling first: Claude Code's sub-agents, Codex'
 * threads, opencode's sessions, pi's.
 */
const AGENT_HEADERS = ["x-claude-code-agent-id", "thread-id", "x-session-id", "session-id"] as const;

/** Headers that only calls of sub-agents have. */
const SUB_AGENT_HEADERS = [
  "x-claude-code-agent-id",
  "x-codex-parent-thread-id",
  "x-parent-session-id",
] as const;

/** Other programs' words for a class; a word that is not here tells nothing in ours. */
const CLASS_WORDS: Readonly<Record<string, CallClass>> = {
  main: "main",
  turn: "main",
  subagent: "sub_agent",
  sub_agent: "sub_agent",
  collab_spawn: "sub_agent",
  review: "sub_agent",
  compaction: "compaction",
  compact: "compaction",
  title: "title",
  auxiliary: "auxiliary",
};

/**
 * The agent's label: the path's, else `x-coppice-agent`, else the first of the marks that public agents send. Throws
 * `invalid_request` for a label of ours that is empty or too long; another program's mark is left out then.
 *
 * @param path the label in the path; undefined where the path has none
 */
export function agentOf(path: string | undefined, headers: IncomingHttpHeaders): string | null {
  const own = path ?? textHeader(headers, "x-coppice-agent");
  if (own !== null) {
    if (own !== "" && own.length <= MAX_LABEL) return own;
    throw new CoppiceError(
      "invalid_request",
      `the agent's label has ${own.length} characters, not 1 to ${MAX_LABEL}`,
      { param: "agent" },
    );
  }
  for (const name of AGENT_HEADERS) {
    const value = textHeader(headers, name);
    if (value !== null && value.length <= MAX_LABEL) return value;
  }
  return null;
}

/**
 * The class: `x-coppice-class`, else what a public agent says of the call. Throws `invalid_request` for a class of ours
 * that there is not.
 */
export function classOf(headers: IncomingHttpHeaders): CallClass | null {
  const own = textHeader(headers, "x-coppice-class");
  if (own !== null) {
    const known = CALL_CLASSES.find((one) => one === own);
    if (known !== undefined) return known;
    throw new CoppiceError(
      "invalid_request",
      `x-coppice-class is "${own}"; it must be one of ${CALL_CLASSES.join(", ")}`,
      { param: "x-coppice-class" },
    );
  }
  const hinted = wordClass(textHeader(headers, "x-claude-code-request-class"));
  if (hinted !== null) return hinted;
  const kind = wordClass(codexRequestKind(headers));
  // A sub-agent's own compaction is one.
  if (kind !== null && kind !== "main") return kind;
  const subAgent = wordClass(textHeader(headers, "x-openai-subagent"));
  if (subAgent !== null && subAgent !== "main") return subAgent;
  if (SUB_AGENT_HEADERS.some((name) => textHeader(headers, name) !== null)) return "sub_agent";
  return kind;
}

function wordClass(word: string | null): CallClass | null {
  return word !== null && Object.hasOwn(CLASS_WORDS, word) ? (CLASS_WORDS[word] as CallClass) : null;
}

/** `request_kind` of the JSON that Codex sends in a header; null where there is none that can be read. */
function codexRequestKind(headers: IncomingHttpHeaders): string | null {
  const text = textHeader(headers, "x-codex-turn-metadata");
  if (text === null) return null;
  const told = parsedOrNull(text);
  const kind = isRecord(told) ? told["request_kind"] : null;
  return typeof kind === "string" ? kind : null;
}

/** A hint that cannot be read is none; it never fails a call. */
function parsedOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

export function textHeader(headers: IncomingHttpHeaders, name: string): string | null {
  const value = headers[name];
  return typeof value === "string" && value !== "" ? value : null;
}
