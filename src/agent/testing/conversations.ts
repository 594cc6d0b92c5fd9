// Conversations over scripted gateways, for the tests of this room.
import OpenAI from "openai";
import { afterEach } from "vitest";
import type { AgentError } from "../agent-error.ts";
import type { ChatMessage } from "../chat-client.ts";
import type { ConversationOptions } from "../conversation-options.ts";
import { Conversation } from "../conversation.ts";
import { rolloutBaseUrl } from "../rollout-api.ts";
import { scriptedGateway, type Received, type ScriptedGateway } from "./scripted-gateway.ts";

const opened: ScriptedGateway[] = [];

export async function gateway(...script: Parameters<typeof scriptedGateway>): Promise<ScriptedGateway> {
  const one = await scriptedGateway(...script);
  opened.push(one);
  return one;
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((one) => one.close()));
});

export function openAi(url: string, rolloutId = "r0"): OpenAI {
  return new OpenAI({ baseURL: rolloutBaseUrl(url, rolloutId), apiKey: "key-1", maxRetries: 0 });
}

export function conversation(url: string, options: Partial<ConversationOptions> = {}): Conversation {
  return new Conversation({
    client: openAi(url),
    rolloutId: "r0",
    model: "model",
    system: "sys",
    task: "task",
    ...options,
  });
}

export async function codeOf(act: () => unknown): Promise<string> {
  try {
    await act();
  } catch (error) {
    return (error as AgentError).code;
  }
  return "nothing was thrown";
}

export const contents = (messages: unknown): unknown[] =>
  (messages as readonly ChatMessage[]).map(({ content }) => content);

export const user = (content: string): ChatMessage => ({ role: "user", content });

export function messagesOf(call: Received | undefined): readonly ChatMessage[] {
  return (call?.body["messages"] ?? []) as readonly ChatMessage[];
}
