// What a repeat of a request is given: field case verifiers 2368.
import { describe, expect, test } from "vitest";
import type { Ledger } from "../ledger/ledger.ts";
import { KeptAnswers, type KeptAnswer, type RequestKey } from "./kept-answers.ts";
import { rolloutId } from "../lineage/call.ts";
import { eventually, startUnderTest, type Answered, type UnderTest } from "./testing/gateway-under-test.ts";
import { rawPost } from "./testing/raw-client.ts";

const PATH = "/r/r1/v1/chat/completions";
const BODY = { model: "any", messages: [{ role: "user", content: "P" }], max_tokens: 5 };

/** A ledger whose next commit waits until it is let go. */
function holdingCommits(): {
  readonly wrap: (ledger: Ledger) => Ledger;
  hold(): () => void;
  held(): boolean;
} {
  let gate: Promise<void> | null = null;
  let held = false;
  return {
    hold: () => {
      let open = (): void => undefined;
      gate = new Promise((resolve) => (open = resolve));
      return () => open();
    },
    held: () => held,
    wrap: (ledger) =>
      new Proxy(ledger, {
        get(target, name) {
          const value: unknown = Reflect.get(target, name);
          if (typeof value !== "function") return value;
          if (name !== "settle") return value.bind(target) as unknown;
          return async (call: Parameters<Ledger["settle"]>[0]) => {
            const waiting = gate;
            gate = null;
            held = waiting !== null;
            await waiting;
            held = false;
            return target.settle(call);
          };
        },
      }),
  };
}

/** Posts, and leaves while the answer's commit is under way. */
async function leaveAtCommit(
  under: UnderTest,
  gate: ReturnType<typeof holdingCommits>,
  body: unknown,
): Promise<void> {
  const open = gate.hold();
  const dropped = await rawPost(under.url, PATH, body);
  await eventually("the commit is under way", () => gate.held());
  dropped.leave();
  await dropped.closed;
  await new Promise((resolve) => setTimeout(resolve, 20));
  open();
  await eventually("the call is committed", async () => (await under.calls("r1"))[0]?.status === "committed");
}

function idsOf(answered: Answered): unknown[] {
  const id = /"id":"(chatcmpl-[0-9a-f]+)"/.exec(answered.text)?.[1];
  return [id, answered.headers.get("x-coppice-call-id")];
}

describe("the same body again", () => {
  test.each([false, true])(
    "after an answer that was committed and did not arrive is given that answer, once, and recorded once (verifiers 2368 a); streamed: %s",
    async (stream) => {
      const gate = holdingCommits();
      const under = await startUnderTest({ ledger: gate.wrap });
      const body = { ...BODY, stream, client_metadata: { turn: 1 } };
      await leaveAtCommit(under, gate, body);
      const [first] = await under.calls("r1");
      // Key order, spelling of numbers, spaces and client_metadata are no difference.
      const text = `{ "stream":${stream}, "max_tokens":5.0,"client_metadata":{"turn":2},
        "messages":[{"content":"P","role":"user"}],"model":"any"}`;
      const again = await under.send("POST", PATH, text);
      expect(idsOf(again)).toEqual([first?.responseId, first?.callId]);
      expect(again.text.endsWith("data: [DONE]\n\n")).toBe(stream);
      expect(again.text).toContain(String(first?.answer?.["content"]).split(" ")[0]);
      expect(await under.calls("r1")).toHaveLength(1);
      // That one arrived: from here on a repeat is a sample.
      const third = await under.send("POST", PATH, text);
      expect(idsOf(third)).not.toEqual(idsOf(again));
      expect(await under.calls("r1")).toHaveLength(2);
    },
  );

  test("after an answer that arrived is sampled anew, whatever a retry counter says (verifiers 2368 b)", async () => {
    const under = await startUnderTest();
    const first = await under.send("POST", PATH, BODY);
    const second = await under.send("POST", PATH, BODY, { "x-stainless-retry-count": "1" });
    expect(idsOf(second)).not.toEqual(idsOf(first));
    const calls = await under.calls("r1");
    expect(calls.map(({ parentCallId }) => parentCallId)).toEqual([null, null]);
    expect(calls[1]?.rootReason).toEqual({ kind: "asked_again", rootCallId: calls[0]?.callId });
  });

  test("of another rollout, agent or attempt is sampled anew", async () => {
    const gate = holdingCommits();
    const under = await startUnderTest({ ledger: gate.wrap });
    await leaveAtCommit(under, gate, BODY);
    const [first] = await under.calls("r1");
    const other = await under.send("POST", "/r/r2/v1/chat/completions", BODY);
    const labelled = await under.send("POST", "/r/r1/a/sub/v1/chat/completions", BODY);
    await under.send("PUT", "/rollouts/r1", { attempt: 2 });
    const anew = await under.send("POST", PATH, BODY);
    for (const answered of [other, labelled, anew]) expect(idsOf(answered)).not.toContain(first?.callId);
    expect((await under.calls("r1")).map(({ attempt }) => attempt)).toEqual([2]);
  });
});

