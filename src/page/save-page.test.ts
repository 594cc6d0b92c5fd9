import { expect, test } from "vitest";
import { readTrace } from "../export/trace.ts";
import { traceSource } from "./page-source.ts";
import { jsonText, savedView } from "./save-page.ts";
import { SampleTokenizer } from "./testing/sample-tokenizer.ts";
import { HOSTILE, hostileTrace, sampleTrace } from "./testing/sample-trace.ts";
import { TokenTexts } from "./token-texts.ts";

const tokenizer = new SampleTokenizer();
const source = traceSource(
  readTrace([...sampleTrace(tokenizer, 1_000_000), ...hostileTrace(tokenizer, 1_000_100)]),
);
const options = { source, texts: new TokenTexts(tokenizer), savedAt: 1, product: "coppice 0.0.0" };

test("a saved rollout has every call, every row's tokens and every token's text", async () => {
  const saved = await savedView("fix-dates-0", options);
  expect(saved.calls.map(({ call_id: id }) => id)).toEqual(saved.rollout.calls.call_id);
  expect(saved.rows).toHaveLength(3);
  const ids = saved.rows.flatMap(({ ids: own }) => own);
  expect(ids.every((id) => typeof saved.texts[id] === "string")).toBe(true);
});

test("saved content holds nothing that HTML could read, and comes back as it was", async () => {
  const saved = await savedView("hostile-0", options);
  const text = jsonText(saved);
  expect(text).not.toMatch(/[<>&\u2028\u2029]/);
  expect(text).not.toContain(HOSTILE);
  expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(saved)));
});
