import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { startStandIn } from "../engine/stand-in.ts";
import { vllmEngine } from "../engine/vllm.ts";
import { openPostgresLedger } from "../ledger/postgres-ledger.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { newDatabase, type TestDatabase } from "../ledger/testing/postgres-database.ts";
import { startGateway } from "./server.ts";
import { eventually, messageOfAnswer, sender, type Json } from "./testing/gateway-under-test.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await newDatabase();
  await (await openPostgresLedger(database.url)).close();
});
afterAll(() => database.drop());

interface One {
  readonly url: string;
  readonly send: ReturnType<typeof sender>;
  readonly ledger: Ledger;
}

/** Two gateways, each with connections of its own, before one database and one engine. */
async function startTwo(): Promise<readonly [One, One]> {
  const standIn = await startStandIn();
  onTestFinished(() => standIn.close());
  const start = async (): Promise<One> => {
    const engine = vllmEngine({ url: standIn.url, kind: "stand-in" });
    const ledger = await openPostgresLedger(database.url);
    const gateway = await startGateway({
      engine,
      ledger,
      host: "127.0.0.1",
      port: 0,
      drainMs: 500,
      log: () => undefined,
    });
    onTestFinished(async () => {
      await gateway.close();
      await ledger.close();
      await engine.close();
    });
    return { url: gateway.url, send: sender(gateway.url), ledger };
  };
  return [await start(), await start()];
}

async function listenTo(url: string): Promise<{ readonly text: () => string }> {
  const stop = new AbortController();
  const response = await fetch(`${url}/events`, { signal: stop.signal });
  let text = "";
  const reading = (async () => {
    const decoder = new TextDecoder();
    for await (const chunk of response.body as AsyncIterable<Uint8Array>) text += decoder.decode(chunk);
  })().catch(() => undefined);
  onTestFinished(async () => {
    stop.abort();
    await reading;
  });
  return { text: () => text };
}

function chat(gateway: One, rollout: string, messages: readonly Json[]): ReturnType<One["send"]> {
  return gateway.send("POST", `/r/${rollout}/v1/chat/completions`, { model: "any", messages });
}

describe("two gateways before one ledger", () => {
  test("a follow-up through the other one, at once, finds its parent: twenty turns are one tree", async () => {
    const gateways = await startTwo();
    let messages: readonly Json[] = [{ role: "user", content: "begin" }];
    for (let turn = 0; turn < 20; turn++) {
      const answered = await chat(gateways[turn % 2] as One, "ping-pong", messages);
      expect(answered.status, answered.text).toBe(200);
      messages = [...messages, messageOfAnswer(answered), { role: "user", content: `turn ${turn}` }];
    }
    const { json } = await gateways[0].send("GET", "/rollouts/ping-pong");
    const calls = json["calls"] as readonly Json[];
    expect(calls.map((call) => call["parent_call_id"])).toEqual([
      null,
      ...calls.slice(0, -1).map((call) => call["call_id"]),
    ]);
    expect(json["alarms"]).toEqual([]);
  });

  test("an outcome through one seals for the other, whose call then is late; a new attempt counts for both", async () => {
    const [one, other] = await startTwo();
    const answered = await chat(one, "fenced", [{ role: "user", content: "hello" }]);
    const sealed = await other.send("POST", "/rollouts/fenced/outcome", {
      reward: 1,
      accepted: [answered.json["id"]],
    });
    expect(sealed.json["refusal"]).toBeNull();
    expect((await chat(one, "fenced", [{ role: "user", content: "too late" }])).status).toBe(200);
    const view = await other.send("GET", "/rollouts/fenced");
    expect(view.json).toMatchObject({ state: "sealed", counts: { admitted: 1, committed: 1, late: 1 } });
    await other.send("PUT", "/rollouts/fenced", { attempt: 2 });
    await chat(one, "fenced", [{ role: "user", content: "again" }]);
    expect((await other.send("GET", "/rollouts/fenced")).json).toMatchObject({
      attempt: 2,
      state: "open",
      counts: { admitted: 1, committed: 1, late: 0 },
    });
  });

  test("events of one are heard at the other, once, and those of each at its own", async () => {
    const [one, other] = await startTwo();
    const [atOne, atOther] = [await listenTo(one.url), await listenTo(other.url)];
    // Until the word that somebody listens has gone round.
    await eventually(
      "both hear of what the other opens",
      async () => {
        await one.send("PUT", "/rollouts/warm-one", { attempt: null });
        await other.send("PUT", `/rollouts/warm-${Date.now()}`, {});
        await one.send("PUT", `/rollouts/warm-${Date.now()}x`, {});
        await new Promise((resolve) => setTimeout(resolve, 60));
        return atOne.text().includes("rollout_opened") && /warm-\d+x/.test(atOther.text());
      },
      5000,
    );
    const answered = await chat(one, "watched", [{ role: "user", content: "hello" }]);
    const id = answered.headers.get("x-coppice-call-id") as string;
    for (const { text } of [atOne, atOther]) {
      await eventually(
        "it hears of the settled call",
        () => text().includes(`"call_settled"`) && text().includes(id),
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
    for (const { text } of [atOne, atOther]) {
      const settled = text()
        .split("\n\n")
        .filter((event) => event.includes("call_settled") && event.includes(id));
      expect(settled).toHaveLength(1);
    }
  });
});
