// The worked example as user code: seven actions, the first answers of the fourth and the sixth thrown away, the context
// rewritten every two actions. In a project of your own the first import is from "coppice/agent".
import OpenAI from "openai";
import { Conversation, everyActions, rolloutBaseUrl } from "../src/agent/index.ts";

export async function workedExample(gatewayUrl: string, rolloutId: string): Promise<Conversation> {
  const conversation = new Conversation({
    client: new OpenAI({ baseURL: rolloutBaseUrl(gatewayUrl, rolloutId), apiKey: "none" }),
    rolloutId,
    model: "policy",
    task: "t10 t11",
    request: { user: rolloutId, seed: 0 },
    policy: everyActions(2),
  });
  const observations = [undefined, "t20 t21", "t30 t31", "t40 t41", "t60 t61", "t70 t71", "t90 t91"];
  for (const [action, observation] of observations.entries()) {
    let answer = await conversation.ask(observation);
    if (action === 3 || action === 5) {
      conversation.reject(answer, "no good");
      answer = await conversation.ask(action === 3 ? "t50 t51" : "t80 t81");
    }
    conversation.accept(answer);
  }
  await conversation.finish({ reward: 1, groupId: "group", generationIndex: 0 });
  return conversation;
}
