import { describe, expect, test } from "vitest";
import { startUnderTest } from "../gateway/testing/gateway-under-test.ts";
import type { ChatMessage } from "./chat-client.ts";
import { compose } from "./compose.ts";
import type { Conversation } from "./conversation.ts";
import type { Policy } from "./policy.ts";
import { recency } from "./recency.ts";
import { afterActions, anyOf, onDemand, overTokens, scheduled, whenFull } from "./schedule.ts";
import { summarise } from "./summarise.ts";
import { codeOf, contents, conversation, gateway, messagesOf } from "./testing/conversations.ts";
import { completion, type Received } from "./testing/scripted-gateway.ts";
import { tokenBudget } from "./token-budget.ts";

async function act(chat: Conversation, actions: number, long = ""): Promise<void> {
  for (let action = 1; action <= actions; action++) {
    chat.accept(
      await chat.ask(chat.accepted.length === 0 ? undefined : `o${chat.accepted.length + 1}${long}`),
    );
  }
}

const viewOf = (call: Received | undefined): unknown[] => contents(messagesOf(call));

describe("recency", () => {
  test("keeps the first k and the last n actions with what was seen after them", async () => {
    const { url, calls } = await gateway();
    await act(conversation(url, { policy: recency({ first: 1, last: 2 }) }), 6);
    expect(viewOf(calls()[3])).toEqual(["sys", "task", "a1", "o2", "a2", "o3", "a3", "o4"]);
    expect(viewOf(calls()[4])).toEqual(["sys", "task", "a1", "o2", "a3", "o4", "a4", "o5"]);
    expect(viewOf(calls()[5])).toEqual(["sys", "task", "a1", "o2", "a4", "o5", "a5", "o6"]);
  });

  test("parallel tool calls keep their results, however few actions are kept", async () => {
    const toolCalls = (number: number): object[] =>
      ["x", "y"].map((name) => ({
        id: `${name}${number}`,
        type: "function",
        function: { name, arguments: "{}" },
      }));
    const { url, calls } = await gateway((_received, number) => ({
      json: completion(number, { tool_calls: toolCalls(number) }),
    }));
    const chat = conversation(url, { policy: recency(1) });
    let answer = await chat.ask();
    for (let action = 0; action < 3; action++) {
      chat.accept(answer);
      const results = answer.toolCalls.map(({ id }) => ({
        role: "tool",
        tool_call_id: id,
        content: `r${id}`,
      }));
      answer = await chat.ask(results);
    }
    expect(viewOf(calls()[3])).toEqual(["sys", "task", "a3", "rx3", "ry3"]);
  });

  test("only the newest images stay, and a note stands for the others, in tool results too", async () => {
    const image = (url: string): object => ({ type: "image_url", image_url: { url } });
    const seen = (url: string): ChatMessage => ({ role: "user", content: [image(url)] });
    const { url, calls } = await gateway();
    const chat = conversation(url, { policy: recency({ last: 9, images: 1 }) });
    chat.accept(await chat.ask(seen("one")));
    chat.accept(await chat.ask(seen("two")));
    await chat.ask("o3");
    const note = { type: "text", text: "[image left out]" };
    expect(viewOf(calls()[2]).slice(2)).toEqual([[note], "a1", [image("two")], "a2", "o3"]);
    expect(contents(chat.history)[2]).toEqual([image("one")]);
  });

  test("numbers that make no sense are refused by name", async () => {
    expect(await codeOf(() => recency(0))).toBe("invalid_argument");
    expect(() => recency({ last: 1, first: -1 })).toThrow(/recency.first got -1; .* from 0 up/);
    expect(() => tokenBudget(10, { to: 11 })).toThrow(
      /tokenBudget.to got 11; it must be within the budget, 10/,
    );
  });
});

