import { InternalServerError } from "openai";
import { describe, expect, test } from "vitest";
import type { ChatClient, ChatMessage } from "./chat-client.ts";
import { Conversation } from "./conversation.ts";
import { codeOf, contents, conversation, gateway, messagesOf, user } from "./testing/conversations.ts";
import { completion, events } from "./testing/scripted-gateway.ts";

describe("asking", () => {
  test("an answer tells its text, tool calls, ids, finish reason and token counts", async () => {
    const toolCalls = [{ id: "t1", type: "function", function: { name: "look", arguments: '{"at":  1.0}' } }];
    const { url } = await gateway((_received, number) => ({
      json: completion(number, { content: "so", tool_calls: toolCalls }),
    }));
    const answer = await conversation(url).ask();
    expect(answer).toMatchObject({
      text: "so",
      toolCalls: [{ id: "t1", name: "look", arguments: '{"at":  1.0}' }],
      responseId: "resp-1",
      callId: "call-1",
      finishReason: "stop",
      usage: { promptTokens: 5, completionTokens: 1 },
    });
    expect(answer.message.tool_calls).toEqual(toolCalls);
  });

  test("an accepted answer goes back exactly as it came, unknown fields included", async () => {
    const extra = { reasoning: "hm", reasoning_content: "hm", annotations: [], refusal: null, odd: { a: 1 } };
    const { url, calls } = await gateway((received, number) =>
      received.path.endsWith("completions") ? { json: completion(number, extra) } : null,
    );
    const chat = conversation(url);
    chat.accept(await chat.ask());
    await chat.ask("o2");
    expect(messagesOf(calls()[1])[2]).toEqual({
      role: "assistant",
      content: "a1",
      ...extra,
    });
  });

  test("every call names its rollout, and a call that goes on from an accepted answer names it as parent", async () => {
    const { url, calls } = await gateway();
    const chat = conversation(url);
    chat.accept(await chat.ask());
    chat.reject(await chat.ask("o2"));
    chat.accept(await chat.ask("o3"));
    await chat.ask("o4");
    expect(calls().map(({ headers }) => headers["x-coppice-parent"])).toEqual([
      undefined,
      "resp-1",
      "resp-1",
      "resp-3",
    ]);
    expect(calls().every(({ headers }) => headers["x-coppice-rollout"] === "r0")).toBe(true);
    expect(calls()[0]?.path).toBe("/r/r0/v1/chat/completions");
  });

  test("settings of the conversation and of one ask reach the engine, the model and messages stay the conversation's", async () => {
    const { url, calls } = await gateway();
    const chat = conversation(url, { request: { temperature: 1, seed: 4, user: "r0" } });
    await chat.ask(undefined, { request: { seed: 5, model: "other", messages: [] } });
    expect(calls()[0]?.body).toMatchObject({ temperature: 1, seed: 5, user: "r0", model: "model" });
    expect(contents(messagesOf(calls()[0]))).toEqual(["sys", "task"]);
  });

  test("more than one answer a call is refused, since only one could be decided", async () => {
    const { url } = await gateway();
    expect(await codeOf(() => conversation(url, { request: { n: 2 } }))).toBe("invalid_argument");
    expect(await codeOf(() => conversation(url).ask("o", { request: { n: 3 } }))).toBe("invalid_argument");
  });

  test("a client without response headers works, and its answers have no call id", async () => {
    const bodies: object[] = [];
    const client: ChatClient = {
      chat: {
        completions: {
          create: (body) => {
            bodies.push(body);
            return Promise.resolve(completion(bodies.length));
          },
        },
      },
    };
    const chat = new Conversation({
      client,
      gatewayUrl: "http://127.0.0.1:1",
      rolloutId: "r",
      model: "m",
      task: "t",
    });
    expect(await chat.ask()).toMatchObject({ text: "a1", callId: null });
  });

  test("an error of the client passes through and the same view can be asked again", async () => {
    const { url, calls } = await gateway((_received, number) =>
      number === 1 ? { status: 500, json: { error: { message: "no" } } } : null,
    );
    const chat = conversation(url);
    await expect(chat.ask("o1")).rejects.toBeInstanceOf(InternalServerError);
    expect((await chat.ask()).responseId).toBe("resp-2");
    expect(calls()[1]?.body).toEqual(calls()[0]?.body);
  });

  test("an answer without a finish reason is incomplete, and nothing waits to be decided", async () => {
    const { url } = await gateway((_received, number) =>
      number === 1 ? { json: { id: "resp-1", choices: [] } } : null,
    );
    const chat = conversation(url);
    expect(await codeOf(() => chat.ask())).toBe("incomplete_answer");
    expect((await chat.ask()).responseId).toBe("resp-2");
  });
});

