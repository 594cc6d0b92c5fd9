// The object that a tool call's arguments stand for, where they were cut off too: what was said until then.
import { isRecord } from "../lineage/message.ts";

/** Empty for an empty text. A text that is no object, and cannot be made one, stands as it is under `raw_arguments`. */
export function objectOf(text: string): Record<string, unknown> {
  if (text.trim() === "") return {};
  const whole = parsed(text);
  if (isRecord(whole)) return whole;
  const cut = whole === undefined ? parsed(closed(text)) : undefined;
  return isRecord(cut) ? cut : { raw_arguments: text };
}

/** The text up to the last value that is whole, or the string that is open, with everything closed that is open. */
function closed(text: string): string {
  const open: string[] = [];
  let inString = false;
  let isKey = false;
  // Where a member or an element may end.
  let safe = 0;
  let closers = "";
  const mark = (at: number): void => {
    safe = at;
    closers = [...open].reverse().join("");
  };
  for (let at = 0; at < text.length; at++) {
    const char = text[at] as string;
    if (inString) {
      if (char === "\\") at += 1;
      else if (char === '"') {
        inString = false;
        if (!isKey) mark(at + 1);
      }
      continue;
    }
    if (char === '"') {
      inString = true;
      isKey = open.at(-1) === "}" && /[{,]\s*$/.test(text.slice(0, at));
    } else if (char === "{" || char === "[") {
      open.push(char === "{" ? "}" : "]");
      mark(at + 1);
    } else if (char === "}" || char === "]") {
      open.pop();
      mark(at + 1);
    } else if (char === ",") mark(at);
  }
  if (inString && !isKey)
    return `${text.replace(/\\(u[0-9a-fA-F]{0,3})?$/, "")}"${[...open].reverse().join("")}`;
  return text.slice(0, safe) + closers;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
