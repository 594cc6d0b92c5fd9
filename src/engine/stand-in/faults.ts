// The faults that the stand-in can be told to have: what engines do wrong in the field, one kind each, to be combined.
// A script gives them as values; an agent, or a test that has only a base URL, writes markers into the last message,
// such as `@@fault:http500@@` or `@@fault:abort=3@@`.
import type { ScriptedAnswer } from "./answer.ts";
import { Refused } from "./request.ts";

/** A log-prob that is none, as engines have written them. */
export type BadLogprob = "NaN" | "Infinity" | "-Infinity" | "null" | "-9999";

export type Fault =
  /** The engine refuses with this status. */
  | {
      readonly kind: "status";
      readonly status: number;
      readonly message?: string;
      readonly retryAfter?: string;
    }
  /** This body instead of an answer. */
  | { readonly kind: "body"; readonly body: string; readonly contentType?: string; readonly status?: number }
  /** No answer at all, for as long as the client waits. */
  | { readonly kind: "hang" }
  /** The connection is closed in place of an answer. */
  | { readonly kind: "refuse" }
  /** The connection breaks after so many tokens, inside an event or inside a character of one. Whole: half-way. */
  | { readonly kind: "cut"; readonly afterTokens: number; readonly inside: "event" | "character" }
  /** Nothing more comes after so many tokens, and the connection stays open. */
  | { readonly kind: "stall"; readonly afterTokens: number }
  /** The answer ends in good order after so many tokens, without a finish reason. Whole: half a body. */
  | { readonly kind: "end_early"; readonly afterTokens: number }
  /** All is there but `[DONE]`. */
  | { readonly kind: "no_done" }
  /** After so many tokens an error stands in the answer, which has status 200. */
  | { readonly kind: "error_event"; readonly afterTokens: number; readonly status: number }
  /** After so many tokens comes a frame that is no JSON; the stream goes on behind it. */
  | { readonly kind: "broken_frame"; readonly afterTokens: number }
  /** The log-prob of this token is none. */
  | { readonly kind: "logprob"; readonly at: number; readonly told: BadLogprob }
  /** So many more (or, below 0, fewer) ids, log-probs or tokens in `usage` are told than there are. */
  | { readonly kind: "counts"; readonly ids?: number; readonly logprobs?: number; readonly usage?: number }
  /** Log-probs come in chunks of their own, behind those of their tokens. */
  | { readonly kind: "spread" }
  /** Ids were asked for and are not told: never, or not while streaming. */
  | { readonly kind: "no_ids"; readonly when: "always" | "stream" }
  /** The engine stops by itself after so many tokens: finish reason `abort`. */
  | { readonly kind: "abort"; readonly afterTokens: number }
  /** This finish reason is told, whatever is true. */
  | { readonly kind: "finish"; readonly reason: string }
  | { readonly kind: "framing"; readonly framing: Partial<Framing> }
  /** These weights generate from this token on, where weight versions are told. */
  | { readonly kind: "weights"; readonly at: number; readonly version: string }
  /** Milliseconds before each token. */
  | { readonly kind: "slow"; readonly delayMs: number }
  /** No fault: this answer instead of a sampled one. */
  | { readonly kind: "answer"; readonly answer: ScriptedAnswer };

/** How events are written. */
export interface Framing {
  readonly newline: "\n" | "\r\n" | "\r";
  /** A blank after `data:`. */
  readonly space: boolean;
  /** A comment before each event. */
  readonly comments: boolean;
  readonly byteOrderMark: boolean;
  /** Newlines after an event: 2 as the specification has it. */
  readonly newlines: 1 | 2;
  /** Newlines after the last event. */
  readonly lastNewlines: 0 | 1 | 2;
}

const TOOL_CALL = { name: "bash", arguments: '{"cmd":"ls -l"}' };

