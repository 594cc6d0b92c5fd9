// Reads JSON as engines write it. Python's encoder puts NaN, Infinity and -Infinity bare into what it calls JSON, and
// an answer with one of them among ten thousand log-probs must stay readable. Plain JSON.parse goes first; only where
// it fails are the bare words replaced, outside strings alone, and the text parsed once more.
import { CoppiceError, messageOf } from "../errors.ts";

const BARE = /-?\b(?:NaN|Infinity)\b/g;
const BACKSLASH = 0x5c;

/**
 * The value of an engine's JSON; `Infinity` and `-Infinity` are read as themselves, `NaN` as null, since no JSON
 * number stands for it. Throws `engine_error`, naming `what` and where the text cannot be read.
 */
export function parseEngineJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return parseWithBareWords(text, what, error);
  }
}

function parseWithBareWords(text: string, what: string, first: SyntaxError): unknown {
  const mended = replaceBareWords(text);
  if (mended === null) throw unreadable(text, what, first);
  try {
    return JSON.parse(mended);
  } catch (error) {
    throw unreadable(text, what, error);
  }
}

function unreadable(text: string, what: string, cause: unknown): CoppiceError {
  const start = text.length > 60 ? `${text.slice(0, 60)}...` : text;
  return new CoppiceError(
    "engine_error",
    `${what} is not JSON (${messageOf(cause)}); it has ${text.length} characters and begins ${JSON.stringify(start)}`,
    { cause },
  );
}

/** The text with its bare words replaced by JSON that reads as the same, or null where it has none. */
function replaceBareWords(text: string): string | null {
  const parts: string[] = [];
  let found = false;
  let at = 0;
  while (at < text.length) {
    const quote = text.indexOf('"', at);
    const outside = quote === -1 ? text.slice(at) : text.slice(at, quote);
    const replaced = outside.replace(BARE, (word) => {
      found = true;
      // The one JSON number that reads as Infinity is one too large for a double.
      return word.endsWith("NaN") ? "null" : word.replace("Infinity", "1e999");
    });
    parts.push(replaced);
    if (quote === -1) break;
    at = endOfString(text, quote);
    parts.push(text.slice(quote, at));
  }
  return found ? parts.join("") : null;
}

/** Index after the quote that closes the string which opens at `quote`. */
function endOfString(text: string, quote: number): number {
  let end = text.indexOf('"', quote + 1);
  while (end !== -1) {
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return end + 1;
    end = text.indexOf('"', end + 1);
  }
  return text.length;
}