describe("schedules", () => {
  test("a policy is asked when its schedule says so, and goes on in between", async () => {
    const { url, calls } = await gateway();
    await act(conversation(url, { policy: scheduled(afterActions(3), recency(1)) }), 8);
    expect(calls().map((call) => messagesOf(call).length - 2)).toEqual([0, 2, 4, 2, 4, 6, 2, 4]);
  });

  test("on demand: once, at the next ask, in place of asking the old view again", async () => {
    const { url, calls } = await gateway();
    const chat = conversation(url, { policy: recency({ last: 1, when: onDemand() }) });
    await act(chat, 3);
    chat.reject(await chat.ask("o4"));
    chat.compact();
    chat.accept(await chat.ask());
    await chat.ask("o5");
    expect(calls().map(viewOf).slice(3)).toEqual([
      ["sys", "task", "a1", "o2", "a2", "o3", "a3", "o4"],
      ["sys", "task", "a3", "o4"],
      ["sys", "task", "a3", "o4", "a5", "o5"],
    ]);
  });

  test("when the engine says that its context is full the policy chooses once more", async () => {
    const full = {
      message: "This model's maximum context length is 9 tokens",
      code: "context_length_exceeded",
    };
    const { url, calls } = await gateway((received, number) =>
      messagesOf(received).length > 6 ? { status: 400, json: { error: full } } : { json: completion(number) },
    );
    const chat = conversation(url, { policy: recency({ last: 1, when: whenFull() }) });
    await act(chat, 4);
    expect(viewOf(calls()[3])).toHaveLength(8);
    expect(viewOf(calls()[4])).toEqual(["sys", "task", "a3", "o4"]);
    expect(chat.calls.at(-1)).toMatchObject({ root: "rewrite", parent: null });
    const stuck = conversation(url);
    await act(stuck, 3);
    await expect(stuck.ask("o4")).rejects.toMatchObject({
      code: "context_full",
      message: expect.stringContaining("no shorter view") as string,
    });
  });

  test("a view past contextLimit is compacted before it is sent, by the gateway's own count", async () => {
    const under = await startUnderTest();
    const chat = conversation(under.url, {
      policy: recency({ last: 1, when: whenFull() }),
      request: { max_tokens: 2 },
      contextLimit: 30,
    });
    await act(chat, 8, " t1 t2 t3");
    expect(chat.calls.filter(({ root }) => root === "rewrite").length).toBeGreaterThan(0);
    const calls = await under.calls("r0");
    expect(calls.every((call) => call.status === "committed" && call.sequenceLength < 33)).toBe(true);
  });
});

describe("tokenBudget", () => {
  test("keeps every prompt within the budget, as the engine counts, and cuts back well below it", async () => {
    const under = await startUnderTest({ standIn: { template: "chatml" } });
    const chat = conversation(under.url, { policy: tokenBudget(60), request: { max_tokens: 4 } });
    await act(chat, 12, " t1 t2 t3 t4 t5");
    const calls = await under.calls("r0");
    const prompts = calls.map((call) => call.sequenceLength - call.generatedLength);
    expect(Math.max(...prompts)).toBeLessThanOrEqual(60);
    const roots = calls.filter((call) => call.parentCallId === null).length;
    expect(roots).toBeGreaterThan(1);
    expect(roots).toBeLessThan(6);
    await chat.finish({ reward: 1 });
  });

  test("overTokens fires above its number and not at it", async () => {
    const under = await startUnderTest();
    const fired: boolean[] = [];
    const watch =
      (budget: number): Policy =>
      async (input) => {
        fired.push(await overTokens(budget)(input));
        return input.continued;
      };
    const tokens = (await firstPrompt(under.url)) - 1;
    const view = { policy: compose(watch(tokens), watch(tokens + 1)), rolloutId: "r1" };
    const { openAi } = await import("./testing/conversations.ts");
    await conversation(under.url, { ...view, client: openAi(under.url, "r1") }).ask();
    expect(fired).toEqual([true, false]);
  });
});

async function firstPrompt(url: string): Promise<number> {
  const answer = await conversation(url).ask();
  return answer.usage?.promptTokens ?? 0;
}

