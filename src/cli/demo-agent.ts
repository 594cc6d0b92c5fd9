// The demo's agent: seven actions through `coppice/agent` and the official client, over HTTP like any other agent. It
// throws away the first answers of two actions and asks again, with or without compaction every two actions.
import OpenAI from "openai";
import { Conversation, everyActions, none, openRollout, rolloutBaseUrl } from "../agent/index.ts";
import { ACTIONS, isRejected, type DemoTask } from "./demo-task.ts";

export type DemoMode = "off" | "on";

export interface DemoGroup {
  readonly gatewayUrl: string;
  readonly model: string;
  readonly mode: DemoMode;
  readonly signal: AbortSignal;
}

export const GROUP_ID = "group";

/** The whole rollout `r0`: with compaction off it names its final response, with compaction on all that it accepted. */
export async function playWholeRollout(group: DemoGroup, task: DemoTask): Promise<void> {
  const chat = await converse(group, { rolloutId: "r0", generationIndex: 0, task });
  let call = 0;
  for (let action = 1; action <= ACTIONS; action++) {
    for (let attempt = 1; ; attempt++) {
      call += 1;
      const answer = await chat.ask(task.observe(action, call) ?? undefined, { signal: group.signal });
      if (isRejected(action, attempt)) {
        chat.reject(answer);
        continue;
      }
      chat.accept(answer);
      task.act(action, answer.text);
      break;
    }
  }
  await chat.finish({ reward: task.reward(), form: group.mode === "off" ? "final" : "accepted" });
}

/** The other rollout of the group, `r1`: one call, then it gives up, with reward 0. */
export async function playShortRollout(group: DemoGroup, task: DemoTask): Promise<void> {
  const chat = await converse(group, { rolloutId: "r1", generationIndex: 1, task });
  chat.accept(await chat.ask(undefined, { signal: group.signal }));
  await chat.finish({ reward: 0, form: "final" });
}

interface Place {
  readonly rolloutId: string;
  readonly generationIndex: number;
  readonly task: DemoTask;
}

async function converse(
  { gatewayUrl, model, mode, signal }: DemoGroup,
  { rolloutId, generationIndex, task }: Place,
): Promise<Conversation> {
  await openRollout(rolloutId, { groupId: GROUP_ID, groupSize: 2, generationIndex }, { gatewayUrl, signal });
  return new Conversation({
    client: new OpenAI({ baseURL: rolloutBaseUrl(gatewayUrl, rolloutId), apiKey: "none-needed" }),
    rolloutId,
    model,
    ...(task.system === null ? {} : { system: task.system }),
    task: task.task,
    request: task.request,
    policy: mode === "off" ? none() : everyActions(2, task.compaction),
  });
}