describe("an Idempotency-Key", () => {
  test("gives the same answer again, even one that arrived; with another body it is sampled anew (verifiers 2368 a, c)", async () => {
    const under = await startUnderTest();
    const headers = { "idempotency-key": "k1" };
    const first = await under.send("POST", PATH, BODY, headers);
    const again = await under.send("POST", PATH, BODY, headers);
    const third = await under.send("POST", PATH, BODY, headers);
    expect([idsOf(again), idsOf(third)]).toEqual([idsOf(first), idsOf(first)]);
    const otherBody = await under.send("POST", PATH, { ...BODY, max_tokens: 6 }, headers);
    const otherKey = await under.send("POST", PATH, BODY, { "idempotency-key": "k2" });
    expect(new Set([first, otherBody, otherKey].map((one) => idsOf(one)[0])).size).toBe(3);
    expect(await under.calls("r1")).toHaveLength(3);
  });

  test("is waited for while it is in flight, and the answer is shared", async () => {
    const under = await startUnderTest({ standIn: { delayMs: 20 } });
    const send = (): Promise<Answered> => under.send("POST", PATH, BODY, { "idempotency-key": "k1" });
    const answers = await Promise.all([send(), send(), send()]);
    expect(new Set(answers.map((one) => idsOf(one)[1])).size).toBe(1);
    expect(await under.calls("r1")).toHaveLength(1);
  });

  test("whose first request came to nothing is sampled by the next, not by all at once", async () => {
    const under = await startUnderTest({
      standIn: {
        delayMs: 10,
        script: (_request, count) => (count === 1 ? { kind: "status", status: 500 } : null),
      },
    });
    const send = (): Promise<Answered> => under.send("POST", PATH, BODY, { "idempotency-key": "k1" });
    const answers = await Promise.all([send(), send(), send()]);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(2);
    expect(answers.filter(({ status }) => status === 500)).toHaveLength(1);
    expect((await under.calls("r1")).map(({ status }) => status)).toEqual(["failed", "committed"]);
  });
});

describe("kept answers", () => {
  const key = (fields: Partial<RequestKey>): RequestKey => ({
    rolloutId: rolloutId("r"),
    agent: null,
    namedParent: null,
    api: "completions",
    idempotencyKey: null,
    body: {},
    ...fields,
  });
  const answer = (length: number): KeptAnswer => ({
    attempt: 1,
    streamed: false,
    headers: {},
    text: "x".repeat(length),
  });
  const { signal } = new AbortController();

  test("are bounded together: the oldest goes first", async () => {
    const kept = new KeptAnswers({ length: 100 });
    for (let index = 0; index < 50; index++) kept.open(key({ body: { index } })).keep(answer(30));
    expect(kept.length).toBe(90);
    expect(await kept.open(key({ body: { index: 46 } })).find(signal)).toBeNull();
    expect(await kept.open(key({ body: { index: 47 } })).find(signal)).not.toBeNull();
  });

  test("go with their rollout", async () => {
    const kept = new KeptAnswers();
    kept.open(key({ body: { index: 1 } })).keep(answer(3));
    kept.open(key({ body: { index: 2 } })).keep(answer(3));
    kept.open(key({ rolloutId: rolloutId("other") })).keep(answer(4));
    kept.forgetRollout(rolloutId("r"));
    expect(kept.length).toBe(4);
    expect(await kept.open(key({ body: { index: 1 } })).find(signal)).toBeNull();
  });

  test("are forgotten after their time", async () => {
    const kept = new KeptAnswers({ withinMs: 5 });
    kept.open(key({})).keep(answer(3));
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(await kept.open(key({})).find(signal)).toBeNull();
    expect(kept.length).toBe(0);
  });

  test("are another's for another path, parent or agent", async () => {
    const kept = new KeptAnswers();
    kept.open(key({})).keep(answer(3));
    for (const other of [
      { api: "responses" },
      { namedParent: "p" },
      { agent: "a" },
      { idempotencyKey: "k" },
    ]) {
      const request = kept.open(key(other));
      expect(await request.find(signal)).toBeNull();
      request.release();
    }
  });
});
