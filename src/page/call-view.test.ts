import { expect, test } from "vitest";
import { readTrace } from "../export/trace.ts";
import { rolloutId } from "../lineage/call.ts";
import { compareMessages } from "./call-view.ts";
import { PageModel } from "./page-model.ts";
import { traceSource } from "./page-source.ts";
import { SampleTokenizer } from "./testing/sample-tokenizer.ts";
import { sampleTrace } from "./testing/sample-trace.ts";

const tokenizer = new SampleTokenizer();
const source = traceSource(readTrace(sampleTrace(tokenizer, 1_000_000)));
const model = new PageModel(source, () => undefined);

test("a drifted root shows both token runs from a few tokens before they part", async () => {
  const call = await model.call("port-parser-0", "port-parser-0-2");
  expect(call.root).toBe("drift");
  expect(call.root_follows).toBe("port-parser-0-1");
  const parting = call.parting!;
  const [recorded, sent] = await Promise.all(
    [parting.recorded, parting.sent].map((ids) => tokenizer.detokenize(Uint32Array.from(ids))),
  );
  expect(recorded).toMatch(/^<think>The parser reads/);
  expect(sent).toMatch(/^I read the tests/);
  const shared = await tokenizer.detokenize(Uint32Array.from(parting.shared));
  expect(shared).toMatch(/<\|assistant\|>$/);
});

test("a rewritten root shows what its request kept, dropped and added, in order", async () => {
  const call = await model.call("fix-dates-0", "fix-dates-0-8");
  expect(call.root).toBe("rewrite");
  const fates = call.rewrite!.entries.map(({ fate }) => fate);
  expect(fates.filter((fate) => fate === "kept")).toHaveLength(2);
  expect(fates.filter((fate) => fate === "added")).toHaveLength(1);
  expect(fates.filter((fate) => fate === "dropped").length).toBeGreaterThan(3);
});

test("siblings and twins of a call are named, and its children", async () => {
  const call = await model.call("fix-dates-0", "fix-dates-0-11");
  expect(call.twins).toEqual(["fix-dates-0-10"]);
  expect(call.siblings).toEqual(["fix-dates-0-9", "fix-dates-0-10"]);
  const parent = await model.call("fix-dates-0", "fix-dates-0-8");
  expect(parent.children).toEqual(["fix-dates-0-9", "fix-dates-0-10", "fix-dates-0-11"]);
});

test("the first root and a call with a parent are compared with nothing", async () => {
  for (const id of ["fix-dates-0-1", "fix-dates-0-3"]) {
    const call = await model.call("fix-dates-0", id);
    expect([call.parting, call.rewrite]).toEqual([null, null]);
  }
});

test("a call of another rollout is not found under this one", async () => {
  await expect(model.call("fix-dates-0", "fix-dates-1-1")).rejects.toMatchObject({ code: "not_found" });
  expect(await source.rollout(rolloutId("nobody"))).toBeNull();
});

test("messages are compared by meaning: a re-serialised one is kept", () => {
  const before = [
    { role: "system", content: "s" },
    { role: "user", content: "one" },
    { role: "assistant", content: "two" },
  ];
  const after = [
    { role: "system", content: [{ type: "text", text: "s" }] },
    { role: "user", content: "summary" },
    { role: "assistant", content: "two" },
  ];
  expect(compareMessages(before, after).map(({ fate, message }) => [fate, message["role"]])).toEqual([
    ["kept", "system"],
    ["added", "user"],
    ["dropped", "user"],
    ["kept", "assistant"],
  ]);
});
