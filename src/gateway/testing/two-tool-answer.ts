// One answer with everything in it, as the engine is made to give it and as a user of any client should read it.
import OpenAI from "openai";
import type { StandInOptions } from "../../engine/stand-in.ts";
import type { ScriptedAnswer } from "../../engine/stand-in/answer.ts";
import { startUnderTest, type UnderTest, type UnderTestOptions } from "./gateway-under-test.ts";

/** What a person reads of an answer, whichever API it came by. */
export interface ReadAnswer {
  readonly reasoning: string;
  readonly text: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly input: unknown }[];
  readonly tokens: { readonly input: number; readonly output: number };
}

export const SCRIPTED: ScriptedAnswer = {
  reasoning: "let me think",
  content: "I look 世界",
  toolCalls: [
    { id: "call-a", name: "read", arguments: '{"path":  "a.txt", "n": 1.0}' },
    { id: "call-b", name: "list", arguments: "{}" },
  ],
};

const PLAIN: ScriptedAnswer = { content: "all done" };

/** Every call of these tests asks for so many tokens at most, which the engine's self-check does not. */
export const MAX_TOKENS = 200;

/** The first answer calls two tools; once it sees results, the model says that it is done. */
function twoTools(): StandInOptions {
  let generated = 0;
  return {
    template: "chatml",
    script: ({ path, body }) => {
      if (path !== "/inference/v1/generate") {
        const isDone = JSON.stringify(body).includes('"role":"tool"');
        return { kind: "answer", answer: isDone ? PLAIN : SCRIPTED };
      }
      // Asked with ids it sees no messages: then the first answer is the one with the tools.
      if (!JSON.stringify(body).includes(`"max_tokens":${MAX_TOKENS}`)) return [];
      generated += 1;
      return { kind: "answer", answer: generated === 1 ? SCRIPTED : PLAIN };
    },
  };
}

export function startTwoTools(options: UnderTestOptions = {}): Promise<UnderTest> {
  return startUnderTest({
    gateway: { way: "text" },
    ...options,
    standIn: { ...twoTools(), ...options.standIn },
  });
}

/** The same answer as the engine's own API gives it. */
export async function straightFromEngine(under: UnderTest): Promise<ReadAnswer> {
  const direct = new OpenAI({ apiKey: "EMPTY", baseURL: `${under.standIn.url}/v1`, maxRetries: 0 });
  const completion = await direct.chat.completions.create({
    model: "m",
    messages: [{ role: "user", content: "go" }],
    max_tokens: MAX_TOKENS,
  });
  const message = completion.choices[0]?.message as OpenAI.Chat.ChatCompletionMessage & {
    reasoning?: string;
  };
  return {
    reasoning: message.reasoning ?? "",
    text: message.content ?? "",
    calls: (message.tool_calls ?? []).flatMap((call) =>
      call.type === "function"
        ? [{ id: call.id, name: call.function.name, input: JSON.parse(call.function.arguments) as unknown }]
        : [],
    ),
    tokens: {
      input: completion.usage?.prompt_tokens ?? 0,
      output: completion.usage?.completion_tokens ?? 0,
    },
  };
}
