// A tokenizer for sample traces: words with the blank before them, each a new id the first time it is seen. Reversible,
// and like a real one in the ways that the page cares about.

const SPECIALS = ["<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>", "<think>", "</think>"];
const FIRST_WORD = 1000;

export class SampleTokenizer {
  readonly #ids = new Map<string, number>(SPECIALS.map((special, index) => [special, index + 1]));
  readonly #texts = new Map<number, string>(SPECIALS.map((special, index) => [index + 1, special]));

  encode(text: string): number[] {
    const pieces =
      text.match(/<\|\w+\|>|<\/?think>| ?[\p{L}]+| ?\p{N}{1,3}|\n+| ?[^\s\p{L}\p{N}]+?|\s+?/gu) ?? [];
    return pieces.map((piece) => this.#idOf(piece));
  }

  detokenize(ids: Uint32Array): Promise<string | null> {
    const texts = [...ids].map((id) => this.#texts.get(id));
    return Promise.resolve(texts.includes(undefined) ? null : texts.join(""));
  }

  #idOf(piece: string): number {
    const known = this.#ids.get(piece);
    if (known !== undefined) return known;
    // Spread out, as ids of a real vocabulary are.
    const id = FIRST_WORD + ((this.#ids.size * 7919) % 120_000);
    this.#ids.set(piece, id);
    this.#texts.set(id, piece);
    return id;
  }
}
