// A crash-safe journal of a rollout's conversations: what was answered and what the agent said of it, a JSON line each,
// on disk before the agent goes on. A conversation that is made over a journal with entries goes on where they end.
// Views are written as places in the history, so that the journal grows with new messages only.
import { closeSync, fsyncSync, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";
import { z } from "zod";
import { AgentError } from "./agent-error.ts";
import type { Answer } from "./answer.ts";
import { deepFreeze, type ChatMessage } from "./chat-client.ts";

/** Why a call is a root, as the agent's side sees it; null where it goes on from an earlier call. */
export type RootKind = "first" | "rewrite" | "asked_again" | "sub_agent";

/** What happened to the conversations of one rollout. `agent` is a fork's label, "" for the first conversation. */
export type Entry =
  | {
      readonly type: "conversation";
      readonly agent: string;
      readonly rolloutId: string;
      readonly forkOf: string | null;
      readonly head: readonly ChatMessage[];
      /** What a fork that goes on was told and said before it, behind the head. */
      readonly before: readonly ChatMessage[];
      /** Response ids of the accepted answers that a fork goes on from. */
      readonly path: readonly string[];
    }
  | {
      readonly type: "answered";
      readonly agent: string;
      readonly purpose: "action" | "policy";
      readonly observation: readonly ChatMessage[];
      readonly view: readonly ChatMessage[];
      /** The view goes on from the last accepted answer. */
      readonly goesOn: boolean;
      readonly parent: string | null;
      readonly root: RootKind | null;
      readonly answer: Answer;
    }
  | {
      readonly type: "accepted";
      readonly agent: string;
      readonly responseId: string;
      readonly reward: number | null;
    }
  | {
      readonly type: "rejected";
      readonly agent: string;
      readonly responseId: string;
      readonly reason: string | null;
      /** Counts against `maxRejections`. */
      readonly counts: boolean;
    }
  | {
      readonly type: "credited";
      readonly agent: string;
      readonly responseId: string;
      readonly reward: number;
    }
  | {
      readonly type: "went_back";
      readonly agent: string;
      /** Null: to before the first answer. */
      readonly to: string | null;
      readonly keep: boolean;
      readonly reason: string | null;
    }
  | { readonly type: "discarded"; readonly agent: string; readonly reason: string | null }
  | { readonly type: "finished"; readonly agent: string };

export type EntryOf<T extends Entry["type"]> = Extract<Entry, { readonly type: T }>;

/** A place for lines. Contract: `append` returns once the line is safe; `lines` are those of before, in order. */
export interface Journal {
  readonly lines: readonly string[];
  append(line: string): void;
  close(): void;
}

/**
 * A journal in a file, made where there is none, synced with every line. A last line that a crash cut short is taken
 * off; it was never acted on. One process at a time may have it open.
 */
export function fileJournal(path: string): Journal {
  const file = openSync(path, "a+");
  const text = readFileSync(path, "utf8");
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  if (whole.length < text.length) ftruncateSync(file, Buffer.byteLength(whole));
  return {
    lines: whole.split("\n").filter((line) => line !== ""),
    append(line) {
      writeSync(file, `${line}\n`);
      fsyncSync(file);
    },
    close: () => closeSync(file),
  };
}

/** A journal that lives as long as the process: for tests, and for agents that need none. */
export function memoryJournal(lines: readonly string[] = []): Journal & { readonly written: string[] } {
  const written = [...lines];
  return {
    lines,
    written,
    append: (line) => void written.push(line),
    close: () => undefined,
  };
}

/** @param known the history that the view's messages are taken from, its observation with it */
export function writeEntry(entry: Entry, known: readonly ChatMessage[]): string {
  return JSON.stringify(entry.type === "answered" ? { ...entry, view: pack(entry.view, known) } : entry);
}

const messages = z.array(z.looseObject({ role: z.string() }));
const base = { agent: z.string() };
const packed = z.array(
  z.union([z.tuple([z.number().int(), z.number().int()]), z.looseObject({ role: z.string() })]),
);

const entrySchema = z.discriminatedUnion("type", [
  z.object({
    ...base,
    type: z.literal("conversation"),
    rolloutId: z.string(),
    forkOf: z.string().nullable(),
    head: messages,
    before: messages,
    path: z.array(z.string()),
  }),
  z.object({
    ...base,
    type: z.literal("answered"),
    purpose: z.enum(["action", "policy"]),
    observation: messages,
    view: packed,
    goesOn: z.boolean(),
    parent: z.string().nullable(),
    root: z.enum(["first", "rewrite", "asked_again", "sub_agent"]).nullable(),
    answer: z.looseObject({ responseId: z.string(), message: z.looseObject({ role: z.string() }) }),
  }),
  z.object({ ...base, type: z.literal("accepted"), responseId: z.string(), reward: z.number().nullable() }),
  z.object({
    ...base,
    type: z.literal("rejected"),
    responseId: z.string(),
    reason: z.string().nullable(),
    counts: z.boolean(),
  }),
  z.object({ ...base, type: z.literal("credited"), responseId: z.string(), reward: z.number() }),
  z.object({
    ...base,
    type: z.literal("went_back"),
    to: z.string().nullable(),
    keep: z.boolean(),
    reason: z.string().nullable(),
  }),
  z.object({ ...base, type: z.literal("discarded"), reason: z.string().nullable() }),
  z.object({ ...base, type: z.literal("finished") }),
]);

/**
 * @param historyOf the history of an agent as the entries before this one left it
 * Throws `invalid_journal` for a line that is none.
 */
export function readEntry(
  line: string,
  number: number,
  historyOf: (agent: string) => readonly ChatMessage[],
): Entry {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch (cause) {
    throw new AgentError("invalid_journal", `line ${number} of the journal is no JSON`, { cause });
  }
  const parsed = entrySchema.safeParse(json);
  if (!parsed.success) {
    const why = z.prettifyError(parsed.error).replaceAll(/\s*\n\s*/g, " ");
    throw new AgentError("invalid_journal", `line ${number} of the journal is no entry: ${why}`);
  }
  const entry = deepFreeze(parsed.data);
  if (entry.type !== "answered") return entry;
  const known = [...historyOf(entry.agent), ...entry.observation];
  const view = unpack(entry.view, known);
  if (view === null) {
    throw new AgentError("invalid_journal", `line ${number} of the journal has a view beyond its history`);
  }
  return { ...entry, view, answer: entry.answer as unknown as Answer };
}

/** Messages `start` to `end` (exclusive) of the history, or a message that the history does not have. */
type Packed = readonly [number, number] | ChatMessage;

function pack(view: readonly ChatMessage[], known: readonly ChatMessage[]): Packed[] {
  const places = new Map(known.map((message, index) => [message, index]));
  const parts: (readonly [number, number] | ChatMessage)[] = [];
  for (const message of view) {
    const place = places.get(message);
    const last = parts.at(-1);
    if (place === undefined) parts.push(message);
    else if (isRange(last) && last[1] === place) parts[parts.length - 1] = [last[0], place + 1];
    else parts.push([place, place + 1]);
  }
  return parts;
}

function unpack(parts: readonly Packed[], known: readonly ChatMessage[]): readonly ChatMessage[] | null {
  const view: ChatMessage[] = [];
  for (const part of parts) {
    if (!isRange(part)) view.push(part);
    else if (part[0] < 0 || part[1] > known.length) return null;
    else view.push(...known.slice(part[0], part[1]));
  }
  return Object.freeze(view);
}

function isRange(part: Packed | undefined): part is readonly [number, number] {
  return Array.isArray(part);
}
