// Which way a call goes, and what becomes of it when a step of the token-in way fails.
import { describe, expect, test } from "vitest";
import type { Fault, StandInOptions, StandInRequest } from "../engine/stand-in.ts";
import { startStandIn } from "../engine/stand-in.ts";
import type { TokenIn } from "../engine/token-in.ts";
import { vllmEngine } from "../engine/vllm.ts";
import { openSqliteLedger } from "../ledger/sqlite-ledger.ts";
import type { Call } from "../lineage/call.ts";
import { startGateway } from "./server.ts";
import {
  errorOf,
  eventually,
  framesOf,
  messageOfAnswer,
  startUnderTest,
  type Answered,
  type Json,
  type UnderTest,
} from "./testing/gateway-under-test.ts";

const TOOLS = [{ type: "function", function: { name: "bash", parameters: {} } }];

function tokenIn(standIn: StandInOptions = {}, way: "token-in" | "auto" = "auto"): Promise<UnderTest> {
  return startUnderTest({ standIn, gateway: { way } });
}

/** Asks, answers what came back with the next words, and so on; the history that stands at the end. */
async function converse(
  under: UnderTest,
  questions: readonly (string | Json)[],
  fields: Json = {},
): Promise<readonly Json[]> {
  const history: Json[] = [];
  for (const question of questions) {
    history.push(typeof question === "string" ? { role: "user", content: question } : question);
    const answered = await under.chat("r1", history, fields);
    expect(answered.status).toBe(200);
    history.push(messageOfAnswer(answered));
  }
  return history;
}

/** Each call's parent is the call before it. */
function isOneLine(calls: readonly Call[]): boolean {
  return calls.every((call, index) => call.parentCallId === (calls[index - 1]?.callId ?? null));
}

