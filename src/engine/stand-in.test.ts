import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startStandIn, type StandIn, type StandInOptions } from "./stand-in.ts";
import { MARKER_NAMES } from "./stand-in/faults.ts";
import { specialId } from "./stand-in/tokenizer.ts";
import { frames, post, until } from "./testing/ask.ts";
import { RECORDED, recorded } from "./testing/recorded.ts";

interface Choice {
  readonly index: number;
  readonly message: {
    readonly content: string | null;
    readonly tool_calls?: readonly { readonly id: string }[];
  };
  readonly delta: { readonly content?: string };
  readonly text: string;
  readonly finish_reason: string | null;
  readonly stop_reason: string | number | null;
  readonly token_ids: number[] | null;
  readonly logprobs: { readonly content: readonly { readonly logprob: number }[] } | null;
  readonly prompt_logprobs: readonly (Record<string, { readonly logprob: number }> | null)[];
}

interface Answer {
  readonly id: string;
  readonly model: string;
  readonly choices: readonly [Choice, ...Choice[]];
  readonly prompt_token_ids: number[] | null;
  readonly usage: { readonly completion_tokens: number; readonly prompt_tokens: number };
}

const open: StandIn[] = [];

async function start(options: StandInOptions = {}): Promise<StandIn> {
  const standIn = await startStandIn(options);
  open.push(standIn);
  return standIn;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((standIn) => standIn.close()));
});

async function chat(standIn: StandIn, body: Record<string, unknown>): Promise<Answer> {
  const { status, body: text } = await post(standIn.url, "/v1/chat/completions", body);
  if (status !== 200) throw new Error(`${status} ${text}`);
  return JSON.parse(text) as Answer;
}

async function complete(standIn: StandIn, body: Record<string, unknown>): Promise<Answer> {
  return JSON.parse((await post(standIn.url, "/v1/completions", body)).body) as Answer;
}

async function stream(standIn: StandIn, body: Record<string, unknown>): Promise<Answer[]> {
  const { body: text } = await post(standIn.url, "/v1/chat/completions", { ...body, stream: true });
  expect(frames(text).at(-1)).toBe("[DONE]");
  return frames(text)
    .slice(0, -1)
    .map((frame) => JSON.parse(frame) as Answer);
}

function ask(content: string): { messages: { role: string; content: string }[] } {
  return { messages: [{ role: "user", content }] };
}

const CAPTURE = { return_token_ids: true, logprobs: true };

/** The logprobs of the first choice. */
function logprobs(answer: Answer): number[] {
  return answer.choices[0].logprobs?.content.map((entry) => entry.logprob) ?? [];
}

describe("the stand-in's worked example", () => {
  it.each(["seed-compaction-off", "seed-compaction-on"])(
    "samples every call of the vector %s exactly",
    async (name) => {
      const vector = JSON.parse(
        readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), "utf8"),
      ) as {
        trace: {
          type: string;
          rollout_id: string;
          prompt_token_ids: number[];
          generated_token_ids: number[];
          generated_logprobs: number[];
          finish_reason: string;
        }[];
      };
      const standIn = await start({ mode: "counters" });
      const calls = vector.trace.filter(({ type }) => type === "call");
      expect(calls.length).toBeGreaterThan(9);
      for (const call of calls) {
        const content = call.prompt_token_ids.map((id) => `t${id}`).join(" ");
        const seed = call.rollout_id === "r0" ? 0 : 1;
        const answer = await chat(standIn, { ...ask(content), ...CAPTURE, user: call.rollout_id, seed });
        expect(answer.prompt_token_ids).toEqual(call.prompt_token_ids);
        expect(answer.choices[0].token_ids).toEqual(call.generated_token_ids);
        expect(logprobs(answer)).toEqual(call.generated_logprobs);
        expect(answer.choices[0].finish_reason).toBe(call.finish_reason);
      }
    },
  );

  it("tells further tokens of an answer -0.5, -0.75 and so on", async () => {
    const answer = { kind: "answer", answer: { content: "t5 t6 t7" } } as const;
    const standIn = await start({ mode: "counters", script: () => answer });
    expect(logprobs(await chat(standIn, { ...ask("t1"), ...CAPTURE }))).toEqual([-0.25, -0.5, -0.75]);
  });

  it("counts choices and not requests that were refused", async () => {
    const standIn = await start({
      mode: "counters",
      script: (_request, count) => (count === 2 ? { kind: "status", status: 429 } : null),
    });
    const { choices } = await chat(standIn, { ...ask("t1"), ...CAPTURE, n: 2 });
    expect(choices.map((choice) => choice.token_ids)).toEqual([[1001], [1002]]);
    expect((await post(standIn.url, "/v1/chat/completions", ask("t1"))).status).toBe(429);
    expect((await chat(standIn, { ...ask("t1"), ...CAPTURE })).choices[0].token_ids).toEqual([1003]);
  });
});

