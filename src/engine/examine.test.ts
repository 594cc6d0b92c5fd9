// What `coppice doctor` finds out about each kind of engine.
import { expect, test } from "vitest";
import { asJson, report } from "../cli/doctor.ts";
import { connectEngine, findEngine } from "./connect.ts";
import { examineEngine } from "./examine.ts";
import { closeAfter, freePort, listen, start } from "./testing/asking.ts";

/** A server that answers these paths and nothing else. */
function serving(answers: Readonly<Record<string, unknown>>): Promise<string> {
  return listen((request, response) => {
    const answer = answers[request.url ?? ""];
    response.writeHead(answer === undefined ? 404 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify(answer ?? { detail: "Not Found" }));
    request.resume();
  });
}

const MODELS = { "/v1/models": { object: "list", data: [{ id: "m", max_model_len: 128 }] } };

test.each([
  ["vllm", { "/version": { version: "0.32.0" } }, "0.32.0"],
  ["llama.cpp", { "/props": { default_generation_settings: {}, build_info: "b1-abc" } }, "b1-abc"],
  ["sglang", { "/model_info": { tokenizer_path: "t" }, "/server_info": { version: "0.5.23" } }, "0.5.23"],
  ["openai", {}, null],
] as const)("an engine is known as %s by what it answers", async (kind, answers, version) => {
  const url = await serving({ ...MODELS, ...answers });
  expect(await findEngine({ url })).toEqual({ kind, version });
  const engine = await connectEngine({ url });
  closeAfter(() => engine.close());
  expect(engine.kind).toBe(kind);
  expect((await engine.models()).map(({ id }) => id)).toEqual(["m"]);
});

test("an engine that can all needs no flag", async () => {
  const { standIn } = await start();
  const found = await examineEngine({ url: standIn.url });
  expect(found).toMatchObject({ kind: "stand-in", way: "token-in", startWith: null });
  expect(found.abilities.filter(({ able }) => !able)).toEqual([]);
  expect(asJson(found)).toMatchObject({
    engine: "stand-in",
    version: "0.32.0+stand-in",
    way: "token-in",
    abilities: { token_in: { able: true }, weight_versions: { able: true } },
  });
});

test("a vLLM without --enable-scale-out is asked with messages, and the flag is named", async () => {
  const { standIn } = await start({ scaleOut: false });
  const found = await examineEngine({ url: standIn.url, kind: "vllm" });
  expect(found).toMatchObject({ way: "text", startWith: "vllm serve MODEL --enable-scale-out" });
  const text = report(found);
  expect(text).toMatch(/^cannot {6}token-in: .*--enable-scale-out/m);
  expect(text).toMatch(/^can {9}text: /m);
  expect(text).toMatch(/^start with {2}vllm serve MODEL --enable-scale-out$/m);
});

test("a server that tells no ids trains nothing, and the report says so", async () => {
  const url = await serving({ ...MODELS });
  const found = await examineEngine({ url });
  expect(found).toMatchObject({ kind: "openai", way: null });
  expect(report(found)).toContain("no answer of this engine could train");
});

test("where nobody answers there is nothing to be known", async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const found = await examineEngine({ url });
  expect(found).toMatchObject({ kind: null, way: null });
  expect(report(found)).toBe(`${url}: nothing answers there; is the engine running?\n`);
});