describe("accepting and rejecting", () => {
  test("a rejected answer leaves no trace in the history, an accepted one stands after its observation", async () => {
    const { url } = await gateway();
    const chat = conversation(url);
    chat.accept(await chat.ask());
    chat.reject(await chat.ask("lost"), "too short");
    chat.accept(await chat.ask("kept"));
    expect(contents(chat.history)).toEqual(["sys", "task", "a1", "kept", "a3"]);
    expect(chat.accepted.map(({ responseId }) => responseId)).toEqual(["resp-1", "resp-3"]);
    expect(chat.rejected.map(({ answer, reason }) => [answer.responseId, reason])).toEqual([
      ["resp-2", "too short"],
    ]);
  });

  test("after a rejection the same view is asked again, or another observation in its place", async () => {
    const { url, calls } = await gateway();
    const chat = conversation(url);
    chat.accept(await chat.ask());
    chat.reject(await chat.ask("one"));
    chat.reject(await chat.ask());
    await chat.ask("two");
    const views = calls().map((call) => contents(messagesOf(call)));
    expect(views[1]).toEqual(["sys", "task", "a1", "one"]);
    expect(views[2]).toEqual(views[1]);
    expect(views[3]).toEqual(["sys", "task", "a1", "two"]);
  });

  test("after an accepted answer an ask without an observation goes on, it does not ask the old view again", async () => {
    const { url, calls } = await gateway();
    const chat = conversation(url);
    chat.accept(await chat.ask());
    await chat.ask();
    expect(contents(messagesOf(calls()[1]))).toEqual(["sys", "task", "a1"]);
  });

  test("an action may be rejected maxRejections times, and each action starts to count anew", async () => {
    const { url } = await gateway();
    const chat = conversation(url, { maxRejections: 1 });
    chat.reject(await chat.ask("o"));
    chat.accept(await chat.ask());
    chat.reject(await chat.ask("o"));
    chat.reject(await chat.ask());
    await expect(chat.ask()).rejects.toThrow(/action 2 had 2 answers rejected; maxRejections is 1/);
    expect(await codeOf(() => chat.ask("other"))).toBe("too_many_rejections");
  });

  test("misuse has a code of its own", async () => {
    const { url } = await gateway();
    const chat = conversation(url);
    const other = conversation(url);
    const first = await chat.ask();
    expect(await codeOf(() => chat.ask())).toBe("answer_undecided");
    expect(await codeOf(() => chat.finish({ reward: 1 }))).toBe("answer_undecided");
    expect(await codeOf(() => other.accept(first))).toBe("foreign_answer");
    expect(await codeOf(() => chat.accept({ ...first }))).toBe("foreign_answer");
    chat.accept(first);
    expect(await codeOf(() => chat.accept(first))).toBe("already_decided");
    expect(await codeOf(() => chat.reject(first))).toBe("already_decided");
    const second = await chat.ask();
    chat.reject(second);
    expect(await codeOf(() => chat.accept(second))).toBe("already_decided");
    await chat.finish({ reward: 1 });
    expect(await codeOf(() => chat.ask())).toBe("finished");
    expect(await codeOf(() => chat.finish({ reward: 1 }))).toBe("finished");
    expect(await codeOf(() => chat.fail("late"))).toBe("finished");
  });

  test("two asks at once are refused", async () => {
    const { url, calls } = await gateway(() => ({ json: completion(1), delayMs: 50 }));
    const chat = conversation(url);
    const first = chat.ask();
    expect(await codeOf(() => chat.ask())).toBe("ask_in_flight");
    expect(await codeOf(() => chat.finish({}))).toBe("ask_in_flight");
    await first;
    expect(calls()).toHaveLength(1);
  });

  test("history and answers cannot be edited", async () => {
    const { url } = await gateway();
    const mine = user("task");
    const chat = conversation(url, { messages: [mine] });
    (mine as { content: string }).content = "changed";
    const answer = await chat.ask();
    chat.accept(answer);
    expect(() => ((answer.message as { content: string }).content = "x")).toThrow(TypeError);
    expect(() => (chat.history as ChatMessage[]).push(user("x"))).toThrow(TypeError);
    expect(contents(chat.history)).toEqual(["sys", "task", "task", "a1"]);
  });
});

describe("streaming", () => {
  test("a stream gives its text piece by piece and the same answer as a whole one", async () => {
    const { url, calls } = await gateway(() =>
      events([
        { role: "assistant", content: "" },
        { reasoning_content: "h" },
        { reasoning_content: "m" },
        { content: "a" },
        {
          content: "b",
          tool_calls: [{ index: 0, id: "t1", type: "function", function: { name: "f", arguments: "" } }],
        },
        { tool_calls: [{ index: 0, function: { arguments: '{"x"' } }] },
        { tool_calls: [{ index: 1, id: "t2", type: "function", function: { name: "g", arguments: "{}" } }] },
        { tool_calls: [{ index: 0, function: { arguments: ":1}" } }] },
      ]),
    );
    const heard: string[] = [];
    const answer = await conversation(url).ask("o", { stream: true, onText: (text) => heard.push(text) });
    expect(heard).toEqual(["a", "b"]);
    expect(answer).toMatchObject({
      text: "ab",
      callId: "call-1",
      responseId: "resp-s",
      finishReason: "stop",
      usage: { promptTokens: 5, completionTokens: 3 },
      toolCalls: [
        { id: "t1", name: "f", arguments: '{"x":1}' },
        { id: "t2", name: "g", arguments: "{}" },
      ],
      message: { role: "assistant", content: "ab", reasoning_content: "hm" },
    });
    expect(calls()[0]?.body).toMatchObject({ stream: true, stream_options: { include_usage: true } });
  });

  test("a stream that ends cleanly without a finish reason is incomplete, though the client does not say so", async () => {
    const { url } = await gateway(() =>
      events([{ role: "assistant", content: "ha" }], { finishReason: null, done: false }),
    );
    const chat = conversation(url);
    await expect(chat.ask("o", { stream: true })).rejects.toMatchObject({
      code: "incomplete_answer",
      message: "the stream of resp-s ended without a finish reason: it was cut",
    });
    expect(chat.accepted).toEqual([]);
  });
});