describe("the stand-in's sampling", () => {
  it("answers alike in every run, and alike again for one seed or temperature 0", async () => {
    const [one, other] = [await start(), await start()];
    const request = { ...ask("t1 t2"), ...CAPTURE, max_tokens: 40 };
    const first = await chat(one, request);
    expect((await chat(other, request)).choices).toEqual(first.choices);
    expect((await chat(one, request)).choices[0].token_ids).not.toEqual(first.choices[0].token_ids);
    for (const fixed of [{ seed: 5 }, { temperature: 0 }]) {
      const again = await chat(one, { ...request, ...fixed });
      expect((await chat(one, { ...request, ...fixed })).choices).toEqual(again.choices);
    }
    const two = await chat(one, { ...request, seed: 5, n: 2 });
    expect(two.choices[0].token_ids).not.toEqual(two.choices[1]?.token_ids);
  });

  it("keeps to max_tokens, 16 by default, and says length where it cut", async () => {
    const standIn = await start();
    const lengths = new Set<string>();
    for (let seed = 0; seed < 30; seed++) {
      const { choices, usage } = await chat(standIn, { ...ask("t1"), ...CAPTURE, seed });
      expect(usage.completion_tokens).toBe(choices[0].token_ids?.length);
      expect(usage.completion_tokens).toBeLessThanOrEqual(16);
      lengths.add(choices[0].finish_reason ?? "");
    }
    expect([...lengths].sort()).toEqual(["length", "stop"]);
    const exact = await chat(standIn, { ...ask("t1"), ...CAPTURE, max_tokens: 512, ignore_eos: true });
    expect(exact.choices[0]).toMatchObject({ finish_reason: "length" });
    expect(exact.usage.completion_tokens).toBe(512);
  });

  it("keeps stop words in the ids and out of the text, streamed text lagging behind (as vLLM)", async () => {
    const answer = { kind: "answer", answer: { content: "t1 t2 t3 t4" } } as const;
    const standIn = await start({ script: () => answer });
    const request = { ...ask("t1"), ...CAPTURE, stop: ["t3"] };
    const whole = await chat(standIn, request);
    expect(whole.choices[0]).toMatchObject({
      finish_reason: "stop",
      stop_reason: "t3",
      token_ids: [1, 2, 3],
    });
    expect(whole.choices[0].message.content).toBe("t1 t2 ");
    const chunks = await stream(standIn, request);
    expect(chunks.map((chunk) => chunk.choices[0].delta.content)).toEqual(["", "t", "1 t", "2 "]);
    const byId = await chat(standIn, { ...ask("t1"), ...CAPTURE, stop_token_ids: [2] });
    expect(byId.choices[0]).toMatchObject({ stop_reason: 2, token_ids: [1, 2] });
  });

  it("ends a chatml turn with the turn-end id, which stands once when echoed and not at all when cut (slime 514, labs-molt 131)", async () => {
    const standIn = await start({ template: "chatml", mode: "counters" });
    const end = specialId("<|im_end|>");
    const first = await chat(standIn, { ...ask("t1"), ...CAPTURE });
    expect(first.choices[0]).toMatchObject({ finish_reason: "stop", token_ids: [1001, end] });
    expect(first.choices[0].message.content).toBe("t1001");
    const sequence = [...(first.prompt_token_ids ?? []), 1001, end];
    const history = [
      ...ask("t1").messages,
      { role: "assistant", content: "t1001" },
      { role: "user", content: "t2" },
    ];
    const next = await chat(standIn, { messages: history, ...CAPTURE });
    expect(next.prompt_token_ids?.slice(0, sequence.length)).toEqual(sequence);
    expect(next.prompt_token_ids?.slice(sequence.length)).toEqual([
      specialId("<|user|>"),
      2,
      end,
      specialId("<|assistant|>"),
    ]);
    const cut = await chat(standIn, { ...ask("t1"), ...CAPTURE, max_tokens: 1 });
    expect(cut.choices[0]).toMatchObject({ finish_reason: "length", token_ids: [1003] });
  });

  it("takes an echoed answer back with the same ids, its reasoning and tool calls included, unless it drifts (trl 5224)", async () => {
    const answer = {
      reasoning: "t7 t8",
      content: "well, t6 t7 世",
      toolCalls: [{ name: "bash", arguments: '{"cmd":"é"}' }],
    };
    const request = { ...ask("t1"), ...CAPTURE, max_tokens: 200 };
    for (const drift of [false, true]) {
      for (const template of ["bare", "chatml"] as const) {
        const standIn = await start({ template, drift, script: () => ({ kind: "answer", answer }) });
        const first = await chat(standIn, request);
        const sequence = [...(first.prompt_token_ids ?? []), ...(first.choices[0].token_ids ?? [])];
        const next = await chat(standIn, {
          ...request,
          messages: [...request.messages, first.choices[0].message],
        });
        expect(next.prompt_token_ids?.slice(0, sequence.length)).toEqual(sequence);
      }
    }
    const drifting = await start({ drift: true });
    const sampled = await chat(drifting, { ...ask("x"), ...CAPTURE, min_tokens: 4 });
    const echoed = await chat(drifting, {
      messages: [...ask("x").messages, sampled.choices[0].message],
      ...CAPTURE,
    });
    const sequence = [...(sampled.prompt_token_ids ?? []), ...(sampled.choices[0].token_ids ?? [])];
    expect(echoed.prompt_token_ids?.slice(0, 2)).not.toEqual(sequence.slice(0, 2));
    expect(echoed.prompt_token_ids?.length).toBeLessThan(sequence.length);
  });
});

