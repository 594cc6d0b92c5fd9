// Reported faults that are best seen from the client's end and stand nowhere else: what agents do beside their main
// chain, and what every client asks beside its calls. docs/field-cases.md says where each report is held.
import { describe, expect, onTestFinished, test } from "vitest";
import { startCanned } from "../engine/testing/canned-server.ts";
import { recordedBody } from "../engine/testing/recorded.ts";
import { vllmEngine } from "../engine/vllm.ts";
import {
  framesOf,
  messageOfAnswer,
  startUnderTest,
  type Json,
  type UnderTest,
} from "./testing/gateway-under-test.ts";

async function rowsOf(under: UnderTest, rollout: string, outcome: Json): Promise<readonly Json[]> {
  const sealed = await under.send("POST", `/rollouts/${rollout}/outcome`, { reward: 1, ...outcome });
  expect(sealed.json).toMatchObject({ refusal: null });
  const { text } = await under.send("GET", `/rollouts/${rollout}/rows`);
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Json);
}

/** One turn after the other, each on what came before; the history they end with. */
async function chain(
  under: UnderTest,
  rollout: string,
  start: readonly Json[],
  turns: number,
): Promise<Json[]> {
  let history = [...start];
  for (let turn = 0; turn < turns; turn++) {
    const answered = await under.chat(rollout, history, { max_tokens: 4 });
    history = [...history, messageOfAnswer(answered), { role: "user", content: `t${turn}` }];
  }
  return history;
}

describe("calls beside the main chain", () => {
  test("a title call among three turns is recorded under its own class and never trained (rllm 795)", async () => {
    const under = await startUnderTest();
    await chain(under, "r1", [{ role: "user", content: "t7 t8" }], 2);
    const title = { messages: [{ role: "user", content: "A title for: t7 t8" }], max_tokens: 4 };
    await under.send("POST", "/r/r1/v1/chat/completions", title, { "x-coppice-class": "title" });
    await under.send("POST", "/r/r1/v1/messages", title, { "x-claude-code-request-class": "auxiliary" });
    const calls = await under.calls("r1");
    expect(calls.map((call) => call.class)).toEqual([null, null, "title", "auxiliary"]);
    const rows = await rowsOf(under, "r1", { infer: true });
    expect(rows.map((row) => row["call_ids"])).toEqual([[calls[0]?.callId, calls[1]?.callId]]);
  });

  test("a chain, its summary, and a chain from the summary are three rows; the summary trains once (verl 5375)", async () => {
    const under = await startUnderTest();
    const history = await chain(under, "r1", [{ role: "user", content: "t7 t8" }], 3);
    const asked = [{ role: "user", content: `Sum up: ${JSON.stringify(history)}` }];
    const summary = messageOfAnswer(await under.chat("r1", asked, { max_tokens: 6 }));
    await chain(under, "r1", [{ role: "user", content: `So far: ${String(summary["content"])}` }], 2);
    const calls = await under.calls("r1");
    const rows = await rowsOf(under, "r1", { accepted: calls.map(({ responseId }) => responseId) });
    expect(rows.map((row) => (row["call_ids"] as unknown[]).length)).toEqual([3, 1, 2]);
    const lengths = calls.map(({ generatedLength }) => generatedLength) as [
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    const [one, two, three, summed, five, six] = lengths;
    expect(rows.map((row) => row["row_trainable_tokens"])).toEqual([one + two + three, summed, five + six]);
  });
});

describe("an engine that tells ids only where it does not stream", () => {
  test("is asked whole, its client gets a stream with heartbeats meanwhile, and the call trains (sglang 30917)", async () => {
    const under = await startUnderTest({
      standIn: {
        script: (request) => (request.body?.["stream"] === true ? { kind: "no_ids", when: "always" } : null),
      },
      gateway: { heartbeatMs: 30 },
      engine: ({ url }) => vllmEngine({ url, kind: "stand-in", askWhole: true }),
    });
    const answered = await under.chat("r1", "@@fault:slow=40@@", { stream: true, max_tokens: 4 });
    expect(answered.text.startsWith(": ")).toBe(true);
    expect(framesOf(answered.text).at(-1)).toBe("[DONE]");
    expect((await under.calls("r1"))[0]).toMatchObject({ untrainable: null, generatedLength: 4 });
  });
});

const ALLOWED: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "content-type",
  "cache-control",
  "date",
  "keep-alive",
  "transfer-encoding",
  "x-accel-buffering",
  "x-coppice-call-id",
]);

