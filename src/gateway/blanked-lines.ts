// Volatile prompt lines: some agents write something new into their first messages with every request (a build number,
// a clock), so that no two prompts share a prefix. What the operator's patterns match is taken out before the engine
// sees it, for all calls alike, and each call's record says so. The list is empty unless the operator fills it.
import { CoppiceError, messageOf } from "../errors.ts";
import type { Message } from "../lineage/call.ts";
import { isRecord } from "../lineage/message.ts";

/** What the model or a tool wrote is evidence: only what the agent says of itself is blanked. */
const BLANKED_ROLES: ReadonlySet<unknown> = new Set(["system", "developer", "user"]);

export interface Blanked {
  readonly messages: readonly Message[];
  /** One a place: which pattern, and where. Without the text itself: prompts stand in no note. */
  readonly notes: readonly string[];
}

export class VolatileLines {
  readonly #patterns: readonly { readonly source: string; readonly expression: RegExp }[];

  /**
   * @param patterns regular expressions, `^` and `$` at line ends. Throws `invalid_request` for one that cannot be read
   *   or that matches nothing at all
   */
  constructor(patterns: readonly string[]) {
    this.#patterns = patterns.map((source) => ({ source, expression: expressionOf(source) }));
  }

  /** The same list where nothing matches. A match leaves its line's end standing. */
  blank(messages: readonly Message[]): Blanked {
    if (this.#patterns.length === 0) return { messages, notes: [] };
    const notes: string[] = [];
    const blanked = messages.map((message, index) => {
      if (!BLANKED_ROLES.has(message["role"])) return message;
      const place = `messages[${index}]`;
      const content = this.#content(message["content"], place, notes);
      return content === message["content"] ? message : { ...message, content };
    });
    return notes.length === 0 ? { messages, notes } : { messages: blanked, notes };
  }

  #content(content: unknown, place: string, notes: string[]): unknown {
    if (typeof content === "string") return this.#text(content, place, notes);
    if (!Array.isArray(content)) return content;
    let changed = false;
    const parts = content.map((part: unknown) => {
      if (!isRecord(part) || typeof part["text"] !== "string") return part;
      const text = this.#text(part["text"], place, notes);
      if (text === part["text"]) return part;
      changed = true;
      return { ...part, text };
    });
    return changed ? parts : content;
  }

  #text(text: string, place: string, notes: string[]): string {
    let left = text;
    for (const { source, expression } of this.#patterns) {
      const blanked = left.replaceAll(expression, "");
      if (blanked !== left) notes.push(`blanked: /${source}/ in ${place}`);
      left = blanked;
    }
    return left;
  }
}

function expressionOf(source: string): RegExp {
  let expression: RegExp;
  try {
    expression = new RegExp(source, "gm");
  } catch (error) {
    throw new CoppiceError("invalid_request", `blank is "${source}": ${messageOf(error)}`, {
      param: "blank",
      cause: error,
    });
  }
  if (!expression.test("")) return new RegExp(source, "gm");
  throw new CoppiceError(
    "invalid_request",
    `blank is "${source}", which matches an empty text; it must match what is to be taken out`,
    { param: "blank" },
  );
}
