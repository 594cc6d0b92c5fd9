import { describe, expect, test } from "vitest";
import type { ChatMessage } from "./chat-client.ts";
import type { ConversationOptions } from "./conversation-options.ts";
import { everyActions } from "./policy.ts";
import { contents, conversation, gateway, messagesOf } from "./testing/conversations.ts";
import { completion, type ScriptedGateway } from "./testing/scripted-gateway.ts";

async function play(options: Partial<ConversationOptions>): Promise<ScriptedGateway> {
  const one = await gateway();
  const chat = conversation(one.url, options);
  // The worked example: the first answers of actions 4 and 6 are rejected.
  for (const [action, observations] of [
    ["o1"],
    ["o2"],
    ["o3"],
    ["x4", "o5"],
    ["o6"],
    ["x7", "o8"],
    ["o9"],
  ].entries()) {
    for (const observation of observations.slice(0, -1)) chat.reject(await chat.ask(observation));
    chat.accept(await chat.ask(action === 0 ? undefined : observations.at(-1)));
  }
  await chat.finish({ reward: 1, groupId: "group", generationIndex: 0 });
  return one;
}

describe("compaction", () => {
  test("every two actions the view is cut back to system and task, and history keeps all", async () => {
    const { calls, received } = await play({ policy: everyActions(2) });
    expect(calls().map((call) => contents(messagesOf(call)).slice(2))).toEqual([
      [],
      ["a1", "o2"],
      [],
      ["a3", "x4"],
      ["a3", "o5"],
      [],
      ["a6", "x7"],
      ["a6", "o8"],
      [],
    ]);
    expect(calls().map(({ headers }) => headers["x-coppice-parent"])).toEqual([
      undefined,
      "resp-1",
      undefined,
      "resp-3",
      "resp-3",
      undefined,
      "resp-6",
      "resp-6",
      undefined,
    ]);
    expect(received.at(-1)).toMatchObject({
      method: "POST",
      path: "/rollouts/r0/outcome",
      body: {
        reward: 1,
        group_id: "group",
        generation_index: 0,
        accepted: [1, 2, 3, 5, 6, 8, 9].map((number) => `resp-${number}`),
      },
    });
  });

  test("without a policy every call goes on from the one before", async () => {
    const { calls } = await play({});
    expect(contents(messagesOf(calls()[8])).slice(2)).toEqual([
      "a1",
      "o2",
      "a2",
      "o3",
      "a3",
      "o5",
      "a5",
      "o6",
      "a6",
      "o8",
      "a8",
      "o9",
    ]);
  });

  test("a cut view may keep the newest observation and tell a summary of all before it", async () => {
    const seen: unknown[][] = [];
    const summary = (history: readonly ChatMessage[]): string => {
      seen.push(contents(history));
      return `${history.length} messages`;
    };
    const { calls } = await play({ policy: everyActions(2, { keep: "observation", summary }) });
    expect(contents(messagesOf(calls()[2]))).toEqual(["sys", "task", "5 messages", "o3"]);
    expect(contents(messagesOf(calls()[4]))).toEqual(["sys", "task", "5 messages", "o3", "a3", "o5"]);
    expect(seen[0]).toEqual(["sys", "task", "a1", "o2", "a2"]);
    expect(seen).toHaveLength(3);
  });

  test.each<[string, (history: readonly ChatMessage[]) => void]>([
    ["a message", (history) => ((history[1] as { content: string }).content = "edited")],
    ["the history", (history) => (history as ChatMessage[]).pop()],
  ])("a policy cannot change %s that it is given", async (_title, edit) => {
    const { url, calls } = await gateway();
    const chat = conversation(url, {
      policy: ({ history }) => {
        edit(history);
        return history;
      },
    });
    await expect(chat.ask()).rejects.toBeInstanceOf(TypeError);
    expect(calls()).toHaveLength(0);
    expect(contents(chat.history)).toEqual(["sys", "task"]);
  });

  test.each<[string, (history: readonly ChatMessage[]) => readonly ChatMessage[], RegExp]>([
    ["is empty", () => [], /at least one message/],
    ["drops the system message", (history) => history.slice(1), /system message/],
    [
      "puts words into the model's mouth",
      (history) => [...history, { role: "assistant", content: "mine" }],
      /message 3 \(assistant\) is not in the history/,
    ],
    [
      "has a tool's result without its call",
      (history) => [...history, { role: "tool", tool_call_id: "t1", content: "7" }],
      /message 3 \(tool\) is not in the history/,
    ],
  ])("a view that %s is refused before the engine is asked", async (_title, choose, why) => {
    const { url, calls } = await gateway();
    const chat = conversation(url, { policy: ({ history }) => choose(history) });
    await expect(chat.ask("o")).rejects.toThrow(why);
    expect(calls()).toHaveLength(0);
  });

  test("an observation that is a tool's result cannot be kept when its call is cut away", async () => {
    const toolCalls = [{ id: "t1", type: "function", function: { name: "f", arguments: "{}" } }];
    const { url } = await gateway((_received, number) => ({
      json: completion(number, { tool_calls: toolCalls }),
    }));
    const chat = conversation(url, { policy: everyActions(1, { keep: "observation" }) });
    chat.accept(await chat.ask());
    await expect(chat.ask({ role: "tool", tool_call_id: "t1", content: "7" })).rejects.toThrow(
      /message 2 is the result of t1, whose call is not before it/,
    );
  });

  test("a policy may take its time and may go back to an earlier answer, which is then the named parent", async () => {
    const { url, calls } = await gateway();
    const chat = conversation(url, {
      policy: async ({ history, accepted, observation }) => {
        await Promise.resolve();
        return accepted.length < 2 ? history : [...history.slice(0, 3), ...observation];
      },
    });
    chat.accept(await chat.ask());
    chat.accept(await chat.ask("o2"));
    await chat.ask("o3");
    expect(contents(messagesOf(calls()[2]))).toEqual(["sys", "task", "a1", "o3"]);
    expect(calls()[2]?.headers["x-coppice-parent"]).toBe("resp-1");
  });

  test("with three actions to a view, seven actions give three views that start anew", async () => {
    const { calls } = await play({ policy: everyActions(3) });
    const lengths = calls().map((call) => messagesOf(call).length - 2);
    expect(lengths).toEqual([0, 2, 4, 0, 0, 2, 4, 4, 0]);
  });

  test("everyActions takes whole numbers from 1 up", () => {
    expect(() => everyActions(0)).toThrow(/everyActions got 0; it must be a whole number from 1 up/);
    expect(() => everyActions(1.5)).toThrow(/1\.5/);
  });
});
