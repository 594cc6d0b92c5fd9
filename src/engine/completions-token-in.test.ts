// Rendering in the gateway for engines that cannot: a tiny tokenizer folder, and the stand-in behind text completions.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { loadRendering, type LocalRendering } from "./local-rendering.ts";
import { PromptMaker } from "./prompt.ts";
import { checkTokenIn } from "./self-check.ts";
import { createTokenizer } from "./stand-in/tokenizer.ts";
import { joinIds } from "./splice.ts";
import { ask, refusal, start } from "./testing/asking.ts";
import { tokenInReply } from "./token-in-reply.ts";
import type { TokenIn } from "./token-in.ts";

const TEMPLATE =
  "{% for message in messages %}{{ '<|' + message.role + '|>' + message.content + eos_token }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";

/** Bytes and two merges, as byte-level tokenizers have them. */
function tokenizerFolder(config: object = { chat_template: TEMPLATE, eos_token: "</s>" }): string {
  const folder = mkdtempSync(join(tmpdir(), "tokenizer-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const letters = "abcdefghijklmnopqrstuvwxyz|<>/Ġ".split("");
  const vocab = Object.fromEntries([...letters, "he", "hel"].map((token, id) => [token, id]));
  const tokenizer = {
    version: "1.0",
    added_tokens: [
      {
        id: 100,
        content: "</s>",
        special: true,
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
      },
    ],
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: null,
    decoder: { type: "ByteLevel" },
    model: { type: "BPE", vocab, merges: ["h e", "he l"], unk_token: null, byte_fallback: false },
  };
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify(config));
  return folder;
}

/** Renders as the stand-in tokenises. */
function standInRendering(): LocalRendering {
  const tokenizer = createTokenizer({ drift: true });
  return {
    name: "a test's",
    tokenize: (text) => Uint32Array.from(tokenizer.tokenize(text)),
    render: (messages, _body, ending) =>
      messages.map(({ role, content }) => `<|${String(role)}|>${String(content)}<|im_end|>`).join("") +
      (ending === "as asked" ? "<|assistant|>" : ""),
  };
}

test("a folder as models are published in renders with its template and tokenizes with its tokenizer", async () => {
  const rendering = await loadRendering(tokenizerFolder());
  const messages = [{ role: "user", content: "hello" }];
  expect(rendering.render(messages, {}, "as asked")).toBe("<|user|>hello</s><|assistant|>");
  expect(rendering.render(messages, {}, "none")).toBe("<|user|>hello</s>");
  const open = [...messages, { role: "assistant", content: "he" }];
  expect(rendering.render(open, { continue_final_message: true }, "as asked")).toBe(
    "<|user|>hello</s><|assistant|>he",
  );
  expect([...rendering.tokenize("hello</s>")]).toEqual([32, 11, 14, 100]);
});

test("a folder that lacks something is refused with what it lacks", async () => {
  expect(await refusal(loadRendering(join(tmpdir(), "no-such-folder")))).toMatchObject({
    code: "invalid_request",
    param: "tokenizer",
    message: expect.stringContaining("tokenizer_config.json") as string,
  });
  expect(await refusal(loadRendering(tokenizerFolder({})))).toMatchObject({
    message: expect.stringContaining("chat_template.jinja") as string,
  });
});

test("a conversation is asked from ids through text completions, and its prompts go on from what was recorded", async () => {
  const { engine, standIn } = await start(
    { drift: true, template: "chatml", scaleOut: false },
    { rendering: standInRendering() },
  );
  const tokenIn = engine.tokenIn as TokenIn;
  const signal = AbortSignal.timeout(10_000);
  await checkTokenIn(tokenIn, "stand-in", signal);
  const messages: Record<string, unknown>[] = [{ role: "user", content: "t1 t2" }];
  const body = { model: "stand-in", max_tokens: 9, min_tokens: 4 };
  const maker = new PromptMaker(tokenIn);
  let parent = null;
  for (const next of ["t3 t4", "t5 t6"]) {
    const prompt = await maker.make({ body, messages, contextDigest: "", parent, signal });
    if (prompt.kind === "no_join") throw new Error(prompt.why);
    if (parent !== null)
      expect([...prompt.ids.subarray(0, parent.sequence.length)]).toEqual([...parent.sequence]);
    const { ids, rendering } = prompt;
    const generated = await tokenIn.generate({ body, ids, rendering, stream: false, signal });
    const parsed = await tokenIn.parse({ body, ids, generated, signal });
    const [choice] = tokenInReply({ body, ids, generated, parsed }).choices;
    expect(choice?.untrainable).toBeNull();
    const tokens = choice?.tokenIds ?? new Uint32Array();
    parent = {
      answerIndex: messages.length,
      sequence: joinIds(ids, tokens),
      generatedLength: tokens.length,
      cutOff: choice?.finishReason === "length",
    };
    messages.push({ ...choice?.message }, { role: "user", content: next });
  }
  expect(standIn.requests.filter(({ path }) => /render|generate/.test(path))).toEqual([]);
});

test("a tokenizer that differs from the engine's is not used", async () => {
  const wrong = {
    ...standInRendering(),
    tokenize: (text: string) => Uint32Array.from([7, ...Buffer.from(text)]),
  };
  const { engine } = await start({}, { rendering: wrong });
  const checked = checkTokenIn(engine.tokenIn as TokenIn, "stand-in", AbortSignal.timeout(10_000));
  expect((await refusal(checked)).message).toBe(
    "the tokenizer in a test's gives other ids than the engine's from token 0 on",
  );
  // The text way is not touched by it.
  expect((await ask(engine)).reply.ending).toBe("complete");
});