describe("the stand-in's re-scoring", () => {
  it.each(["counters", "sampler"] as const)(
    "tells for a whole row what it told when sampling, in %s mode",
    async (mode) => {
      const standIn = await start({ mode });
      let ids = [10, 11];
      const told = new Map<number, number>();
      for (let call = 0; call < 4; call++) {
        const answer = await complete(standIn, {
          prompt: ids,
          logprobs: 0,
          return_token_ids: true,
          max_tokens: 6,
        });
        const { token_logprobs: values } = answer.choices[0].logprobs as unknown as {
          token_logprobs: number[];
        };
        values.forEach((value, place) => told.set(ids.length + place, value));
        // Every other call goes on without an observation in between.
        ids = [...ids, ...(answer.choices[0].token_ids ?? []), ...(call % 2 === 0 ? [20, 21] : [])];
      }
      const scored = (await complete(standIn, { prompt: ids, max_tokens: 1, prompt_logprobs: 0 })).choices[0]
        .prompt_logprobs;
      expect(scored[0]).toBeNull();
      expect(told.size).toBeGreaterThan(3);
      for (const [place, value] of told) expect(scored[place]?.[String(ids[place])]?.logprob).toBe(value);
    },
  );

  it("does not shift what is sampled for others", async () => {
    const standIn = await start({ mode: "counters" });
    await complete(standIn, { prompt: [1, 2], max_tokens: 1, prompt_logprobs: 0 });
    expect((await chat(standIn, { ...ask("t1"), ...CAPTURE })).choices[0].token_ids).toEqual([1001]);
  });
});

/** Keys in order and kinds of values; lists by the shape of their first entry, records keyed by tokens by their size. */
function shape(value: unknown, key = ""): unknown {
  if (Array.isArray(value)) return value.length === 0 ? [] : [shape(value[0], key)];
  if (key === "top_logprobs" && value !== null && !("token" in (value as object)))
    return Object.keys(value as object).length;
  if (value === null || typeof value !== "object") return value === null ? null : typeof value;
  return Object.entries(value)
    .filter(([name]) => !(key === "usage" && name === "prompt_tokens_details"))
    .map(([name, inner]) => [
      name,
      name === "prompt_token_ids" && inner !== null ? "ids" : shape(inner, name),
    ]);
}

