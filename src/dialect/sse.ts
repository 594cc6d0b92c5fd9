// Reads a server-sent-event stream that arrives in pieces of any size, as the WHATWG defines it
// (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream), and hands out whole
// events: the same ones wherever the pieces were cut. One thing is added: what stands at the end without the blank
// line that ends an event is handed out too, and told apart, because real servers leave that line out.
// It reads bytes and knows nothing of what is in them.
import { CoppiceError } from "../errors.ts";

export interface SseEvent {
  /** The `event:` field; `message` where there was none. */
  readonly type: string;
  /** The `data:` lines, joined with newlines. */
  readonly text: string;
  /** The last `id:` of the stream so far; empty where there was none. */
  readonly lastEventId: string;
  /** False for a last event that the stream ended without a blank line. */
  readonly terminated: boolean;
}

export interface SseLimits {
  /** Bytes of one event's lines, comments included; past it, `feed` throws. 64 MiB by default. */
  readonly maxEventBytes?: number;
}

const DEFAULT_MAX_EVENT_BYTES = 64 * 1024 * 1024;
const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
const SPACE = 0x20;

/**
 * A push parser. What `onEvent` throws comes out of `feed` or `end`; after any throw the reader is of no more use.
 * Cost: one native search per line end, one native decode per `data:` line.
 */
export class SseReader {
  readonly #onEvent: (event: SseEvent) => void;
  readonly #maxEventBytes: number;
  /** Pieces of a line whose end has not come. */
  #rest: Buffer[] = [];
  #restBytes = 0;
  /** The line before ended in CR at the end of its piece: an LF that comes first belongs to it. */
  #afterCr = false;
  #firstLine = true;
  /** Bytes of the lines of the event under way, without the one in `#rest`. */
  #eventBytes = 0;
  #type = "";
  #text: string | null = null;
  #lastEventId = "";

  constructor(onEvent: (event: SseEvent) => void, limits: SseLimits = {}) {
    this.#onEvent = onEvent;
    this.#maxEventBytes = limits.maxEventBytes ?? DEFAULT_MAX_EVENT_BYTES;
  }

  /** Takes the next bytes, which it may keep until their line is whole. Throws `too_large` past the limit. */
  feed(bytes: Uint8Array): void {
    const piece = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let at = 0;
    if (this.#afterCr && piece.length > 0) {
      this.#afterCr = false;
      if (piece[0] === LF) at = 1;
    }
    // Each is looked for again only once it has been passed: a stream without CR is searched for CR once a piece.
    let lf = piece.indexOf(LF, at);
    let cr = piece.indexOf(CR, at);
    while (lf !== -1 || cr !== -1) {
      const end = lf === -1 || (cr !== -1 && cr < lf) ? cr : lf;
      this.#takeLine(piece, at, end);
      at = end + 1;
      if (end === cr) {
        if (at === piece.length) this.#afterCr = true;
        else if (piece[at] === LF) at += 1;
        cr = piece.indexOf(CR, at);
      }
      if (lf !== -1 && lf < at) lf = piece.indexOf(LF, at);
    }
    if (at < piece.length) this.#keep(at === 0 ? piece : piece.subarray(at));
  }

  /** The stream has ended: hands out what stands there without its end. */
  end(): void {
    if (this.#restBytes > 0) this.#takeLine(Buffer.alloc(0), 0, 0);
    this.#dispatch(false);
  }

  #keep(piece: Buffer): void {
    this.#rest.push(piece);
    this.#restBytes += piece.length;
    this.#checkSize(this.#eventBytes + this.#restBytes);
  }

  #checkSize(bytes: number): void {
    if (bytes <= this.#maxEventBytes) return;
    throw new CoppiceError(
      "too_large",
      `a server-sent event has more than ${this.#maxEventBytes} bytes, which is the limit for one event`,
    );
  }

  #takeLine(piece: Buffer, start: number, end: number): void {
    if (this.#restBytes === 0) {
      this.#readLine(piece, start, end);
      return;
    }
    this.#rest.push(piece.subarray(start, end));
    const line = Buffer.concat(this.#rest, this.#restBytes + end - start);
    this.#rest = [];
    this.#restBytes = 0;
    this.#readLine(line, 0, line.length);
  }

  #readLine(line: Buffer, start: number, end: number): void {
    let at = start;
    if (this.#firstLine) {
      this.#firstLine = false;
      if (line[at] === 0xef && line[at + 1] === 0xbb && line[at + 2] === 0xbf && end - at >= 3) at += 3;
    }
    if (at === end) {
      this.#dispatch(true);
      return;
    }
    this.#eventBytes += end - at;
    this.#checkSize(this.#eventBytes);
    if (line[at] === COLON) return;
    // "data:", nearly every line there is.
    if (isData(line, at) && at + 4 < end && line[at + 4] === COLON) {
      const from = at + 5 < end && line[at + 5] === SPACE ? at + 6 : at + 5;
      this.#addText(line.toString("utf8", from, end));
      return;
    }
    this.#readField(line.toString("utf8", at, end));
  }

  #addText(text: string): void {
    this.#text = this.#text === null ? text : `${this.#text}\n${text}`;
  }

  #readField(line: string): void {
    const colon = line.indexOf(":");
    const name = colon === -1 ? line : line.slice(0, colon);
    const from = line[colon + 1] === " " ? colon + 2 : colon + 1;
    const value = colon === -1 ? "" : line.slice(from);
    if (name === "data") this.#addText(value);
    else if (name === "event") this.#type = value;
    else if (name === "id" && !value.includes("\0")) this.#lastEventId = value;
    // `retry` is for clients that reconnect; a field that nobody knows is to be ignored.
  }

  #dispatch(terminated: boolean): void {
    const text = this.#text;
    const type = this.#type;
    this.#text = null;
    this.#type = "";
    this.#eventBytes = 0;
    if (text === null) return;
    this.#onEvent({ type: type === "" ? "message" : type, text, lastEventId: this.#lastEventId, terminated });
  }
}

function isData(line: Buffer, at: number): boolean {
  return line[at] === 0x64 && line[at + 1] === 0x61 && line[at + 2] === 0x74 && line[at + 3] === 0x61;
}
