import { expect, test } from "vitest";
import { NO_MESSAGES } from "../lineage/message.ts";
import { contextDigest } from "./template-context.ts";

const TOOLS = [{ type: "function", function: { name: "bash", parameters: { type: "object" } } }];

test("a request without tools and template options has no digest of them", () => {
  for (const body of [{}, { tools: [] }, { tools: null, temperature: 1, model: "m", tool_choice: "none" }]) {
    expect(contextDigest(body)).toBe(NO_MESSAGES);
  }
});

test("what a template renders makes a difference, how it is written and what it does not render do not", () => {
  const digest = contextDigest({ tools: TOOLS });
  expect(digest).toMatch(/^[0-9a-f]{32}$/);
  const rewritten = [
    { function: { parameters: { type: "object" }, name: "bash", description: null }, type: "function" },
  ];
  expect(contextDigest({ tools: rewritten, tool_choice: "auto", temperature: 0.5, model: "other" })).toBe(
    digest,
  );
  const others = [
    { tools: [...TOOLS, ...TOOLS] },
    { tools: TOOLS, tool_choice: "none" },
    { tools: TOOLS, chat_template_kwargs: { enable_thinking: false } },
    { chat_template_kwargs: { enable_thinking: false } },
    { reasoning_effort: "low" },
  ].map(contextDigest);
  expect(new Set([digest, ...others]).size).toBe(6);
});
