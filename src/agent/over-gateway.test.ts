// A conversation over the real gateway, ledger and stand-in: what the scripted server of the other tests cannot tell.
import OpenAI from "openai";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startStandIn, type StandIn } from "../engine/stand-in.ts";
import { vllmEngine } from "../engine/vllm.ts";
import { startGateway, type Gateway } from "../gateway/server.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { openSqliteLedger } from "../ledger/sqlite-ledger.ts";
import { rolloutId } from "../lineage/call.ts";
import { Conversation, openRollout, postOutcome, rolloutBaseUrl } from "./index.ts";

let standIn: StandIn;
let ledger: Ledger;
let gateway: Gateway;

beforeEach(async () => {
  standIn = await startStandIn({ mode: "counters" });
  ledger = await openSqliteLedger(":memory:");
  gateway = await startGateway({
    engine: vllmEngine({ url: standIn.url, logprobsMode: "raw" }),
    ledger,
    host: "127.0.0.1",
    port: 0,
    log: () => undefined,
  });
});

afterEach(async () => {
  await gateway.close();
  await ledger.close();
  await standIn.close();
});

function conversation(id = "r0"): Conversation {
  return new Conversation({
    client: new OpenAI({ baseURL: rolloutBaseUrl(gateway.url, id), apiKey: "k", maxRetries: 0 }),
    rolloutId: id,
    model: "policy",
    task: "t10 t11",
    request: { user: id, seed: 0 },
  });
}

describe("over the real gateway", () => {
  test("streamed and whole answers hang together in one tree, and the outcome seals the rollout", async () => {
    const chat = conversation();
    const heard: string[] = [];
    const first = await chat.ask(undefined, { stream: true, onText: (text) => heard.push(text) });
    expect(heard.join("")).toBe(first.text);
    chat.accept(first);
    chat.reject(await chat.ask("t20 t21"));
    const third = await chat.ask("t30 t31", { stream: true });
    chat.accept(third);
    const sealed = await chat.finish({ reward: 1 });
    expect(sealed).toMatchObject({ rollout_id: "r0", state: "sealed", refusal: null });
    const calls = await ledger.calls({ rolloutId: rolloutId("r0"), attempt: null });
    expect(calls.map((call) => call.parentCallId)).toEqual([null, first.callId, first.callId]);
    expect(calls.map((call) => call.namedParentMisfit)).toEqual([false, false, false]);
    expect(calls.map((call) => [...call.generatedTokenIds])).toEqual([[1001], [1002], [1003]]);
    expect(calls[2]).toMatchObject({ callId: third.callId, responseId: third.responseId });
  });

  test("an outcome that is refused for its references leaves the rollout open, to be corrected", async () => {
    const chat = conversation();
    chat.accept(await chat.ask());
    const options = { gatewayUrl: gateway.url };
    await expect(postOutcome("r0", { reward: 1, accepted: ["resp-nobody"] }, options)).rejects.toMatchObject({
      code: "gateway_refused",
      status: 422,
    });
    await expect(chat.finish({ reward: 1 })).resolves.toMatchObject({ state: "sealed" });
  });

  test("a failure of the agent seals the rollout without rows", async () => {
    const chat = conversation();
    await chat.ask();
    expect(await chat.fail("the tool broke")).toMatchObject({
      state: "sealed",
      refusal: { reason: "failed_by_agent" },
    });
  });

  test("two rollouts with one group and index are a refusal in the gateway's words", async () => {
    const options = { gatewayUrl: gateway.url };
    const fields = { groupId: "g", groupSize: 2, generationIndex: 0 };
    await openRollout("r0", fields, options);
    await expect(openRollout("r1", fields, options)).rejects.toMatchObject({
      code: "gateway_refused",
      status: 409,
    });
  });

  test("a client whose path names another rollout is refused, not recorded under the wrong one", async () => {
    const chat = new Conversation({
      client: new OpenAI({ baseURL: rolloutBaseUrl(gateway.url, "other"), apiKey: "k", maxRetries: 0 }),
      rolloutId: "r0",
      model: "policy",
      task: "t10 t11",
    });
    await expect(chat.ask()).rejects.toMatchObject({ status: 400 });
    expect(await ledger.rollouts({})).toEqual([]);
  });
});
