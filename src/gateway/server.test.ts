import { describe, expect, test } from "vitest";
import { startGateway } from "./server.ts";
import { errorOf, eventually, framesOf, startUnderTest, type Json } from "./testing/gateway-under-test.ts";
import { rawPost } from "./testing/raw-client.ts";

describe("closing", () => {
  test("waits for calls in flight, and their answers are whole", async () => {
    const under = await startUnderTest({ gateway: { drainMs: 5000 } });
    const whole = under.chat("r1", "@@fault:slow=60@@", { max_tokens: 4 });
    const streamed = under.chat("r1", "@@fault:slow=60@@", { max_tokens: 4, stream: true });
    await eventually("both are in flight", async () => (await under.calls("r1")).length === 2);
    const closing = under.gateway.close();
    expect((await whole).status).toBe(200);
    expect(framesOf((await streamed).text).at(-1)).toBe("[DONE]");
    await closing;
    expect((await under.calls("r1")).map((call) => call.status)).toEqual(["committed", "committed"]);
    await expect(fetch(`${under.url}/healthz`)).rejects.toThrow();
  });

  test("ends calls that outlast the bound: the client is told, the call is recorded", async () => {
    const under = await startUnderTest({ gateway: { drainMs: 100 } });
    const hanging = under.chat("r1", "@@fault:hang@@");
    const stalled = await rawPost(under.url, "/r/r1/v1/chat/completions", {
      stream: true,
      messages: [{ role: "user", content: "@@fault:stall=2@@" }],
      ignore_eos: true,
    });
    await stalled.until('"content":"t');
    await eventually("both are in flight", async () => (await under.calls("r1")).length === 2);
    const began = performance.now();
    await under.gateway.close();
    expect(performance.now() - began).toBeLessThan(3000);
    const answered = await hanging;
    expect([answered.status, errorOf(answered)["message"]]).toEqual([503, "the gateway is shutting down"]);
    await stalled.closed;
    expect(stalled.received()).toContain("shutting down");
    expect(stalled.received()).not.toContain("[DONE]");
    const calls = await under.calls("r1");
    expect(calls.map((call) => call.status).sort()).toEqual(["aborted", "failed"]);
    await eventually(
      "the engine saw both closes",
      () => under.standIn.requests.filter((request) => request.clientGoneAt !== null).length === 2,
    );
  });

  test("takes no new calls on connections that are still open", async () => {
    const under = await startUnderTest({ gateway: { drainMs: 3000 } });
    const other = await rawPost(under.url, "/r/r2/v1/chat/completions", {
      stream: true,
      max_tokens: 3,
      messages: [{ role: "user", content: "@@fault:slow=100@@" }],
    });
    await other.until('"content":"t');
    const closing = under.gateway.close();
    const body = JSON.stringify({ messages: [{ role: "user", content: "x" }] });
    other.socket.write(
      `POST /r/r2/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await other.until("[DONE]");
    await closing;
    expect(await under.calls("r2")).toHaveLength(1);
  });

  test("is not ready, and says that it drains", async () => {
    const under = await startUnderTest({ gateway: { drainMs: 3000 } });
    const other = await rawPost(under.url, "/r/r2/v1/chat/completions", {
      stream: true,
      max_tokens: 3,
      messages: [{ role: "user", content: "@@fault:slow=100@@" }],
    });
    await other.until('"content":"t');
    const waiting = await rawPost(under.url, "/r/r3/v1/chat/completions", { messages: [] });
    await waiting.until("error");
    const closing = under.gateway.close();
    waiting.socket.write("GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n");
    await Promise.race([waiting.until('"draining"'), waiting.closed]);
    await closing;
    const said = waiting.received().split("HTTP/1.1 ").at(-1) ?? "";
    // An idle connection may be ended before it asks; one that is answered hears the truth.
    expect(said).toMatch(/^(503[^]*draining|400)/);
  });

  test("a second time is the first", async () => {
    const under = await startUnderTest();
    await Promise.all([under.gateway.close(), under.gateway.close()]);
    expect(under.logged.map(({ event }) => event)).toEqual(["started", "stopped"]);
  });
});

describe("health", () => {
  test("ready while engine and ledger answer, and not ready, by name, when one does not", async () => {
    const under = await startUnderTest();
    expect((await under.send("GET", "/healthz")).json).toEqual({ status: "ok" });
    expect((await under.send("GET", "/readyz")).json).toEqual({
      status: "ready",
      engine: "ok",
      ledger: "ok",
    });
    await under.standIn.close();
    const answered = await under.send("GET", "/readyz");
    expect(answered.status).toBe(503);
    expect(answered.json).toMatchObject({ status: "not ready", ledger: "ok" });
    expect((await under.send("GET", "/healthz")).status).toBe(200);
  });

  test("metrics count what happened, in Prometheus' text format", async () => {
    const under = await startUnderTest();
    await under.chat("r1", "one");
    await under.chat("r1", "two");
    await under.chat("r1", "@@fault:http500@@");
    await under.chat("r1", "@@fault:ids=-1@@");
    const answered = await under.send("GET", "/metrics");
    expect(answered.headers.get("content-type")).toContain("version=0.0.4");
    for (const line of [
      'coppice_calls_total{way="text",status="committed"} 3',
      'coppice_calls_total{way="text",status="failed"} 1',
      'coppice_roots_total{reason="rewrite"} 2',
      'coppice_engine_errors_total{code="engine_error"} 1',
      "coppice_untrainable_calls_total 1",
      "coppice_commit_seconds_count 4",
      "coppice_calls_in_flight 0",
      "coppice_record_failures_total 0",
    ]) {
      expect(answered.text).toContain(`${line}\n`);
    }
    for (const line of answered.text.trimEnd().split("\n")) {
      expect(line).toMatch(
        /^(# (HELP|TYPE) (coppice|process)_\w+ .+|(coppice|process)_\w+(\{(\w+="[^"]*",?)+\})? [0-9.e+-]+)$/,
      );
    }
  });
});

describe("events", () => {
  test("tell what happens to rollouts and calls while it happens", async () => {
    const under = await startUnderTest();
    const stop = new AbortController();
    const response = await fetch(`${under.url}/events`, { signal: stop.signal });
    const events: Json[] = [];
    const reading = (async () => {
      for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
        for (const frame of framesOfEvents(Buffer.from(bytes).toString("utf8"))) events.push(frame);
      }
    })().catch(() => undefined);
    await under.send("PUT", "/rollouts/r1", { group_id: "g" });
    await under.chat("r1", "hello");
    await under.chat("r2", "hello");
    await under.send("POST", "/rollouts/r1/outcome", { failed: "x" });
    await under.send("DELETE", "/rollouts/r1");
    await eventually("all events came", () => events.length >= 8);
    expect(events.map((event) => [event["type"], event["rollout_id"]])).toEqual([
      ["rollout_opened", "r1"],
      ["call_admitted", "r1"],
      ["call_settled", "r1"],
      ["rollout_opened", "r2"],
      ["call_admitted", "r2"],
      ["call_settled", "r2"],
      ["rollout_sealed", "r1"],
      ["rollout_swept", "r1"],
    ]);
    expect(JSON.stringify(events)).not.toContain("hello");
    stop.abort();
    await reading;
  });
});

describe("routes of others", () => {
  test("are added before the service listens, under the same keys", async () => {
    const under = await startUnderTest({
      gateway: {
        operatorKeys: ["operator-key"],
        extend: (routes) =>
          routes.add({
            method: "GET",
            url: "/",
            permission: "operate",
            handle: (_request, reply) => reply.send({ page: 1 }),
          }),
      },
    });
    expect((await under.send("GET", "/")).status).toBe(401);
    const answered = await under.send("GET", "/", undefined, { authorization: "Bearer operator-key" });
    expect(answered.json).toEqual({ page: 1 });
    expect((await under.send("POST", "/")).status).toBe(405);
  });
});

describe("two gateways on one ledger", () => {
  test("see each other's commits at once: a follow-up through the second finds its parent (Gym 2180)", async () => {
    const under = await startUnderTest();
    const second = await startGateway({
      engine: under.engine,
      ledger: under.ledger,
      host: "127.0.0.1",
      port: 0,
      log: () => undefined,
    });
    try {
      const urls = [under.url, second.url];
      const messages: Json[] = [{ role: "user", content: "start" }];
      for (let turn = 0; turn < 8; turn++) {
        const response = await fetch(`${urls[turn % 2]}/r/r1/v1/chat/completions`, {
          method: "POST",
          body: JSON.stringify({ messages }),
        });
        const answer = (await response.json()) as { choices: [{ message: Json }] };
        messages.push(answer.choices[0].message, { role: "user", content: `turn ${turn}` });
      }
      const calls = await under.calls("r1");
      expect(calls.map((call) => call.parentCallId)).toEqual([
        null,
        ...calls.slice(0, -1).map((call) => call.callId),
      ]);
    } finally {
      await second.close();
    }
  });
});

function framesOfEvents(text: string): Json[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith("data: "))
    .map((line) => JSON.parse(line.slice("data: ".length)) as Json);
}
