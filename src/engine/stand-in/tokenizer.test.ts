import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createTokenizer, PieceReader, specialId, VOCABULARY } from "./tokenizer.ts";

const plain = createTokenizer({ drift: false });
const drifting = createTokenizer({ drift: true });

const text = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "t1",
        "t40",
        "t0",
        "t007",
        "t999999",
        "t1000000",
        " ",
        "  ",
        "\n",
        "t",
        "x",
        "<|im_end|>",
      ),
      fc.constantFrom("<think>", "<|nope|>", "世界", "😀", "é", "t1t2", "_t5", "t5_", ",t5."),
      fc.string({ unit: "grapheme", maxLength: 5 }),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(""));

describe("the stand-in's tokenizer", () => {
  it("reads the worked example's words as their ids", () => {
    expect(plain.tokenize("t40 t41")).toEqual([40, 41]);
    expect(plain.detokenize([40, 41, 1004])).toBe("t40 t41 t1004");
    expect(plain.tokenize("t1004")).toEqual([1004]);
  });

  it("gives every text back, with and without drift", () => {
    fc.assert(
      fc.property(text, (text) => {
        expect(plain.detokenize(plain.tokenize(text))).toBe(text);
        expect(drifting.detokenize(drifting.tokenize(text))).toBe(text);
      }),
      { numRuns: 500 },
    );
  });

  it("gives the ids of words, special tokens and characters back from their text", () => {
    const ids = [5, 6, specialId("<|im_end|>"), 7, ...plain.tokenize("世"), specialId("</think>"), 8];
    expect(plain.tokenize(plain.detokenize(ids) ?? "")).toEqual(ids);
  });

  it("spends an id on each byte of anything else, inside its vocabulary", () => {
    expect(plain.tokenize("世")).toEqual([1_000_228, 1_000_184, 1_000_150]);
    expect(plain.tokenize("t01 t1x")).toHaveLength(7);
    fc.assert(
      fc.property(text, (text) => {
        expect(plain.tokenize(text).every((id) => id >= 0 && id < VOCABULARY)).toBe(true);
      }),
    );
  });

  it("merges neighbouring words under drift, always to the same id (trl 5224)", () => {
    const [merged, ...rest] = drifting.tokenize("t6 t7");
    expect(rest).toEqual([]);
    expect([6, 7]).not.toContain(merged);
    expect(drifting.detokenize([merged as number])).toBe("t6 t7");
    expect(drifting.tokenize("t6 t7 t9")).toEqual([merged, 9]);
    expect(drifting.detokenize([6, 7])).toBe("t6 t7");
  });

  it("has no text for ids outside the vocabulary", () => {
    expect(plain.detokenize([5, VOCABULARY])).toBeNull();
    expect(plain.detokenize([1_000_256])).toBeNull();
    expect(plain.detokenize([2_000_000])).toBeNull();
  });

  it("tells a character with the last of its ids, and the same text piece by piece as at once", () => {
    const reader = new PieceReader(plain);
    expect(plain.tokenize("世😀").map((id) => reader.next(id))).toEqual(["", "", "世", "", "", "", "😀"]);
    fc.assert(
      fc.property(text, (text) => {
        const pieces = new PieceReader(plain);
        const joined = plain.tokenize(text).map((id) => pieces.next(id));
        expect(joined.join("")).toBe(text);
      }),
    );
  });
});
