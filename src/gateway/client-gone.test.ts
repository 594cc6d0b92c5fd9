import { describe, expect, test } from "vitest";
import type { Ledger } from "../ledger/ledger.ts";
import type { Call } from "../lineage/call.ts";
import {
  eventually,
  messageOfAnswer,
  startUnderTest,
  type Json,
  type UnderTest,
} from "./testing/gateway-under-test.ts";
import { rawPost } from "./testing/raw-client.ts";
import { chunk, replyOf, streamUntilAborted, withChat } from "./testing/scripted-engine.ts";

function user(content: string, fields: Json = {}): Json {
  return { model: "m", messages: [{ role: "user", content }], ...fields };
}

/** The rollout's last call, once it has settled. */
function settled(under: UnderTest, rollout: string, withinMs = 2000): Promise<Call> {
  return eventually(
    "the call is settled",
    async () => {
      const call = (await under.calls(rollout)).at(-1);
      return call !== undefined && call.status !== "admitted" ? call : null;
    },
    withinMs,
  );
}

function wasAsked(under: UnderTest): boolean {
  return under.standIn.requests.some(({ path }) => path === "/v1/chat/completions");
}

function withSlowSettles(ledger: Ledger, delayMs: number): Ledger {
  return new Proxy(ledger, {
    get: (target, verb) => {
      const value: unknown = Reflect.get(target, verb);
      if (typeof value !== "function") return value;
      return async (...args: unknown[]) => {
        if (verb === "settle") await new Promise((resolve) => setTimeout(resolve, delayMs));
        return (value as (...args: unknown[]) => unknown).apply(target, args);
      };
    },
  });
}

async function engineSawItWithin(under: UnderTest, leftAt: number, ms: number): Promise<void> {
  const request = await eventually("the engine sees the close", () =>
    under.standIn.requests.find((one) => one.clientGoneAt !== null),
  );
  expect((request.clientGoneAt as number) - leftAt).toBeLessThan(ms);
}

describe("a client that goes away", () => {
  test("before the first byte of a stream: the engine sees it within a second, the call is aborted with nothing (litellm 30244)", async () => {
    const under = await startUnderTest();
    const call = await rawPost(
      under.url,
      "/r/r1/v1/chat/completions",
      user("@@fault:hang@@", { stream: true }),
    );
    await eventually("the engine is asked", () => wasAsked(under));
    await new Promise((resolve) => setTimeout(resolve, 30));
    const leftAt = performance.now();
    call.leave();
    await engineSawItWithin(under, leftAt, 1000);
    expect(await settled(under, "r1")).toMatchObject({
      status: "aborted",
      statusDetail: "the client went away",
      finishReason: "abort",
      generatedLength: 0,
      answer: null,
    });
  });

  test("while an answer that is not streamed is on its way: the same", async () => {
    const under = await startUnderTest();
    const call = await rawPost(
      under.url,
      "/r/r1/v1/chat/completions",
      user("@@fault:slow=50@@", { max_tokens: 100 }),
    );
    await eventually("the engine is asked", () => wasAsked(under));
    await new Promise((resolve) => setTimeout(resolve, 60));
    const leftAt = performance.now();
    call.leave();
    await engineSawItWithin(under, leftAt, 1000);
    expect(await settled(under, "r1")).toMatchObject({ status: "aborted", generatedLength: 0 });
  });

  test("in the middle of a stream: the call ends with the last token that was delivered, and may train", async () => {
    const under = await startUnderTest();
    const call = await rawPost(
      under.url,
      "/r/r1/v1/chat/completions",
      user("@@fault:stall=5@@", { stream: true, max_tokens: 50 }),
    );
    const count = (): number => call.received().split('"content":"').length - 1;
    await eventually("five tokens came", () => count() >= 6);
    const leftAt = performance.now();
    call.leave();
    await engineSawItWithin(under, leftAt, 1000);
    const record = await settled(under, "r1");
    expect(record).toMatchObject({
      status: "aborted",
      generatedLength: 5,
      untrainable: null,
      finishReason: "abort",
    });
    expect(record.generatedLogprobs).toHaveLength(5);
    expect(record.address).not.toBeNull();
    const texts = call.received().matchAll(/"content":"([^"]*)"/g);
    expect(record.answer?.["content"]).toBe([...texts].map(([, text]) => text).join(""));
  });

  test("and goes on from half an answer: its next call hangs under the aborted one", async () => {
    const under = await startUnderTest({ standIn: { template: "bare" } });
    const call = await rawPost(
      under.url,
      "/r/r1/v1/chat/completions",
      user("@@fault:stall=5@@", { stream: true, max_tokens: 50 }),
    );
    await eventually("five tokens came", () => call.received().split('"content":"').length - 1 >= 6);
    call.leave();
    const half = await settled(under, "r1");
    await under.chat("r1", [
      { role: "user", content: "@@fault:stall=5@@" },
      { role: "assistant", content: half.answer?.["content"] },
      { role: "user", content: " go on" },
    ]);
    const [first, second] = await under.calls("r1");
    expect(second?.parentCallId).toBe(first?.callId);
  });

  test("and posts the same again at once: both calls are there, and the answer's next call hangs under the second (miles 1826)", async () => {
    const under = await startUnderTest({
      standIn: { script: (_request, count) => (count === 1 ? { kind: "hang" } : null) },
    });
    const dropped = await rawPost(under.url, "/r/r1/v1/chat/completions", user("P"));
    await eventually("the engine is asked", () => wasAsked(under));
    dropped.leave();
    const again = await under.chat("r1", "P");
    await under.chat("r1", [
      { role: "user", content: "P" },
      { role: "assistant", content: messageOfAnswer(again)["content"] },
      { role: "user", content: "U2" },
    ]);
    const [first, second, third] = await under.calls("r1");
    expect([first?.status, second?.status, third?.status]).toEqual(["aborted", "committed", "committed"]);
    expect([first?.parentCallId, second?.parentCallId]).toEqual([null, null]);
    expect(third?.parentCallId).toBe(second?.callId);
    // Settled before the second was admitted, so that it could have been its parent.
    expect(first?.settledOrder).toBeLessThan(second?.admittedOrder as number);
  });

  test("while it posts again on another open connection: the first is settled before the second is admitted", async () => {
    const under = await startUnderTest();
    for (let round = 0; round < 20; round++) {
      const rollout = `r-${round}`;
      const path = `/r/${rollout}/v1/chat/completions`;
      const other = await rawPost(under.url, path, user("warm up"));
      await other.until("chatcmpl");
      const dropped = await rawPost(
        under.url,
        path,
        user("@@fault:stall=3@@", { stream: true, max_tokens: 9, ignore_eos: true }),
      );
      await eventually("three tokens came", () => dropped.received().split('"content":"').length - 1 >= 4);
      const body = JSON.stringify(user("again"));
      dropped.leave();
      other.socket.write(
        `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      await eventually("the second call is there", async () => (await under.calls(rollout)).length === 3);
      const [, first, second] = await under.calls(rollout);
      expect(first?.status).toBe("aborted");
      expect(first?.settledOrder).toBeLessThan(second?.admittedOrder as number);
      other.leave();
    }
  });

  test("is settled before its next call is admitted, however long that takes", async () => {
    const under = await startUnderTest({ ledger: (ledger) => withSlowSettles(ledger, 150) });
    const dropped = await rawPost(under.url, "/r/r1/v1/chat/completions", user("@@fault:hang@@"));
    await eventually("the engine is asked", () => wasAsked(under));
    dropped.leave();
    await under.chat("r1", "again");
    const [first, second] = await under.calls("r1");
    expect(first?.status).toBe("aborted");
    expect(first?.settledOrder).toBeLessThan(second?.admittedOrder as number);
  });

  test("before its request is whole leaves no record and no call in flight", async () => {
    const under = await startUnderTest();
    const call = await rawPost(under.url, "/healthz", {});
    call.socket.write(
      "POST /r/r1/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{",
    );
    await eventually(
      "the call is in flight",
      async () => (await metric(under, "coppice_calls_in_flight")) === 1,
    );
    call.leave();
    await eventually("it is gone", async () => (await metric(under, "coppice_calls_in_flight")) === 0);
    expect((await under.send("GET", "/rollouts/r1")).status).toBe(404);
  });

  test("after many calls of one connection leaves no listener behind on it", async () => {
    const under = await startUnderTest();
    const call = await rawPost(under.url, "/r/r1/v1/chat/completions", user("0"));
    await call.until("chatcmpl");
    const body = JSON.stringify(user("1"));
    for (let round = 0; round < 30; round++) {
      const seen = call.received().split("chatcmpl-").length;
      call.socket.write(
        `POST /r/r1/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      await eventually("the answer is there", () => call.received().split("chatcmpl-").length > seen);
    }
    expect(await metric(under, "coppice_calls_in_flight")).toBe(0);
    expect((await under.calls("r1")).every((one) => one.status === "committed")).toBe(true);
  });
});

