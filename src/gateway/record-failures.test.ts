import { describe, expect, test } from "vitest";
import { CoppiceError } from "../errors.ts";
import { errorOf, eventually, startUnderTest, type UnderTestOptions } from "./testing/gateway-under-test.ts";

/** A ledger that fails some verbs for as long as `fails` says so. */
function failing(fails: (verb: string, call: unknown) => boolean): NonNullable<UnderTestOptions["ledger"]> {
  return (ledger) =>
    new Proxy(ledger, {
      get: (target, verb: string) => {
        const value: unknown = Reflect.get(target, verb);
        if (typeof value !== "function") return value;
        return (...args: unknown[]) =>
          fails(verb, args[0])
            ? Promise.reject(new CoppiceError("ledger_error", "the disk is full"))
            : (value as (...args: unknown[]) => unknown).apply(target, args);
      },
    });
}

function statusOf(call: unknown): unknown {
  return (call as { readonly status?: unknown }).status;
}

describe("a record that cannot be written", () => {
  test("never fails the agent's answer; the call is marked unknown, and the mark waits until the ledger takes it", async () => {
    let broken = true;
    const under = await startUnderTest({ ledger: failing((verb) => broken && verb === "settle") });
    for (const stream of [false, true]) {
      const answered = await under.chat("r1", "hello", { stream });
      expect(answered.status).toBe(200);
      expect(answered.text).toContain(stream ? "[DONE]" : '"finish_reason"');
    }
    expect((await under.calls("r1")).map((call) => call.status)).toEqual(["admitted", "admitted"]);
    const { text } = await under.send("GET", "/metrics");
    expect(text).toContain("coppice_record_failures_total 2\n");
    expect(text).toContain("coppice_unmarked_records 2\n");
    expect(under.logged.filter(({ event }) => event === "call_not_recorded")).toHaveLength(2);
    broken = false;
    await eventually("the marks are on disk", async () =>
      (await under.calls("r1")).every((call) => call.status === "unknown"),
    );
    expect((await under.calls("r1"))[0]?.statusDetail).toBe("the answer was not recorded: the disk is full");
  });

  test("for a reason of its own is marked unknown at once, and what comes after goes on", async () => {
    const under = await startUnderTest({
      ledger: failing((verb, call) => verb === "settle" && statusOf(call) === "committed"),
    });
    const answered = await under.chat("r1", "hello");
    expect(answered.status).toBe(200);
    await eventually("the mark is there", async () => (await under.calls("r1"))[0]?.status === "unknown");
  });

  test("holds the outcome back: sealing would turn the missing answer into something harmless", async () => {
    let broken = true;
    const under = await startUnderTest({ ledger: failing((verb) => broken && verb === "settle") });
    const answered = await under.chat("r1", "hello");
    const outcome = { reward: 1, final: answered.json["id"] };
    const held = await under.send("POST", "/rollouts/r1/outcome", outcome);
    expect(held.status).toBe(500);
    expect(errorOf(held)).toMatchObject({ code: "ledger_error" });
    broken = false;
    const refused = await under.send("POST", "/rollouts/r1/outcome", outcome);
    expect(refused.status).toBe(200);
    expect(refused.json["refusal"]).toMatchObject({ reason: "capture_incomplete" });
  });

  test("of a call that failed anyway is tried again as what it is", async () => {
    let broken = true;
    const under = await startUnderTest({ ledger: failing((verb) => broken && verb === "settle") });
    expect((await under.chat("r1", "@@fault:http500@@")).status).toBe(500);
    broken = false;
    await eventually("the record is there", async () => (await under.calls("r1"))[0]?.status === "failed");
  });

  test("while its parent is looked for is marked unknown too", async () => {
    const under = await startUnderTest({ ledger: failing((verb) => verb === "summaries") });
    await under.ledger.admit([
      {
        rolloutId: "r1" as never,
        callId: "by-another-gateway" as never,
        responseId: "x",
        admittedAt: 1,
        agent: null,
        class: null,
      },
    ]);
    expect((await under.chat("r1", "hello")).status).toBe(200);
    await eventually("the mark is there", async () => (await under.calls("r1"))[1]?.status === "unknown");
  });

  test("after shutdown still reads as unknown: the admitted record is there", async () => {
    const under = await startUnderTest({ ledger: failing((verb) => verb === "settle") });
    await under.chat("r1", "hello");
    await under.gateway.close();
    expect(under.logged.map(({ event }) => event)).toContain("marks_left_to_the_admitted_records");
    expect((await under.calls("r1"))[0]?.status).toBe("admitted");
  });
});

describe("a call that cannot be admitted", () => {
  test("is refused before the engine is asked", async () => {
    const under = await startUnderTest({ ledger: failing((verb) => verb === "admit") });
    const answered = await under.chat("r1", "hello");
    expect(answered.status).toBe(503);
    expect(answered.headers.get("retry-after")).toBe("1");
    expect(errorOf(answered)["message"]).toContain("the disk is full");
    expect(under.standIn.requests.filter(({ method }) => method === "POST")).toHaveLength(0);
  });
});
