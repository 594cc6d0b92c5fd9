// Turns the deltas of one chat answer into blocks that stand one after the other: reasoning, text, a refusal, each tool
// call. Dialects with a strict order of events are written from these. Fragments of a tool call that come while an
// earlier one is not whole wait for it, so that no block is ever opened inside another or opened twice.
import { isRecord } from "../lineage/message.ts";
import type { Json } from "./dialect.ts";

export type Block =
  | { readonly kind: "reasoning" | "text" | "refusal" }
  | { readonly kind: "tool"; readonly place: number; readonly id: string | null; readonly name: string };

/** Told in order: `open`, any number of `add`, `close`, then the next block. */
export interface BlockSink {
  open(block: Block): void;
  /** Never an empty text. */
  add(block: Block, text: string): void;
  /** @param text all that was added */
  close(block: Block, text: string): void;
}

type Piece =
  | { readonly kind: "reasoning" | "text" | "refusal"; readonly text: string }
  | {
      readonly kind: "tool";
      readonly index: number;
      readonly id: string | null;
      readonly name: string;
      readonly text: string;
    };

type ToolPiece = Extract<Piece, { readonly kind: "tool" }>;

export class BlockSequencer {
  readonly #sink: BlockSink;
  #open: Block | null = null;
  #openIndex = -1;
  #text = "";
  /** Tool calls that were closed, by index. */
  readonly #closed = new Set<number>();
  #waiting: Piece[] = [];
  #lastTool: { readonly index: number; readonly id: string | null } | null = null;
  #tools = 0;

  constructor(sink: BlockSink) {
    this.#sink = sink;
  }

  /** Takes a delta, or a whole message. */
  take(delta: Json): void {
    const reasoning = reasoningOf(delta);
    if (reasoning !== "") this.#push({ kind: "reasoning", text: reasoning });
    const { content, refusal, tool_calls: calls } = delta;
    if (typeof content === "string" && content !== "") this.#push({ kind: "text", text: content });
    if (typeof refusal === "string" && refusal !== "") this.#push({ kind: "refusal", text: refusal });
    if (!Array.isArray(calls)) return;
    for (const [place, call] of calls.entries()) if (isRecord(call)) this.#push(this.#toolPiece(call, place));
  }

  /** What waited comes out, and the last block is closed. */
  end(): void {
    for (const piece of gathered(this.#waiting)) this.#place(piece);
    this.#waiting = [];
    this.#close();
  }

  #toolPiece(call: Json, place: number): ToolPiece {
    const target = isRecord(call["function"]) ? call["function"] : {};
    const { name, arguments: given } = target;
    const told = call["id"];
    const id = typeof told === "string" && told !== "" ? told : null;
    const index = typeof call["index"] === "number" ? call["index"] : this.#indexWithout(id, place);
    this.#lastTool = { index, id: id ?? (this.#lastTool?.index === index ? this.#lastTool.id : null) };
    const text = typeof given === "string" ? given : isRecord(given) ? JSON.stringify(given) : "";
    return { kind: "tool", index, id, name: typeof name === "string" ? name : "", text };
  }

  /** Where no index is told, a new id begins a new call, and so does a further call of the same delta. */
  #indexWithout(id: string | null, place: number): number {
    const last = this.#lastTool;
    if (last === null) return place;
    return place > 0 || (id !== null && id !== last.id) ? last.index + 1 : last.index;
  }

  #push(told: Piece): void {
    const piece = this.#withItsBeginning(told);
    if (this.#mustWait(piece)) {
      this.#waiting.push(piece);
      return;
    }
    this.#place(piece);
    if (this.#waiting.length === 0 || !this.#isWhole()) return;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const one of waiting) this.#push(one);
  }

  /** The name of a call may come after its id. */
  #withItsBeginning(piece: Piece): Piece {
    if (piece.kind !== "tool") return piece;
    const at = this.#waiting.findIndex(
      (other) => other.kind === "tool" && other.index === piece.index && other.name === "",
    );
    if (at === -1) return piece;
    const [begun] = this.#waiting.splice(at, 1);
    return gathered([begun as Piece, piece])[0] as Piece;
  }

  /** A tool call that is not whole is not left, and one without a name is not begun. */
  #mustWait(piece: Piece): boolean {
    if (this.#isOpenFor(piece)) return false;
    if (this.#waiting.length > 0 && !this.#isWhole()) return true;
    const nameless = piece.kind === "tool" && piece.name === "" && !this.#closed.has(piece.index);
    return nameless || !this.#isWhole();
  }

  #isWhole(): boolean {
    return this.#open?.kind !== "tool" || isWholeJson(this.#text);
  }

  #isOpenFor(piece: Piece): boolean {
    return this.#open?.kind === piece.kind && (piece.kind !== "tool" || piece.index === this.#openIndex);
  }

  #place(piece: Piece): void {
    if (!this.#isOpenFor(piece)) {
      // Blanks behind a call that was whole: nobody misses them.
      if (piece.kind === "tool" && this.#closed.has(piece.index)) return;
      this.#close();
      this.#begin(piece);
    }
    if (piece.text === "") return;
    this.#text += piece.text;
    this.#sink.add(this.#open as Block, piece.text);
  }

  #begin(piece: Piece): void {
    if (piece.kind === "tool") {
      this.#openIndex = piece.index;
      this.#open = { kind: "tool", place: this.#tools, id: piece.id, name: piece.name };
      this.#tools += 1;
    } else this.#open = { kind: piece.kind };
    this.#text = "";
    this.#sink.open(this.#open);
  }

  #close(): void {
    if (this.#open === null) return;
    if (this.#open.kind === "tool") this.#closed.add(this.#openIndex);
    this.#sink.close(this.#open, this.#text);
    this.#open = null;
  }
}

/** Fragments of one tool call as one piece, at the place of the first. */
function gathered(pieces: readonly Piece[]): readonly Piece[] {
  const joined: Piece[] = [];
  for (const piece of pieces) {
    const at = joined.findIndex(
      (other) => piece.kind === "tool" && other.kind === "tool" && other.index === piece.index,
    );
    const known = joined[at];
    if (known?.kind !== "tool" || piece.kind !== "tool") joined.push(piece);
    else {
      joined[at] = {
        ...known,
        id: known.id ?? piece.id,
        name: known.name === "" ? piece.name : known.name,
        text: known.text + piece.text,
      };
    }
  }
  return joined;
}

/** Reasoning has two names; an engine that writes both writes the same. */
export function reasoningOf(message: Json): string {
  const told = message["reasoning"] ?? message["reasoning_content"];
  return typeof told === "string" ? told : "";
}

function isWholeJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}