describe("a client that reads slowly", () => {
  test("holds the engine back instead of filling memory, and gets all of it in the end", async () => {
    let taken = 0;
    const under = await startUnderTest({
      engine: (engine) =>
        withChat(engine, async (request) => {
          for (; taken < 60; taken++)
            await request.onChunk?.({ json: chunk("x".repeat(500_000)), terminal: false });
          await request.onChunk?.({ json: chunk("end", "stop"), terminal: true });
          return replyOf("complete", 61);
        }),
    });
    const call = await rawPost(under.url, "/r/r1/v1/chat/completions", user("x", { stream: true }));
    call.socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 500));
    const whilePaused = taken;
    // What fits into the sockets' own buffers, and not one chunk more.
    expect(whilePaused).toBeLessThan(50);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(taken).toBe(whilePaused);
    let bytes = 0;
    call.socket.on("data", (piece: Buffer) => (bytes += piece.length));
    call.socket.resume();
    expect(await settled(under, "r1", 10_000)).toMatchObject({ status: "committed", generatedLength: 61 });
    await eventually("all of it came", () => bytes > 30_000_000, 10_000);
    call.leave();
  });

  test("and never reads at all is let go at the call's deadline", async () => {
    let taken = 0;
    const under = await startUnderTest({
      engine: (engine) =>
        withChat(engine, (request) =>
          streamUntilAborted(request, "x".repeat(500_000), (count) => (taken = count)),
        ),
      gateway: { callDeadlineMs: 600 },
    });
    const call = await rawPost(under.url, "/r/r1/v1/chat/completions", user("x", { stream: true }));
    call.socket.pause();
    const record = await settled(under, "r1");
    expect(record.status).toBe("aborted");
    expect(record.statusDetail).toContain("deadline of 600 ms");
    expect(record.generatedLength).toBeGreaterThan(0);
    expect(taken).toBeLessThan(60);
    await eventually("the call is over", async () => (await metric(under, "coppice_calls_in_flight")) === 0);
    call.leave();
  });
});

async function metric(under: UnderTest, name: string): Promise<number> {
  const { text } = await under.send("GET", "/metrics");
  const line = text.split("\n").find((one) => one.startsWith(`${name} `));
  return Number(line?.split(" ")[1]);
}
