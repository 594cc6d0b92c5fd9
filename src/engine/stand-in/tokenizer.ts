// The stand-in's tokenizer: made up, stated, and reversible, so that tests can say ids and mean texts.
//   `tN` standing alone (N decimal below a million, no leading zero) is the id N; one blank between two such words is
//   part of them. Every other byte of the UTF-8 is an id of its own. Special tokens have ids of their own.
// So `tokenize` of "t40 t41" is [40, 41], and `detokenize(tokenize(text))` is the text, whatever it is.

const WORD_IDS = 1_000_000;
const BYTE_BASE = 1_000_000;
const MERGED_BASE = 2_000_000;
const MERGED_IDS = 1_000_000;
const SPECIAL_BASE = 3_000_000;

const SPECIALS = [
  "<|system|>",
  "<|user|>",
  "<|assistant|>",
  "<|tool|>",
  "<|im_end|>",
  "<think>",
  "</think>",
  "<tool_call>",
  "</tool_call>",
  "<|image|>",
] as const;

export type Special = (typeof SPECIALS)[number];

/** Ids are below this. */
export const VOCABULARY: number = SPECIAL_BASE + SPECIALS.length;

export function specialId(special: Special): number {
  return SPECIAL_BASE + SPECIALS.indexOf(special);
}

/** A word or a special token, with what stands around it left alone. */
const TOKEN = new RegExp(
  `(?<![0-9A-Za-z_])t(0|[1-9][0-9]{0,5})(?![0-9A-Za-z_])|${SPECIALS.map((special) =>
    special.replaceAll(/[|/]/g, String.raw`\$&`),
  ).join("|")}`,
  "g",
);

export interface Tokenizer {
  /** Ids of a text. A text with lone surrogates comes back with U+FFFD in their place, as from any UTF-8. */
  tokenize(text: string): number[];
  /** The text of the ids; null where an id is none of the vocabulary. */
  detokenize(ids: readonly number[]): string | null;
  /** Bytes that the id adds to a text after `previous`; null for an id outside the vocabulary. */
  piece(id: number, previous: number | null): Uint8Array | null;
}

/** With `drift`, neighbouring words are merged into one id in every text: ids that were sampled apart come back merged. */
export function createTokenizer(options: {
  readonly drift: boolean;
  /** Ids of this range all read as the word of its first one. */
  readonly sameTexts?: { readonly first: number; readonly count: number };
}): Tokenizer {
  const merges = new Merges();
  const piece = (id: number, previous: number | null): Uint8Array | null => {
    const { first, count } = options.sameTexts ?? { first: 0, count: 0 };
    const text = pieceText(id >= first && id < first + count ? first : id, merges);
    if (text === null) return null;
    if (typeof text === "number") return Uint8Array.of(text);
    return Buffer.from(isWord(id) && previous !== null && isWord(previous) ? ` ${text}` : text);
  };
  return {
    tokenize: (text) => {
      const ids = splitText(text);
      return options.drift ? merges.apply(ids) : ids;
    },
    detokenize: (ids) => {
      const pieces: Uint8Array[] = [];
      for (let index = 0; index < ids.length; index++) {
        const bytes = piece(ids[index] as number, ids[index - 1] ?? null);
        if (bytes === null) return null;
        pieces.push(bytes);
      }
      return Buffer.concat(pieces).toString("utf8");
    },
    piece,
  };
}

/** True for words and merged words, which are told apart by one blank. */
function isWord(id: number): boolean {
  return id < WORD_IDS || (id >= MERGED_BASE && id < MERGED_BASE + MERGED_IDS);
}

/** Text of an id standing alone, or the byte that it is; null outside the vocabulary. */
function pieceText(id: number, merges: Merges): string | number | null {
  if (id < WORD_IDS) return `t${id}`;
  if (id < BYTE_BASE + 256) return id - BYTE_BASE;
  if (id >= SPECIAL_BASE) return SPECIALS[id - SPECIAL_BASE] ?? null;
  return merges.textOf(id);
}

function splitText(text: string): number[] {
  const ids: number[] = [];
  let at = 0;
  let wordEnd = -1;
  for (const match of text.matchAll(TOKEN)) {
    const word = match[1];
    // One blank between two words is theirs.
    const joined = word !== undefined && wordEnd === at && match.index === at + 1 && text[at] === " ";
    if (!joined) pushBytes(ids, text.slice(at, match.index));
    ids.push(word === undefined ? specialId(match[0] as Special) : Number(word));
    at = match.index + match[0].length;
    wordEnd = word === undefined ? -1 : at;
  }
  pushBytes(ids, text.slice(at));
  return ids;
}

function pushBytes(ids: number[], text: string): void {
  if (text === "") return;
  for (const byte of Buffer.from(text)) ids.push(BYTE_BASE + byte);
}

/** Pairs of words that became one id: the same pair always gets the same id, for as long as the server lives. */
class Merges {
  readonly #byPair = new Map<string, number>();
  readonly #byId = new Map<number, string>();

  apply(ids: readonly number[]): number[] {
    const merged: number[] = [];
    for (let index = 0; index < ids.length; index++) {
      const id = ids[index] as number;
      const next = ids[index + 1];
      if (next !== undefined && id < WORD_IDS && next < WORD_IDS) {
        merged.push(this.#idOf(id, next));
        index += 1;
      } else merged.push(id);
    }
    return merged;
  }

  textOf(id: number): string | null {
    return this.#byId.get(id) ?? null;
  }

  #idOf(one: number, other: number): number {
    const text = `t${one} t${other}`;
    const known = this.#byPair.get(text);
    if (known !== undefined) return known;
    let place = (one * 1_009 + other) % MERGED_IDS;
    while (this.#byId.has(MERGED_BASE + place)) place = (place + 1) % MERGED_IDS;
    this.#byPair.set(text, MERGED_BASE + place);
    this.#byId.set(MERGED_BASE + place, text);
    return MERGED_BASE + place;
  }
}

/** Turns ids into text one at a time: a character that spans several ids is told with the last of them. */
export class PieceReader {
  readonly #tokenizer: Tokenizer;
  #previous: number | null = null;
  #pending: Uint8Array = new Uint8Array();

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  /** The text that the id completes; empty in the middle of a character. */
  next(id: number): string {
    const bytes = this.#tokenizer.piece(id, this.#previous) ?? new Uint8Array();
    this.#previous = id;
    const pending = this.#pending.length === 0 ? bytes : Buffer.concat([this.#pending, bytes]);
    const whole = pending.length - openCharacterBytes(pending);
    this.#pending = pending.subarray(whole);
    return Buffer.from(pending.buffer, pending.byteOffset, whole).toString("utf8");
  }
}

/** Bytes at the end that begin a UTF-8 character without finishing it. */
function openCharacterBytes(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] as number;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}
