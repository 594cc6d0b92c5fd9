// The line that keeps a rollout's prompts from sharing a prefix: between the first messages of two calls that should go
// on from one another, the first line that differs. For the alarm "N calls, N roots"; nothing is decided by it.
import type { Message } from "../lineage/call.ts";
import { isRecord, meaningOf } from "../lineage/message.ts";

/** A line is shown up to here, in characters. */
const SHOWN = 200;

/** Of a call that may differ in more than a line: then it is another conversation. */
const MAX_DIFFERING_LINES = 3;

export interface ChangingLine {
  /** Index of the message, and of the line in its text. */
  readonly message: number;
  readonly line: number;
  readonly before: string;
  readonly after: string;
}

/** The first pair of neighbours that differ in a line of an early message; null where none does. */
export function changingLine(requests: readonly (readonly Message[])[]): ChangingLine | null {
  for (let index = 1; index < requests.length; index++) {
    const found = between(requests[index - 1] as readonly Message[], requests[index] as readonly Message[]);
    if (found !== null) return found;
  }
  return null;
}

function between(one: readonly Message[], other: readonly Message[]): ChangingLine | null {
  const end = Math.min(one.length, other.length);
  for (let message = 0; message < end; message++) {
    const before = one[message] as Message;
    const after = other[message] as Message;
    if (meaningOf(before) === meaningOf(after)) continue;
    if (before["role"] !== after["role"]) return null;
    const [lines, others] = [linesOf(before), linesOf(after)];
    const line = lines.findIndex((text, at) => text !== others[at]);
    if (line === -1 || lines.length !== others.length) return null;
    const differing = lines.filter((text, at) => text !== others[at]).length;
    // A text of one line that differs is another text, unless more of the message agrees.
    if (differing > MAX_DIFFERING_LINES || differing === lines.length) return null;
    return { message, line, before: shown(lines[line] as string), after: shown(others[line] as string) };
  }
  return null;
}

/** Every part of a list begins a line of its own, as templates have it. */
function linesOf({ content }: Message): string[] {
  if (typeof content === "string") return content.split("\n");
  if (!Array.isArray(content)) return [];
  return content.flatMap((part: unknown) =>
    isRecord(part) && typeof part["text"] === "string" ? part["text"].split("\n") : [],
  );
}

function shown(line: string): string {
  return line.length > SHOWN ? `${line.slice(0, SHOWN)}...` : line;
}
