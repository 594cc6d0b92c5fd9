import { describe, expect, test } from "vitest";
import { rolloutId, type RootReason } from "../lineage/call.ts";
import {
  errorOf,
  eventually,
  framesOf,
  messageOfAnswer,
  sender,
  startUnderTest,
  type Json,
} from "./testing/gateway-under-test.ts";

/** Without what must differ, and without the ids that an engine writes as null where nobody asks for them. */
function comparable(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, inner: unknown) =>
      key === "created" || (inner === null && (key === "prompt_token_ids" || key === "token_ids"))
        ? undefined
        : key === "id" && typeof inner === "string" && inner.startsWith("chatcmpl-")
          ? "ID"
          : inner,
    ),
  );
}

const CASES: readonly (readonly [string, string, Json])[] = [
  ["plain text", "hello", {}],
  ["a tool call", "@@fault:tool@@", { max_tokens: 100 }],
  ["reasoning and text", "@@fault:reasoning@@", {}],
  ["characters of several tokens", "@@fault:multibyte@@", {}],
  ["a stop string", "x", { stop: ["t1"] }],
  ["two choices", "x", { n: 2 }],
  ["an answer cut by its limit", "x", { max_tokens: 3 }],
  ["log-probs that were asked for", "x", { logprobs: true, top_logprobs: 2 }],
];