function shapes(body: string, streamed: boolean): unknown[] {
  const parts = streamed ? frames(body) : [body];
  const told = parts.map((part) => (part === "[DONE]" ? part : JSON.stringify(shape(JSON.parse(part)))));
  return told.filter((part, place) => part !== told[place - 1]);
}

describe("the stand-in's byte shapes", () => {
  let standIn: StandIn;
  beforeAll(async () => {
    standIn = await startStandIn({
      script: () => ({ kind: "answer", answer: { content: "t1 t2 t3 t4 t5 t6" } }),
    });
  });
  afterAll(() => standIn.close());

  const names = RECORDED.map(({ name }) => name).filter((name) =>
    /^(chat|completions)_(plain|capture|top2|logprobs|ids|n2|continuous|text|stop)/.test(name),
  );

  it.each(names)("are vLLM 0.32.0's own: %s", async (name) => {
    const { request, response } = recorded(name);
    const asked = { ...(request.body as Record<string, unknown>) };
    // The same texts cannot be sampled here: stop at what is.
    if (asked["stop"] !== undefined) asked["stop"] = ["t4 t5"];
    if (typeof asked["prompt"] !== "string" && asked["prompt"] !== undefined) asked["prompt"] = [1, 2];
    const streamed = asked["stream"] === true;
    const answer = await post(standIn.url, request.path, asked);
    expect(answer.contentType).toBe(response.content_type);
    const told = shapes(answer.body, streamed);
    const real = shapes(response.body, streamed);
    // A last token of the real engine is its turn-end, which adds no text; the bare template has none.
    const strip = (parts: unknown[]): unknown[] =>
      parts.map((part) => String(part).replace('["delta",[["content","string"]]]', '["delta",[]]'));
    const distinct = (parts: unknown[]): unknown[] =>
      parts.filter((part, place) => part !== parts[place - 1]);
    // Choices side by side finish in any order.
    const ordered = (parts: unknown[]): unknown => (asked["n"] === 2 ? new Set(parts) : distinct(parts));
    expect(ordered(strip(told))).toEqual(ordered(strip(real)));
  });

  it.each([
    "error_bad_model",
    "error_bad_model_stream",
    "error_max_tokens_zero",
    "error_logprobs_50",
    "rescore_no_max",
  ])("are vLLM's for a refusal: %s", async (name) => {
    const strict = await start({ strictModel: true, model: "smollm2" });
    const { request, response } = recorded(name);
    const answer = await post(strict.url, request.path, request.body);
    expect(answer.status).toBe(response.status);
    expect(JSON.parse(answer.body)).toEqual(JSON.parse(response.body));
  });

  it("are vLLM's for a prompt that is too long, but for the numbers", async () => {
    const short = await start({ maxModelLength: 2048 });
    const { request, response } = recorded("error_too_long");
    const answer = await post(short.url, request.path, request.body);
    expect([answer.status, JSON.parse(answer.body)]).toEqual([response.status, JSON.parse(response.body)]);
  });

  it("are vLLM's for tokens, models, versions and weights", async () => {
    const get = async (path: string): Promise<unknown> => (await fetch(standIn.url + path)).json();
    expect(shape(await get("/v1/models"))).toEqual(shape(JSON.parse(recorded("models").response.body)));
    expect(await get("/weight_info")).toEqual({ weight_version: "default" });
    const updated = await post(standIn.url, "/update_weight_version", { new_version: "step-7" });
    expect(updated.body).toBe(recorded("update_weight_version").response.body);
    expect(standIn.weightVersion).toBe("step-7");
    const tokens = { messages: ask("t1 t2").messages, return_token_strs: true };
    expect(shape(JSON.parse((await post(standIn.url, "/tokenize", tokens)).body))).toEqual(
      shape(JSON.parse(recorded("tokenize_messages").response.body)),
    );
    expect((await post(standIn.url, "/detokenize", { tokens: [1, 2] })).body).toBe('{"prompt":"t1 t2"}');
    expect((await post(standIn.url, "/detokenize", { tokens: [1, 4_000_000_000] })).body).toBe(
      '{"prompt":""}',
    );
    expect((await fetch(`${standIn.url}/health`)).status).toBe(200);
    expect(await get("/version")).toEqual({ version: "0.32.0+stand-in" });
    expect((await fetch(`${standIn.url}/nope`)).status).toBe(404);
  });
});