describe("what stands around a call", () => {
  test("headers of an answer are the gateway's own: the engine's go no further", async () => {
    const body = recordedBody("chat_capture_whole");
    const headers = {
      "set-cookie": "a=b",
      server: "uvicorn",
      "x-request-id": "1",
      "access-control-allow-origin": "*",
    };
    const canned = await startCanned({ contentType: "application/json", body, headers });
    onTestFinished(() => canned.close());
    const under = await startUnderTest({
      gateway: { model: "policy" },
      engine: () => vllmEngine({ url: canned.url }),
    });
    for (const stream of [false, true]) {
      const answered = await under.chat("r1", "x", { stream });
      expect(answered.status).toBe(200);
      expect([...answered.headers.keys()].filter((name) => !ALLOWED.has(name))).toEqual([]);
    }
  });

  test.each(["/chat/completions", "/responses", "/messages", "/completions"])(
    "a 429 of the engine has a Retry-After at %s, told by the engine or not",
    async (path) => {
      const told = await startUnderTest({
        standIn: { script: () => ({ kind: "status", status: 429, retryAfter: "7" }) },
      });
      const untold = await startUnderTest({ standIn: { script: () => ({ kind: "status", status: 429 }) } });
      const body = {
        model: "any",
        max_tokens: 4,
        messages: [{ role: "user", content: "x" }],
        input: "x",
        prompt: "x",
      };
      const { messages, input, prompt, ...rest } = body;
      const own = path === "/responses" ? { input } : path === "/completions" ? { prompt } : { messages };
      for (const [under, after] of [
        [told, "7"],
        [untold, "1"],
      ] as const) {
        const answered = await under.send("POST", `/r/r1/v1${path}`, { ...rest, ...own });
        expect([answered.status, answered.headers.get("retry-after")]).toEqual([429, after]);
      }
    },
  );

  test("a client that looks first finds somebody, by HEAD or GET, under every base URL", async () => {
    const under = await startUnderTest();
    for (const base of ["/r/r1", "/r/r1/v1", "/r/r1/v1/v1", "/r/r1/a/sub", "/r/r1/a/sub/v1", ""]) {
      for (const path of [`${base}/api/hello`, ...(base === "" ? [] : [base])]) {
        expect([path, (await under.send("HEAD", path)).status]).toEqual([path, 200]);
        expect((await under.send("GET", path)).status).toBe(200);
      }
    }
    const calls = await under.send("GET", "/rollouts/r1");
    expect(calls.status).toBe(404);
  });

  test("a burst of 25 count_tokens is answered, tells the prompt's true length, and records nothing", async () => {
    const under = await startUnderTest({ standIn: { template: "chatml" } });
    const body = { model: "any", messages: [{ role: "user", content: "t1 t2 t3" }], max_tokens: 4 };
    const counted = await Promise.all(
      Array.from({ length: 25 }, () => under.send("POST", "/r/r1/v1/messages/count_tokens?beta=true", body)),
    );
    expect(counted.map(({ status }) => status)).toEqual(Array.from({ length: 25 }, () => 200));
    expect((await under.send("GET", "/rollouts/r1")).status).toBe(404);
    const answered = await under.send("POST", "/r/r1/v1/messages", body);
    const usage = answered.json["usage"] as Json;
    expect(counted[0]?.json["input_tokens"]).toBe(usage["input_tokens"]);
    const [call] = await under.calls("r1");
    expect(call?.carriedLength).toBe(usage["input_tokens"]);
  });
});