/** Markers by name; the argument stands behind `=` and is a number. */
const MARKERS: Readonly<Record<string, (argument: number | null) => Fault>> = {
  http400: () => ({ kind: "status", status: 400 }),
  http429: () => ({ kind: "status", status: 429, retryAfter: "1" }),
  http500: () => ({ kind: "status", status: 500 }),
  http503: () => ({ kind: "status", status: 503 }),
  garbage: () => ({ kind: "body", body: "\u0000\u0001 not an answer", contentType: "application/json" }),
  truncated: () => ({
    kind: "body",
    body: '{"id":"chatcmpl-1","choices":[{"ind',
    contentType: "application/json",
  }),
  html: () => ({ kind: "body", body: "<html><body>Bad gateway</body></html>", contentType: "text/html" }),
  hang: () => ({ kind: "hang" }),
  refuse: () => ({ kind: "refuse" }),
  cut: (at) => ({ kind: "cut", afterTokens: at ?? 1, inside: "event" }),
  cut_character: (at) => ({ kind: "cut", afterTokens: at ?? 1, inside: "character" }),
  stall: (at) => ({ kind: "stall", afterTokens: at ?? 1 }),
  end_early: (at) => ({ kind: "end_early", afterTokens: at ?? 1 }),
  no_done: () => ({ kind: "no_done" }),
  error_first: () => ({ kind: "error_event", afterTokens: -1, status: 503 }),
  error_event: (at) => ({ kind: "error_event", afterTokens: at ?? 1, status: 500 }),
  broken_frame: (at) => ({ kind: "broken_frame", afterTokens: at ?? 1 }),
  nan: (at) => ({ kind: "logprob", at: at ?? 0, told: "NaN" }),
  infinity: (at) => ({ kind: "logprob", at: at ?? 0, told: "Infinity" }),
  negative_infinity: (at) => ({ kind: "logprob", at: at ?? 0, told: "-Infinity" }),
  null_logprob: (at) => ({ kind: "logprob", at: at ?? 0, told: "null" }),
  minus_9999: (at) => ({ kind: "logprob", at: at ?? 0, told: "-9999" }),
  ids: (by) => ({ kind: "counts", ids: by ?? -1 }),
  logprobs: (by) => ({ kind: "counts", logprobs: by ?? -1 }),
  usage: (by) => ({ kind: "counts", usage: by ?? -1 }),
  spread: () => ({ kind: "spread" }),
  no_ids: () => ({ kind: "no_ids", when: "always" }),
  no_ids_stream: () => ({ kind: "no_ids", when: "stream" }),
  abort: (at) => ({ kind: "abort", afterTokens: at ?? 0 }),
  mislabel: () => ({ kind: "finish", reason: "tool_calls" }),
  crlf: () => ({ kind: "framing", framing: { newline: "\r\n" } }),
  cr: () => ({ kind: "framing", framing: { newline: "\r" } }),
  no_space: () => ({ kind: "framing", framing: { space: false } }),
  comments: () => ({ kind: "framing", framing: { comments: true } }),
  bom: () => ({ kind: "framing", framing: { byteOrderMark: true } }),
  one_newline: () => ({ kind: "framing", framing: { newlines: 1, lastNewlines: 1 } }),
  slow: (delay) => ({ kind: "slow", delayMs: delay ?? 100 }),
  tool: () => ({ kind: "answer", answer: { toolCalls: [TOOL_CALL] } }),
  reasoning: () => ({ kind: "answer", answer: { reasoning: "t7 t8", content: "t9" } }),
  multibyte: () => ({ kind: "answer", answer: { content: "世界 😀" } }),
};

export const MARKER_NAMES: readonly string[] = Object.keys(MARKERS);

const MARKER = /@@fault:([a-z0-9_]+)(?:=(-?\d+))?@@/g;

/** The faults that a text asks for. Refuses one that is not there. */
export function markedFaults(text: string): Fault[] {
  if (!text.includes("@@fault:")) return [];
  return [...text.matchAll(MARKER)].map(([, name, argument]) => {
    const make = Object.hasOwn(MARKERS, name as string) ? MARKERS[name as string] : undefined;
    if (make === undefined) {
      const message = `the stand-in has no fault ${String(name)}; it has ${MARKER_NAMES.join(", ")}`;
      throw new Refused(400, "BadRequestError", message, "messages");
    }
    return make(argument === undefined ? null : Number(argument));
  });
}

export function findFault<K extends Fault["kind"]>(
  faults: readonly Fault[],
  kind: K,
): Extract<Fault, { readonly kind: K }> | undefined {
  return faults.find((fault): fault is Extract<Fault, { readonly kind: K }> => fault.kind === kind);
}