describe("summarise", () => {
  const policy = (train: boolean): Policy =>
    summarise({ when: afterActions(2), instruction: "sum up", preface: "so far: ", train });

  test("asks in the tree that it ends, and goes on from head, summary and newest observation", async () => {
    const { url, calls, received } = await gateway();
    const chat = conversation(url, { policy: policy(false) });
    await act(chat, 3, " and much more was seen, far more than a summary would tell");
    const [summary, next] = calls().slice(2);
    expect(viewOf(summary).at(-1)).toBe("sum up");
    expect(summary?.headers).toMatchObject({ "x-coppice-class": "compaction", "x-coppice-parent": "resp-2" });
    expect(viewOf(next)).toEqual(["sys", "task", "so far: a3", expect.stringMatching(/^o3/)]);
    await chat.finish({ reward: 1 });
    expect(received.at(-1)?.body["accepted"]).toEqual(["resp-1", "resp-2", "resp-4"]);
    expect(chat.calls[2]).toMatchObject({ purpose: "policy", verdict: "undecided" });
  });

  test("the summary trains where it is asked to, once an answer to its view is had", async () => {
    const { url } = await gateway((_received, number) =>
      number === 4 ? { status: 500, json: { error: { message: "no" } } } : null,
    );
    const chat = conversation(url, { policy: policy(true) });
    const long = " and much more was seen, far more than a summary would tell";
    await act(chat, 2, long);
    await expect(chat.ask(`o3${long}`)).rejects.toThrow();
    expect(chat.kept).toEqual(["resp-1", "resp-2"]);
    chat.accept(await chat.ask());
    expect(chat.kept).toEqual(["resp-1", "resp-2", "resp-3", "resp-5"]);
  });

  test("a summary longer than what it sums up rewrites nothing and does not train", async () => {
    const { url } = await gateway((_received, number) => ({
      json: completion(number, number === 3 ? { content: "so much ".repeat(50) } : {}),
    }));
    const chat = conversation(url, { policy: policy(true) });
    await act(chat, 3);
    expect(chat.kept).toEqual(["resp-1", "resp-2", "resp-4"]);
    expect(chat.calls.map(({ parent }) => parent)).toEqual([null, "resp-1", "resp-2", "resp-2"]);
  });

  test("another model sums up where one is named", async () => {
    const { url, calls } = await gateway();
    const chat = conversation(url, {
      policy: summarise({ when: afterActions(1), model: "small", instruction: "s", preface: "" }),
    });
    await act(chat, 2, " and much more was seen, far more than a summary would tell");
    expect(calls().map(({ body }) => body["model"])).toEqual(["model", "small", "model"]);
  });
});

describe("compose and guards", () => {
  test("each policy goes on from the view of the one before", async () => {
    const { url, calls } = await gateway();
    const policy = compose(
      recency({ last: 3 }),
      scheduled(
        anyOf(afterActions(9), ({ continued }) => continued.length > 7),
        recency(1),
      ),
    );
    await act(conversation(url, { policy }), 5);
    expect(calls().map((call) => messagesOf(call).length - 2)).toEqual([0, 2, 4, 2, 4]);
  });

  test.each<[string, Policy, RegExp]>([
    [
      "is longer than what it replaces",
      ({ history, accepted }) =>
        accepted.length === 0
          ? history
          : [...history.slice(0, 2), { role: "user", content: "x".repeat(500) }],
      /it has \d+ characters, and going on without a rewrite would have \d+/,
    ],
    [
      "edits an answer",
      ({ history }) => history.map((one) => (one.role === "assistant" ? { ...one, content: "b" } : one)),
      /message 2 \(assistant\) is not in the history, which a policy cannot edit/,
    ],
    [
      "has no system message",
      ({ history }) => history.slice(1),
      /must start with the history's system message/,
    ],
  ])("a view that %s is refused before it is sent", async (_title, policy, why) => {
    const { url, calls } = await gateway();
    const late: Policy = (input) => (input.accepted.length === 0 ? input.history : policy(input));
    const chat = conversation(url, { policy: late });
    chat.accept(await chat.ask());
    await expect(chat.ask("o2")).rejects.toThrow(why);
    expect(calls()).toHaveLength(1);
  });

  test("tool calls without all their results are refused", async () => {
    const { url } = await gateway((_received, number) => ({
      json: completion(number, {
        tool_calls: ["t1", "t2"].map((id) => ({
          id,
          type: "function",
          function: { name: "f", arguments: "{}" },
        })),
      }),
    }));
    const chat = conversation(url);
    chat.accept(await chat.ask());
    await expect(chat.ask({ role: "tool", tool_call_id: "t1", content: "1" })).rejects.toThrow(
      /it ends without the result of the tool call t2/,
    );
    await expect(chat.ask("go on")).rejects.toThrow(
      /message 3 \(user\) comes before the result of the tool call t1, t2/,
    );
  });
});