describe("a conversation asked token-in", () => {
  test.each(["bare", "chatml", "llama3", "role_marker"] as const)(
    "stays one tree where texts drift (%s)",
    async (template) => {
      const standIn: StandInOptions = { drift: true, template };
      const under = await tokenIn(standIn);
      await converse(under, ["t1 t2", "t3 t4", "t5 t6", "t7"]);
      const calls = await under.calls("r1");
      expect(calls.map(({ way, notes }) => [way, notes])).toEqual(calls.map(() => ["token-in", []]));
      expect(isOneLine(calls)).toBe(true);
      const text = await startUnderTest({ standIn });
      await converse(text, ["t1 t2", "t3 t4", "t5 t6", "t7"]);
      expect(isOneLine(await text.calls("r1"))).toBe(false);
    },
  );

  test.each(["chatml", "role_marker"] as const)(
    "goes on from answers that were cut off (%s)",
    async (template) => {
      const under = await tokenIn({ drift: true, template });
      await converse(under, ["t1 t2", "t3 t4", "t5 t6"], { max_tokens: 2, min_tokens: 5 });
      const calls = await under.calls("r1");
      expect(calls.map(({ finishReason }) => finishReason)).toEqual(["length", "length", "length"]);
      expect(isOneLine(calls)).toBe(true);
    },
  );

  test("keeps the reasoning that its template drops", async () => {
    const under = await tokenIn({ template: "chatml", dropReasoning: true });
    await converse(under, ["@@fault:reasoning@@", "@@fault:reasoning@@", "t5"]);
    expect(isOneLine(await under.calls("r1"))).toBe(true);
  });

  test("that calls tools gets them parsed, and its tree stays one", async () => {
    const under = await tokenIn({ template: "role_marker" });
    const first = await under.chat("r1", "@@fault:tool@@", { tools: TOOLS, max_tokens: 99 });
    const choice = (first.json["choices"] as readonly Json[])[0] as Json;
    expect(choice).toMatchObject({
      finish_reason: "tool_calls",
      message: { content: null, tool_calls: [{ function: { name: "bash", arguments: '{"cmd":"ls -l"}' } }] },
    });
    const [call] = messageOfAnswer(first)["tool_calls"] as readonly Json[];
    const history = [
      { role: "user", content: "@@fault:tool@@" },
      // Agents write the arguments anew.
      {
        ...messageOfAnswer(first),
        tool_calls: [{ ...call, function: { name: "bash", arguments: '{ "cmd": "ls -l" }' } }],
      },
      { role: "tool", tool_call_id: call?.["id"], content: "t20" },
    ];
    await under.chat("r1", history, { tools: TOOLS });
    const calls = await under.calls("r1");
    expect(calls.map(({ way }) => way)).toEqual(["token-in", "token-in"]);
    expect(isOneLine(calls)).toBe(true);
    expect(calls[0]?.finishReason).toBe("tool_calls");
  });

  test("goes on after the gateway was started anew", async () => {
    const standIn = await startStandIn({ drift: true });
    const engine = vllmEngine({ url: standIn.url, kind: "stand-in" });
    const ledger = await openSqliteLedger(":memory:");
    const history: Json[] = [];
    for (const question of ["t1 t2", "t3 t4"]) {
      const options = {
        engine,
        ledger,
        way: "auto",
        host: "127.0.0.1",
        port: 0,
        log: () => undefined,
      } as const;
      const gateway = await startGateway(options);
      history.push({ role: "user", content: question });
      const answered = await fetch(`${gateway.url}/r/r1/v1/chat/completions`, {
        method: "POST",
        body: JSON.stringify({ messages: history }),
      });
      history.push(messageOfAnswer({ json: await answered.json() } as Answered));
      await gateway.close();
    }
    const rolloutId = "r1" as Call["rolloutId"];
    expect(isOneLine(await ledger.calls({ rolloutId, attempt: null }))).toBe(true);
    await ledger.close();
    await engine.close();
    await standIn.close();
  });

  test("is a new root under other tools, and no drift", async () => {
    const under = await tokenIn({ template: "chatml" });
    const history = await converse(under, ["t1"], { tools: TOOLS });
    await under.chat("r1", [...history, { role: "user", content: "t2" }], { tools: [...TOOLS, ...TOOLS] });
    const [, second] = await under.calls("r1");
    expect(second).toMatchObject({ parentCallId: null, rootReason: { kind: "rewrite" }, way: "token-in" });
  });

  test("tells where within an answer the weights changed", async () => {
    const under = await tokenIn({
      script: ({ path }) =>
        path === "/inference/v1/generate"
          ? [
              { kind: "weights", at: 2, version: "8" },
              { kind: "answer", answer: { content: "t1 t2 t3 t4" } },
            ]
          : null,
    });
    await fetch(`${under.standIn.url}/update_weight_version`, {
      method: "POST",
      body: '{"new_version":"7"}',
    });
    await under.chat("r1", "t1");
    const [call] = await under.calls("r1");
    expect(call?.weightVersions).toEqual([
      { version: "7", start: 0 },
      { version: "8", start: 2 },
    ]);
  });

  test("has the trainer's word where the engine tells no weights, and says whose word it is", async () => {
    const under = await tokenIn();
    await under.send("PUT", "/weights", { version: "3" });
    await under.chat("r1", "t1");
    expect((await under.calls("r1"))[0]).toMatchObject({
      weightVersions: [{ version: "3", start: 0 }],
      notes: ["weights 3 by the trainer's word, not the engine's"],
    });
  });

  test("sends the engine a cache salt of the weights at the rollout's start", async () => {
    const under = await tokenIn();
    await under.send("PUT", "/weights", { version: "3" });
    await under.chat("r1", "t1");
    const asked = under.standIn.requests.filter(({ path }) => path === "/inference/v1/generate").at(-1);
    expect(asked?.body?.["cache_salt"]).toBe("weights-3");
  });

  test("asks the engine for what the client set, and for what the prompt leaves where it set no limit", async () => {
    const under = await tokenIn({ maxModelLength: 40 });
    await converse(under, ["t1 t2 t3"], { temperature: 0.5, seed: 7, stop: ["zz"], max_tokens: 3 });
    const asked = under.standIn.requests.filter(({ path }) => path === "/inference/v1/generate").at(-1);
    expect(asked?.body?.["sampling_params"]).toMatchObject({
      temperature: 0.5,
      seed: 7,
      stop: ["zz"],
      max_tokens: 3,
    });
  });

  test("obeys a limit of 16 tokens, which vLLM's rendering leaves out", async () => {
    const under = await tokenIn();
    await under.chat("r1", "t1", { max_tokens: 16, ignore_eos: true });
    expect((await under.calls("r1"))[0]).toMatchObject({
      generatedLength: 16,
      finishReason: "length",
      way: "token-in",
    });
  });

  test("tells neither the stop token nor the stop string in the text of an answer that is parsed", async () => {
    const under = await tokenIn({ template: "chatml" });
    const whole = await under.chat("r1", "@@fault:multibyte@@", { tools: TOOLS, max_tokens: 99 });
    expect(messageOfAnswer(whole)["content"]).toBe("世界 😀");
    const stopped = await under.chat("r1", "@@fault:multibyte@@", {
      tools: TOOLS,
      max_tokens: 99,
      stop: ["界"],
    });
    expect(messageOfAnswer(stopped)["content"]).toBe("世");
    const calls = await under.calls("r1");
    expect(calls.map(({ untrainable }) => untrainable)).toEqual([null, null]);
  });

  test("shows the client what it asked for and nothing of what capture added", async () => {
    const under = await tokenIn();
    const plain = await under.chat("r1", "t1");
    expect(plain.text).not.toMatch(/token_ids|weight_version|"logprobs":\{/);
    const asked = await under.chat("r1", "t1", { logprobs: true, top_logprobs: 1, return_token_ids: true });
    const [choice] = asked.json["choices"] as readonly Json[];
    expect(choice?.["logprobs"]).toMatchObject({ content: expect.any(Array) as unknown });
    expect(choice?.["token_ids"]).toEqual(expect.any(Array));
  });

  test("with several choices has one record each", async () => {
    const under = await tokenIn({ drift: true });
    await under.chat("r1", "t1", { n: 3 });
    const calls = await under.calls("r1");
    expect(calls.map(({ way, untrainable }) => [way, untrainable])).toEqual(
      calls.map(() => ["token-in", null]),
    );
    expect(calls).toHaveLength(3);
  });
});

describe("a stream asked token-in", () => {
  test("comes as it is sampled where nothing is to be parsed, and its end is held until the commit", async () => {
    const under = await tokenIn({ reasoningParser: false, drift: true });
    const answered = await under.chat("r1", "t1", { stream: true, min_tokens: 4, max_tokens: 8 });
    const frames = framesOf(answered.text);
    expect(frames.at(-1)).toBe("[DONE]");
    const deltas = frames
      .slice(0, -1)
      .flatMap((frame) => (frame as Json)["choices"] as readonly { readonly delta: Json }[])
      .filter(({ delta }) => typeof delta["content"] === "string" && delta["content"] !== "");
    expect(deltas.length).toBeGreaterThan(2);
    const [call] = await under.calls("r1");
    expect(call).toMatchObject({ way: "token-in", untrainable: null });
    expect(deltas.map(({ delta }) => delta["content"]).join("")).toBe(call?.answer?.["content"]);
    expect(under.standIn.requests.filter(({ path }) => path.endsWith("/derender"))).toHaveLength(1);
  });

  test("is made from the whole answer where tool calls are to be parsed, with heartbeats meanwhile", async () => {
    const under = await startUnderTest({
      standIn: { delayMs: 40 },
      gateway: { way: "token-in", heartbeatMs: 50 },
    });
    const answered = await under.chat("r1", "@@fault:tool@@", { stream: true, tools: TOOLS, max_tokens: 99 });
    expect(answered.text).toContain(": keep-alive");
    const calls = framesOf(answered.text).flatMap((frame) =>
      typeof frame === "string"
        ? []
        : (frame["choices"] as readonly { readonly delta: Json }[]).flatMap(
            ({ delta }) => delta["tool_calls"] ?? [],
          ),
    );
    expect(calls).toMatchObject([{ index: 0, function: { name: "bash", arguments: '{"cmd":"ls -l"}' } }]);
  });

  test("cuts no character", async () => {
    const under = await tokenIn({ reasoningParser: false });
    const answered = await under.chat("r1", "@@fault:multibyte@@", { stream: true });
    const texts = framesOf(answered.text).flatMap((frame) =>
      typeof frame === "string"
        ? []
        : (frame["choices"] as readonly { readonly delta: Json }[]).map(
            ({ delta }) => (delta["content"] as string | null) ?? "",
          ),
    );
    expect(texts.join("")).toBe("世界 😀");
    expect(texts.join("")).not.toContain("\uFFFD");
    expect((await under.calls("r1"))[0]).toMatchObject({ untrainable: null, way: "token-in" });
  });
});

describe("a parent that the client names", () => {
  const question = [{ role: "user", content: "t1" }];

  test("settles which of two identical texts is meant", async () => {
    const under = await tokenIn({ mode: "counters", sameTexts: true });
    const answers = [await under.chat("r1", question), await under.chat("r1", question)];
    expect(messageOfAnswer(answers[0] as Answered)["content"]).toBe(
      messageOfAnswer(answers[1] as Answered)["content"],
    );
    const next = [...question, messageOfAnswer(answers[0] as Answered), { role: "user", content: "t2" }];
    for (const named of answers) {
      await under.send(
        "POST",
        "/r/r1/v1/chat/completions",
        { messages: next },
        { "x-coppice-parent": String(named.json["id"]) },
      );
    }
    await under.chat("r1", next);
    const calls = await under.calls("r1");
    const [one, two] = calls.map(({ callId }) => callId);
    // Unnamed, the latest stands for both.
    expect(calls.map(({ parentCallId }) => parentCallId)).toEqual([null, null, one, two, two]);
    expect(calls.map(({ namedParentMisfit }) => namedParentMisfit)).toEqual(calls.map(() => false));
  });

  test("and that does not fit is flagged, and the call goes on without it", async () => {
    const under = await tokenIn({ drift: true });
    const other = await under.chat("r1", "something else");
    const first = await under.chat("r1", question);
    await under.send(
      "POST",
      "/r/r1/v1/chat/completions",
      { messages: [...question, messageOfAnswer(first), { role: "user", content: "t2" }] },
      { "x-coppice-parent": String(other.json["id"]) },
    );
    const calls = await under.calls("r1");
    expect(calls[2]).toMatchObject({
      namedParentMisfit: true,
      parentCallId: calls[1]?.callId,
      way: "token-in",
    });
  });
});

describe("an engine that cannot be asked token-in", () => {
  test("is asked with messages under auto, and each record says why", async () => {
    const under = await tokenIn({ scaleOut: false });
    await under.chat("r1", "t1");
    const [call] = await under.calls("r1");
    expect(call).toMatchObject({ way: "text", untrainable: null });
    expect(call?.notes).toEqual([expect.stringMatching(/^text way: .*--enable-scale-out/) as string]);
  });

  test("stops a gateway that is told to ask no other way", async () => {
    await expect(tokenIn({ scaleOut: false }, "token-in")).rejects.toMatchObject({ code: "engine_error" });
  });

  test("is asked with messages for a request with media", async () => {
    const under = await tokenIn();
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
    await under.chat("r1", [{ role: "user", content: [image] }]);
    expect((await under.calls("r1"))[0]).toMatchObject({
      way: "text",
      notes: ["text way: the messages have media"],
    });
  });
});

describe("a step that fails", () => {
  const STEPS = {
    render: "/v1/chat/completions/render",
    generate: "/inference/v1/generate",
    parse: "/v1/chat/completions/derender",
  } as const;

  /** The self-check goes well; from then on the step has the fault. */
  async function failing(step: keyof typeof STEPS, fault: Fault): Promise<UnderTest> {
    let fails = false;
    const script = ({ path }: StandInRequest): Fault | null => (fails && path === STEPS[step] ? fault : null);
    const under = await startUnderTest({
      standIn: { script, drift: true },
      gateway: { way: "token-in", stepWithinMs: 300 },
    });
    fails = true;
    return under;
  }

  const FAULTS: readonly (readonly [string, Fault])[] = [
    ["403", { kind: "status", status: 403, message: "Forbidden" }],
    ["500", { kind: "status", status: 500 }],
    ["garbage", { kind: "body", body: "\u0000 not an answer" }],
    ["other JSON", { kind: "body", body: '{"answer":[1,2]}' }],
    ["a closed connection", { kind: "refuse" }],
  ];

  test.each(
    (["render", "parse"] as const).flatMap((step) =>
      [...FAULTS, ["silence", { kind: "hang" }] as const].map((fault) => [step, ...fault] as const),
    ),
  )("%s, with %s: the agent gets a text-way answer, and the record says why", async (step, _name, fault) => {
    const under = await failing(step, fault);
    const answered = await under.chat("r1", "t1 t2");
    expect(answered.status).toBe(200);
    const [call] = await under.calls("r1");
    expect(call).toMatchObject({ status: "committed", way: "text", untrainable: null });
    expect(call?.notes).toEqual([
      expect.stringMatching(
        step === "render"
          ? /^text way: rendering failed: /
          : /^text way: parsing failed, and \d+ sampled tokens were dropped: /,
      ) as string,
    ]);
    expect(messageOfAnswer(answered)["content"]).toBe(call?.answer?.["content"]);
  });

  test.each(FAULTS.slice(1))(
    "generate, with %s: the agent gets an error and the call has failed",
    async (_name, fault) => {
      const under = await failing("generate", fault);
      const answered = await under.chat("r1", "t1");
      expect(answered.status).toBeGreaterThanOrEqual(500);
      expect(errorOf(answered)["message"]).toEqual(expect.any(String));
      expect((await under.calls("r1"))[0]).toMatchObject({ status: "failed", way: "token-in" });
    },
  );

  test("generate, with silence: the call's deadline ends it with a 504, and the engine sees the close", async () => {
    let fails = false;
    const script = ({ path }: StandInRequest): Fault | null =>
      fails && path === STEPS.generate ? { kind: "hang" } : null;
    const under = await startUnderTest({
      standIn: { script },
      gateway: { way: "token-in", callDeadlineMs: 500 },
    });
    fails = true;
    const answered = await under.chat("r1", "t1");
    expect(answered.status).toBe(504);
    expect((await under.calls("r1"))[0]).toMatchObject({ status: "failed", way: "token-in" });
    const asked = under.standIn.requests.findLast(({ path }) => path === STEPS.generate);
    await eventually("the engine sees the close", () => asked?.clientGoneAt !== null);
  });

  test("generate, refused as closed: the agent gets a text-way answer", async () => {
    const under = await failing("generate", { kind: "status", status: 403, message: "Forbidden" });
    expect((await under.chat("r1", "t1")).status).toBe(200);
    expect((await under.calls("r1"))[0]).toMatchObject({ status: "committed", way: "text" });
  });

  test("generate, broken off in a stream: what was delivered is recorded", async () => {
    const under = await startUnderTest({
      standIn: {
        reasoningParser: false,
        script: ({ path, body }) =>
          path === STEPS.generate && body?.["stream"] === true
            ? [
                { kind: "cut", afterTokens: 3, inside: "event" },
                { kind: "answer", answer: { content: "t1 t2 t3 t4 t5" } },
              ]
            : null,
      },
      gateway: { way: "auto" },
    });
    await under.chat("r1", "t1", { stream: true }).catch(() => undefined);
    const [call] = await under.calls("r1");
    expect(call).toMatchObject({ status: "aborted", way: "token-in", untrainable: null });
    expect([...(call?.generatedTokenIds ?? [])]).toEqual([1, 2, 3]);
  });

  test("an engine that reads another prompt than it was sent leaves no row that trains on it", async () => {
    const under = await startUnderTest({
      gateway: { way: "token-in" },
      engine: (engine) => {
        const own = engine.tokenIn as TokenIn;
        let calls = 0;
        const generate: TokenIn["generate"] = async (ask) => {
          calls += 1;
          const generated = await own.generate(ask);
          return calls === 1 ? generated : { ...generated, promptTokenIds: Uint32Array.of(9, 9, 9) };
        };
        return withOverrides(engine, { tokenIn: withOverrides(own, { generate }) });
      },
    });
    await under.chat("r1", "t1");
    expect((await under.calls("r1"))[0]?.untrainable).toMatch(
      /^the engine read another prompt than it was sent/,
    );
  });
});

/** The object with some of its members replaced; the others run on the object itself, which has private fields. */
function withOverrides<T extends object>(whole: T, overrides: Partial<T>): T {
  return new Proxy(whole, {
    get(target, name) {
      if (Object.hasOwn(overrides, name)) return Reflect.get(overrides, name) as unknown;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}
