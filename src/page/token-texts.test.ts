import { expect, test } from "vitest";
import { Recent } from "./recent.ts";
import { MOST_TEXTS, TokenTexts } from "./token-texts.ts";

test("each id is asked of the engine once, however often it is wanted", async () => {
  const asked: number[] = [];
  const texts = new TokenTexts({
    detokenize: async (ids) => {
      asked.push(...ids);
      return `<${ids[0]}>`;
    },
  });
  expect(await texts.texts([7, 8, 7])).toEqual({ 7: "<7>", 8: "<8>" });
  expect(await texts.texts([8, 9])).toEqual({ 8: "<8>", 9: "<9>" });
  expect(new Set(asked)).toEqual(new Set([7, 8, 9]));
  expect(asked).toHaveLength(3);
});

test("an id that the engine cannot tell is null and is asked for again", async () => {
  let times = 0;
  const texts = new TokenTexts({ detokenize: async () => (++times === 1 ? null : "late") });
  expect(await texts.texts([5])).toEqual({ 5: null });
  expect(await texts.texts([5])).toEqual({ 5: "late" });
});

test("without an engine every token has its id alone, and a request for too many is cut", async () => {
  const ids = Array.from({ length: MOST_TEXTS + 10 }, (_none, index) => index);
  expect(Object.keys(await new TokenTexts(null).texts(ids))).toHaveLength(MOST_TEXTS);
});

test("what has not been asked for the longest is forgotten first, and the newest stays whatever its size", () => {
  const recent = new Recent<number>(10, (size) => size);
  recent.set("a", 4);
  recent.set("b", 4);
  recent.get("a");
  recent.set("c", 4);
  expect([recent.get("a"), recent.get("b"), recent.get("c")]).toEqual([4, undefined, 4]);
  recent.set("d", 100);
  expect([recent.get("a"), recent.get("c"), recent.get("d")]).toEqual([undefined, undefined, 100]);
});