describe("what the client sees", () => {
  test.each(CASES)(
    "%s comes back as the engine gives it, but for the ids",
    async (_name, message, fields) => {
      const under = await startUnderTest({ standIn: { template: "chatml" } });
      const body = { model: "any", messages: [{ role: "user", content: message }], seed: 3, ...fields };
      const direct = await sender(under.standIn.url)("POST", "/v1/chat/completions", body);
      const through = await under.send("POST", "/r/r1/v1/chat/completions", body);
      expect(through.status).toBe(200);
      expect(comparable(through.json)).toEqual(comparable(direct.json));
    },
  );

  test.each(CASES)("%s streams as the engine streams it, but for the ids", async (_name, message, fields) => {
    const under = await startUnderTest({ standIn: { template: "chatml" } });
    const body = {
      model: "any",
      messages: [{ role: "user", content: message }],
      seed: 3,
      ...fields,
      stream: true,
    };
    const direct = await sender(under.standIn.url)("POST", "/v1/chat/completions", body);
    const through = await under.send("POST", "/r/r1/v1/chat/completions", body);
    expect(through.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    // Choices finish each in their time, and a last chunk is held: only their own order is promised.
    const byChoice = (frames: readonly (Json | string)[]): unknown =>
      [0, 1].map((index) => comparable(frames.filter((frame) => choiceIn(frame) === index)));
    expect(byChoice(framesOf(through.text))).toEqual(byChoice(framesOf(direct.text)));
    expect(framesOf(through.text).at(-1)).toBe("[DONE]");
  });

  test("the response id is minted here, the call id stands in a header, and both are recorded", async () => {
    const under = await startUnderTest();
    const answered = await under.chat("r1", "hello");
    expect(answered.json["id"]).toMatch(/^chatcmpl-[0-9a-f]{32}$/);
    const [call] = await under.calls("r1");
    expect(call?.responseId).toBe(answered.json["id"]);
    expect(call?.callId).toBe(answered.headers.get("x-coppice-call-id"));
    expect(call).toMatchObject({
      status: "committed",
      untrainable: null,
      way: "text",
      finishReason: "length",
    });
  });

  test("choices of one call are siblings that answer to ID:k, and the header names each", async () => {
    const under = await startUnderTest();
    const answered = await under.chat("r1", "hello", { n: 3 });
    const calls = await under.calls("r1");
    expect(calls.map((call) => call.responseId)).toEqual(
      [0, 1, 2].map((k) => `${String(answered.json["id"])}:${k}`),
    );
    expect(answered.headers.get("x-coppice-call-id")).toBe(calls.map((call) => call.callId).join(","));
    expect(calls.every((call) => call.parentCallId === null && call.status === "committed")).toBe(true);
    expect(new Set(calls.map((call) => call.admittedOrder)).size).toBe(3);
  });

  test("token ids come back to those who ask for them, whole and streamed", async () => {
    const under = await startUnderTest();
    const whole = await under.chat("r1", "hello", { return_token_ids: true });
    const [call] = await under.calls("r1");
    expect(whole.json["prompt_token_ids"]).toEqual([...(call?.carriedTokenIds ?? [])]);
    const choices = whole.json["choices"] as readonly Json[];
    expect(choices[0]?.["token_ids"]).toEqual([...(call?.generatedTokenIds ?? [])]);
    const streamed = await under.chat("r1", "hello", { return_token_ids: true, stream: true });
    expect(framesOf(streamed.text)[0]).toMatchObject({ prompt_token_ids: whole.json["prompt_token_ids"] });
  });

  test("the usage chunk goes to who asked for it, and to nobody else", async () => {
    const under = await startUnderTest();
    const asked = await under.chat("r1", "hello", { stream: true, stream_options: { include_usage: true } });
    const silent = await under.chat("r1", "hello", { stream: true });
    const usage = framesOf(asked.text).filter((frame) => typeof frame !== "string" && "usage" in frame);
    expect(usage).toHaveLength(1);
    expect(usage[0]).toMatchObject({
      choices: [],
      usage: { completion_tokens: expect.any(Number) as number },
    });
    expect(silent.text).not.toContain('"usage"');
  });

  test("the model's name is the one that was asked for, and the engine is asked for its own", async () => {
    const under = await startUnderTest({
      standIn: { model: "policy", strictModel: true },
      gateway: { model: "policy" },
    });
    const answered = await under.chat("r1", "hello", { model: "claude-of-the-background" });
    expect(answered.json["model"]).toBe("claude-of-the-background");
    expect(under.standIn.requests.at(-1)?.body?.["model"]).toBe("policy");
  });

  test("without a served name the engine's first model is the policy, and a mapping sends others elsewhere (litellm 12061)", async () => {
    const under = await startUnderTest({
      standIn: { model: "first" },
      gateway: { modelNames: { judge: "another" } },
    });
    await under.chat("r1", "hello", { model: "whatever" });
    expect(under.standIn.requests.at(-1)?.body?.["model"]).toBe("first");
    await under.chat("r1", "hello", { model: "judge" });
    expect(under.standIn.requests.at(-1)?.body?.["model"]).toBe("another");
  });

  test("fields that nobody here knows reach the engine untouched", async () => {
    const under = await startUnderTest();
    const fields = {
      client_metadata: { a: [1, { b: null }] },
      reasoning_effort: "low",
      chat_template_kwargs: { x: 1 },
    };
    const messages = [
      { role: "user", content: "a" },
      { role: "assistant", content: "b", reasoning: "r", reasoning_content: "rc", annotations: [] },
      { role: "user", content: [{ type: "text", text: "c", cache_control: { type: "ephemeral" } }] },
    ];
    await under.chat("r1", messages, fields);
    const body = under.standIn.requests.at(-1)?.body;
    expect(body).toMatchObject(fields);
    expect(body?.["messages"]).toEqual(messages);
  });
});

describe("what is recorded", () => {
  test("a conversation hangs together: each answer's call is the parent of the next", async () => {
    const under = await startUnderTest({ standIn: { template: "chatml" } });
    const messages: Json[] = [{ role: "user", content: "one" }];
    for (const stream of [false, true, false, true]) {
      const answered = await under.chat("r1", messages, { stream });
      const content = stream ? contentOf(answered.text) : messageOfAnswer(answered)["content"];
      messages.push({ role: "assistant", content }, { role: "user", content: "next" });
    }
    const calls = await under.calls("r1");
    expect(calls.map((call) => call.parentCallId)).toEqual([
      null,
      ...calls.slice(0, 3).map((call) => call.callId),
    ]);
    expect(calls.map((call) => call.untrainable)).toEqual([null, null, null, null]);
  });

  test("the commit is there before the answer's end", async () => {
    const under = await startUnderTest();
    for (const stream of [false, true]) {
      await under.chat("r1", "hello", { stream });
      const calls = await under.calls("r1");
      expect(calls.at(-1)?.status).toBe("committed");
    }
  });

  test("pinned settings win over the client's, take out what is pinned to null, and both are recorded (Gym 2190)", async () => {
    const under = await startUnderTest();
    await under.send("PUT", "/rollouts/r1", { sampling: { temperature: 1, max_tokens: 4, top_k: null } });
    await under.chat("r1", "hello", { temperature: 0.2, top_k: 5, top_p: 0.9, max_completion_tokens: 9 });
    const body = under.standIn.requests.at(-1)?.body;
    expect(body).toMatchObject({ temperature: 1, max_tokens: 4, top_p: 0.9 });
    expect(body).not.toHaveProperty("top_k");
    expect(body).not.toHaveProperty("max_completion_tokens");
    const [call] = await under.calls("r1");
    expect(call?.sampling).toEqual({
      asked: { temperature: 0.2, top_k: 5, top_p: 0.9, max_completion_tokens: 9 },
      used: { temperature: 1, max_tokens: 4, top_p: 0.9 },
    });
    expect(call?.generatedLength).toBe(4);
  });

  test("agents that send no settings get the pinned ones too (Gym 2190)", async () => {
    const under = await startUnderTest();
    await under.send("PUT", "/rollouts/r1", { sampling: { temperature: 0.7 } });
    await under.chat("r1", "hello");
    expect(under.standIn.requests.at(-1)?.body).toMatchObject({ temperature: 0.7 });
    expect((await under.calls("r1"))[0]?.sampling).toEqual({ asked: {}, used: { temperature: 0.7 } });
  });

  test("the engine is sent a cache salt of the weights at the rollout's start, whatever comes later (prime-rl 2270)", async () => {
    const under = await startUnderTest();
    await under.chat("r0", "hello");
    expect(under.standIn.requests.at(-1)?.body).not.toHaveProperty("cache_salt");
    await under.send("PUT", "/weights", { version: "step-7" });
    await under.chat("r1", "hello");
    await under.send("PUT", "/weights", { version: 8 });
    await under.chat("r1", "hello again", { cache_salt: "own" });
    const salts = under.standIn.requests.slice(-2).map((request) => request.body?.["cache_salt"]);
    expect(salts).toEqual(["weights-step-7", "own:weights-step-7"]);
    const calls = await under.calls("r1");
    expect(calls.map((call) => call.weightVersions)).toEqual([
      [{ version: "step-7", start: 0 }],
      [{ version: "8", start: 0 }],
    ]);
  });

  test("weights that change during a call are noted, since nobody knows at which token (vllm 54443)", async () => {
    const under = await startUnderTest();
    await under.send("PUT", "/weights", { version: "1" });
    const slow = under.chat("r1", "@@fault:slow=40@@", { max_tokens: 6 });
    await eventually("the call is admitted", async () => (await under.calls("r1"))[0]);
    await under.send("PUT", "/weights", { version: "2" });
    await slow;
    const [call] = await under.calls("r1");
    expect(call?.weightVersions).toEqual([{ version: "1", start: 0 }]);
    expect(call?.notes).toEqual([expect.stringContaining("weights went from 1 to 2") as string]);
  });

  test("an engine that tells no ids is answered from, and the call is committed without a place", async () => {
    const under = await startUnderTest();
    const answered = await under.chat("r1", "@@fault:no_ids@@");
    expect(answered.status).toBe(200);
    const [call] = await under.calls("r1");
    expect(call).toMatchObject({ status: "committed", address: null });
    expect(call?.untrainable).toContain("prompt_token_ids");
  });

  test("a drift says where the tokens part, with ids and the text around", async () => {
    const under = await startUnderTest({ standIn: { drift: true } });
    const first = await under.chat("r1", "one two three", { max_tokens: 6 });
    await under.chat("r1", [
      { role: "user", content: "one two three" },
      { role: "assistant", content: messageOfAnswer(first)["content"] },
      { role: "user", content: "four" },
    ]);
    const [one, two] = await under.calls("r1");
    expect(two?.parentCallId).toBeNull();
    expect(two?.rootReason).toMatchObject({ kind: "drift", followedCallId: one?.callId });
    const reason = two?.rootReason as Extract<RootReason, { kind: "drift" }>;
    const sequence = await under.ledger.sequence(one?.callId as never);
    expect(reason.expectedId).toBe(sequence?.[reason.index]);
    expect(reason.actualId).toBe(two?.carriedTokenIds[reason.index]);
    expect(reason.actualId).not.toBe(reason.expectedId);
    expect(reason.expectedText).toEqual(expect.any(String));
    expect(reason.actualText).toEqual(expect.any(String));
  });

  test("an engine that cannot turn ids into text in time leaves the drift without text", async () => {
    const under = await startUnderTest({
      standIn: { drift: true },
      engine: (engine) => withDetokenize(engine, () => new Promise(() => undefined)),
    });
    const first = await under.chat("r1", "one two three", { max_tokens: 6 });
    const began = performance.now();
    await under.chat("r1", [
      { role: "user", content: "one two three" },
      { role: "assistant", content: messageOfAnswer(first)["content"] },
      { role: "user", content: "four" },
    ]);
    expect(performance.now() - began).toBeLessThan(1500);
    const [, two] = await under.calls("r1");
    expect(two?.rootReason).toMatchObject({ kind: "drift", expectedText: null, actualText: null });
  });

  test("kept as tokens only, no message and no answer is stored, and the forest is the same", async () => {
    const under = await startUnderTest({ gateway: { capture: { tokensOnly: true } } });
    const first = await under.chat("r1", "a secret");
    await under.chat("r1", [
      { role: "user", content: "a secret" },
      { role: "assistant", content: messageOfAnswer(first)["content"] },
      { role: "user", content: "more" },
    ]);
    const [one, two] = await under.calls("r1");
    expect(two?.parentCallId).toBe(one?.callId);
    expect([one?.messages, one?.answer, two?.messages, two?.answer]).toEqual([null, null, null, null]);
  });

  test("two images of one size are told apart by their digests", async () => {
    const under = await startUnderTest({ standIn: { mode: "counters" } });
    const withImage = (name: string): Json[] => [
      {
        role: "user",
        content: [
          { type: "text", text: "look" },
          { type: "image_url", image_url: { url: `data:image/png;base64,${name}` } },
        ],
      },
    ];
    const answers = [await under.chat("r1", withImage("AAAA")), await under.chat("r1", withImage("BBBB"))];
    const answer = { role: "assistant", content: messageOfAnswer(answers[0] as never)["content"] };
    await under.chat("r1", [...withImage("AAAA"), answer, { role: "user", content: "and?" }]);
    const calls = await under.calls("r1");
    expect(calls[0]?.mediaDigests).toHaveLength(1);
    expect(calls[0]?.mediaDigests).not.toEqual(calls[1]?.mediaDigests);
    expect(calls[2]?.parentCallId).toBe(calls[0]?.callId);
  });
});

describe("a parent that the client names", () => {
  test("is taken by call id or response id, and settles which of two twins it is", async () => {
    const under = await startUnderTest({ standIn: { mode: "counters" } });
    const twins = [
      await under.chat("r1", "q", { seed: 1, user: "a" }),
      await under.chat("r1", "q", { seed: 1, user: "b" }),
    ];
    const [one, two] = await under.calls("r1");
    expect(one?.address).toBe(two?.address);
    const next = [
      { role: "user", content: "q" },
      { role: "assistant", content: messageOfAnswer(twins[0] as never)["content"] },
      { role: "user", content: "go on" },
    ];
    const body = { model: "m", messages: next };
    await under.send("POST", "/r/r1/v1/chat/completions", body, {
      "x-coppice-parent": String(twins[0]?.json["id"]),
    });
    await under.send("POST", "/r/r1/v1/chat/completions", body, { "x-coppice-parent": String(two?.callId) });
    await under.send("POST", "/r/r1/v1/chat/completions", body);
    const parents = (await under.calls("r1")).slice(2).map((call) => call.parentCallId);
    expect(parents).toEqual([one?.callId, two?.callId, two?.callId]);
  });

  test("that nobody in the rollout has is a 400 before the engine is asked", async () => {
    const under = await startUnderTest();
    await under.chat("other", "hello");
    const [foreign] = await under.calls("other");
    const asked = under.standIn.requests.length;
    const answered = await under.send(
      "POST",
      "/r/r1/v1/chat/completions",
      { messages: [{ role: "user", content: "x" }] },
      { "x-coppice-parent": String(foreign?.callId) },
    );
    expect(answered.status).toBe(400);
    expect(errorOf(answered)).toMatchObject({ type: "invalid_request_error", param: "x-coppice-parent" });
    expect(under.standIn.requests).toHaveLength(asked);
    expect(await under.ledger.rollout({ rolloutId: rolloutId("r1"), attempt: null })).toBeNull();
  });

  test("that does not fit is set aside, flagged, and the call goes on without it", async () => {
    const under = await startUnderTest();
    const first = await under.chat("r1", "one");
    const answered = await under.send(
      "POST",
      "/r/r1/v1/chat/completions",
      { messages: [{ role: "user", content: "something else" }] },
      { "x-coppice-parent": String(first.json["id"]) },
    );
    expect(answered.status).toBe(200);
    const [, call] = await under.calls("r1");
    expect(call).toMatchObject({
      parentCallId: null,
      namedParent: first.json["id"],
      namedParentMisfit: true,
    });
  });

  test("that another gateway recorded is known too", async () => {
    const under = await startUnderTest();
    const first = await under.chat("r1", "one");
    const { startGateway } = await import("./server.ts");
    const second = await startGateway({
      engine: under.engine,
      ledger: under.ledger,
      host: "127.0.0.1",
      port: 0,
      log: () => undefined,
    });
    try {
      const next = [
        { role: "user", content: "one" },
        { role: "assistant", content: messageOfAnswer(first)["content"] },
        { role: "user", content: "two" },
      ];
      const answered = await sender(second.url)(
        "POST",
        "/r/r1/v1/chat/completions",
        { messages: next },
        { "x-coppice-parent": String(first.json["id"]) },
      );
      expect(answered.status).toBe(200);
      const [one, two] = await under.calls("r1");
      expect(two?.parentCallId).toBe(one?.callId);
    } finally {
      await second.close();
    }
  });
});

/** The choice that a frame is of; 0 where it is of none. */
function choiceIn(frame: Json | string): unknown {
  return typeof frame === "string" ? 0 : ((frame["choices"] as readonly Json[])[0]?.["index"] ?? 0);
}

function withDetokenize<E extends object>(engine: E, detokenize: () => Promise<null>): E {
  return new Proxy(engine, {
    get: (target, name) => {
      if (name === "detokenize") return detokenize;
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

function contentOf(stream: string): string {
  return framesOf(stream)
    .flatMap((frame) => (typeof frame === "string" ? [] : (frame["choices"] as readonly { delta: Json }[])))
    .map((choice) => (choice.delta["content"] as string | undefined) ?? "")
    .join("");
}