describe("the stand-in's manners", () => {
  it("tells ids and log-probs only when asked (vllm 27561)", async () => {
    const standIn = await start();
    const { choices, prompt_token_ids: prompt } = await chat(standIn, ask("t1"));
    expect([prompt, choices[0].token_ids, choices[0].logprobs]).toEqual([null, null, null]);
    const streamed = await post(standIn.url, "/v1/chat/completions", { ...ask("t1"), stream: true });
    expect(streamed.body).not.toMatch(/"(prompt_)?token_ids":\[|"logprob":|"usage"/);
  });

  it("makes its ids of the client's request id, and tool-call ids of its own that never repeat", async () => {
    const standIn = await start();
    const { body } = await post(standIn.url, "/v1/chat/completions", ask("t1"), { "x-request-id": "abc123" });
    expect((JSON.parse(body) as Answer).id).toBe("chatcmpl-abc123");
    const tool = { ...ask("@@fault:tool@@"), max_tokens: 100, n: 2 };
    const ids = [...(await chat(standIn, tool)).choices, ...(await chat(standIn, tool)).choices].map(
      (choice) => choice.message.tool_calls?.[0]?.id,
    );
    expect(new Set(ids).size).toBe(4);
  });

  it("wants its API key where it has one", async () => {
    const standIn = await start({ apiKey: "secret" });
    expect((await post(standIn.url, "/v1/chat/completions", ask("t1"))).status).toBe(401);
    const key = { authorization: "Bearer secret" };
    expect((await post(standIn.url, "/v1/chat/completions", ask("t1"), key)).status).toBe(200);
  });

  it("names every marker it has when it is given one that it has not", async () => {
    const standIn = await start();
    const { status, body } = await post(standIn.url, "/v1/chat/completions", ask("@@fault:nope@@"));
    expect(status).toBe(400);
    expect(body).toContain("the stand-in has no fault nope");
    for (const name of MARKER_NAMES) expect(body).toContain(name);
    const deaf = await start({ markers: false });
    expect((await post(deaf.url, "/v1/chat/completions", ask("@@fault:nope@@"))).status).toBe(200);
  });

  it("remembers requests, the newest, and when a client went away", async () => {
    const standIn = await start({ keepRequests: 2 });
    for (const user of ["a", "b", "c"]) await chat(standIn, { ...ask("t1"), user });
    expect(standIn.requests.map((request) => request.body?.["user"])).toEqual(["b", "c"]);
    await until(() => standIn.requests[1]?.answeredAt !== null);
    expect(standIn.requests[1]?.clientGoneAt).toBeNull();
    const gone = new AbortController();
    const hanging = fetch(`${standIn.url}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify(ask("@@fault:hang@@")),
      signal: gone.signal,
    }).catch((error: unknown) => error);
    await until(() => standIn.requests.at(-1)?.body?.["user"] === undefined && standIn.requests.length === 2);
    gone.abort();
    await hanging;
    await until(() => standIn.requests.at(-1)?.clientGoneAt !== null);
    expect(standIn.requests.at(-1)?.answeredAt).toBeNull();
  });

  it("does not take its own breaking off for the client's going away", async () => {
    const standIn = await start();
    for (const marker of ["refuse", "cut"]) {
      const broken = post(standIn.url, "/v1/chat/completions", ask(`@@fault:${marker}@@`));
      await expect(broken).rejects.toThrow();
    }
    expect(standIn.requests.map((request) => request.clientGoneAt)).toEqual([null, null]);
  });

  it("answers a thousand calls in a few seconds", async () => {
    const standIn = await start({ keepRequests: 10 });
    const started = performance.now();
    for (let round = 0; round < 20; round++) {
      await Promise.all(Array.from({ length: 50 }, () => chat(standIn, { ...ask("t1 t2"), ...CAPTURE })));
    }
    expect(performance.now() - started).toBeLessThan(8_000);
  });
});
