import { describe, expect, it } from "vitest";
import { renderChat, type ChatPrompt, type TemplateOptions } from "./template.ts";
import { createTokenizer, specialId } from "./tokenizer.ts";

const tokenizer = createTokenizer({ drift: false });
const user = specialId("<|user|>");
const assistant = specialId("<|assistant|>");
const end = specialId("<|im_end|>");

function render(
  messages: readonly Record<string, unknown>[],
  options: Partial<TemplateOptions & ChatPrompt> = {},
): number[] {
  const { template = "bare", dropReasoning = false, ...prompt } = options;
  return renderChat(
    { messages, tools: [], continueFinalMessage: false, addGenerationPrompt: true, ...prompt },
    tokenizer,
    { template, dropReasoning },
  );
}

const ask = { role: "user", content: "t10 t11" };

describe("the stand-in's templates", () => {
  it("is the contents and nothing else when bare", () => {
    const messages = [{ role: "system", content: "" }, ask, { role: "assistant", content: "t1001" }];
    expect(render([...messages, { role: "tool", tool_call_id: "a", content: "t20 t21" }])).toEqual([
      10, 11, 1001, 20, 21,
    ]);
  });

  it("marks roles and the ends of turns in chatml, and opens the assistant's turn", () => {
    expect(render([ask], { template: "chatml" })).toEqual([user, 10, 11, end, assistant]);
    expect(render([ask], { template: "chatml", addGenerationPrompt: false })).toEqual([user, 10, 11, end]);
    const half = { role: "assistant", content: "t5" };
    const open = { template: "chatml", continueFinalMessage: true, addGenerationPrompt: false } as const;
    expect(render([ask, half], open)).toEqual([user, 10, 11, end, assistant, 5]);
  });

  it("has the reasoning of earlier turns under either name, or drops it (verl 6854, qwen-code 4285)", () => {
    const think = [specialId("<think>"), 7, specialId("</think>"), 9];
    for (const name of ["reasoning", "reasoning_content"]) {
      const messages = [ask, { role: "assistant", content: "t9", [name]: "t7" }];
      expect(render(messages)).toEqual([10, 11, ...think]);
      expect(render(messages, { dropReasoning: true })).toEqual([10, 11, 9]);
    }
  });

  it("reads text parts as one text, and an image as a run of ids that does not tell which image", () => {
    const image = (url: string): Record<string, unknown> => ({ type: "image_url", image_url: { url } });
    const content = (url: string): Record<string, unknown> => ({
      role: "user",
      content: [{ type: "text", text: "t1" }, image(url), { type: "text", text: "t2" }],
    });
    const ids = render([content("data:a")]);
    expect(ids).toHaveLength(6);
    expect(render([content("data:b")])).toEqual(ids);
  });

  it("takes prompts of any length", () => {
    const long = "x".repeat(300_000);
    expect(render([{ role: "user", content: long }])).toHaveLength(300_000);
  });

  it("has the tools in a chatml prompt, so that other tools are another prompt", () => {
    const without = render([ask], { template: "chatml" });
    const withTools = render([ask], { template: "chatml", tools: [{ type: "function" }] });
    expect(withTools.slice(-without.length)).toEqual(without);
    expect(withTools.length).toBeGreaterThan(without.length);
  });
});
