// Part of the ledger contract: admitting, settling, reading, and what the next process finds.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { callId, summaryOf, type Call } from "../../lineage/call.ts";
import { digestCall } from "../../lineage/record-digest.ts";
import type { Admitted } from "../ledger.ts";
import { admitOne, expectDigests, expectRefusal, type Subject } from "./contract-subject.ts";
import { admission, answer, anyAnswer, key, opening, outcome } from "./sample-calls.ts";

export function describeCalls(subject: Subject): void {
  describe("admitting", () => {
    test("a call to a rollout that nobody opened opens it, and is there to be seen", async () => {
      const { ledger } = subject;
      const admitted = await admitOne(
        ledger,
        admission("c1", { responseId: null, agent: "planner", class: "sub_agent", admittedAt: 77.5 }),
      );
      expect(admitted).toEqual({
        callId: "c1",
        attempt: 1,
        admittedOrder: 1,
        late: false,
        sampling: null,
        deadlineAt: null,
        rolloutWeightVersion: null,
      });
      expect(await ledger.rollout(key())).toMatchObject({
        state: "open",
        openedAt: 77.5,
        counts: { admitted: 1 },
      });
      const seen = {
        status: "admitted",
        agent: "planner",
        class: "sub_agent",
        admittedAt: 77.5,
        settledOrder: null,
      };
      const calls = await ledger.calls(key());
      expect(calls).toMatchObject([{ ...seen, callId: "c1", responseId: null }]);
      expect(await ledger.call(callId("c1"))).toEqual(calls[0]);
      expect(await ledger.summaries(key(), 0)).toMatchObject([seen]);
      expect(await ledger.sequence(callId("c1"))).toBeNull();
      expectDigests(calls);
    });

    test("it is told the settings that the rollout was opened with", async () => {
      const { ledger } = subject;
      await ledger.open(opening({ sampling: { temperature: 1 }, deadlineAt: 9000 }));
      expect(await admitOne(ledger, admission("c1"))).toMatchObject({
        sampling: { temperature: 1 },
        deadlineAt: 9000,
      });
    });

    test("a call id is used once: no call of the list is admitted", async () => {
      const { ledger } = subject;
      const one = await admitOne(ledger, admission("c1"));
      const taken = { call_id: "c1" };
      await expectRefusal(ledger.admit([admission("c2"), admission("c1")]), "conflict", taken);
      await ledger.settle(answer(one));
      await expectRefusal(ledger.admit([admission("c2"), admission("c1")]), "conflict", taken);
      await expectRefusal(ledger.admit([admission("c3"), admission("c3")]), "conflict", { call_id: "c3" });
      expect((await ledger.rollout(key()))?.counts.admitted).toBe(1);
      expect(await ledger.call(callId("c2"))).toBeNull();
      expect(await admitOne(ledger, admission("c2"))).toMatchObject({ admittedOrder: 3 });
    });
  });

  describe("settling", () => {
    test("one count orders admissions and settles without gaps, for each attempt its own", async () => {
      const { ledger } = subject;
      const one = await admitOne(ledger, admission("c1"));
      const [two, three] = await ledger.admit([admission("c2"), admission("c3")]);
      const settledTwo = await ledger.settle(answer(two as Admitted));
      const four = await admitOne(ledger, admission("c4"));
      const rest = [];
      for (const admitted of [four, one, three as Admitted]) rest.push(await ledger.settle(answer(admitted)));
      const orders = [one, two, three, four].map((admitted) => admitted?.admittedOrder);
      expect(orders).toEqual([1, 2, 3, 5]);
      expect([settledTwo, ...rest].map((settled) => settled.call.settledOrder)).toEqual([4, 6, 7, 8]);
      await ledger.open(opening({ attempt: 2 }));
      expect(await admitOne(ledger, admission("c5"))).toMatchObject({ attempt: 2, admittedOrder: 1 });
    });

    test("every way of settling is counted under its name", async () => {
      const { ledger } = subject;
      const statuses = ["committed", "aborted", "failed", "unknown", "committed"] as const;
      const admitted = await ledger.admit(statuses.map((_, index) => admission(`c${index}`)));
      for (const [index, status] of statuses.entries()) {
        await ledger.settle(
          answer(admitted[index] as Admitted, { more: { status, statusDetail: "because" } }),
        );
      }
      expect((await ledger.rollout(key()))?.counts).toEqual({
        admitted: 5,
        committed: 2,
        failed: 1,
        aborted: 1,
        unknown: 1,
        late: 0,
      });
      expect(await ledger.calls(key())).toMatchObject(
        statuses.map((status) => ({ status, statusDetail: "because" })),
      );
    });

    test("any call is read back exactly, and its digest holds", async () => {
      const { ledger } = subject;
      let next = 0;
      await fc.assert(
        fc.asyncProperty(anyAnswer(), async (more) => {
          const admitted = await admitOne(ledger, admission(`c${next++}`));
          const pending = answer(admitted, { more });
          const { call } = await ledger.settle(pending);
          expect(call).toEqual({ ...pending, settledOrder: call.settledOrder, digest: call.digest });
          expect(call.digest).toBe(digestCall(call));
          const read = await ledger.call(call.callId);
          expect(read).toEqual(call);
          expect(digestCall(read as Call)).toBe(call.digest);
        }),
        { numRuns: 60 },
      );
      const all = await ledger.calls(key());
      expect(all.map((call) => call.callId)).toEqual(Array.from({ length: next }, (_, index) => `c${index}`));
      expectDigests(all);
      expect(await ledger.summaries(key(), 0)).toEqual(all.map(summaryOf));
    });

    test("what is not a field of a call is not kept, so that the digest can be made again", async () => {
      const { ledger } = subject;
      const admitted = await admitOne(ledger, admission("c1"));
      const weightVersions = [{ start: 0, version: "7", extra: 1 }];
      await ledger.settle({ ...answer(admitted, { more: { weightVersions } }), stray: true } as never);
      const call = await ledger.call(callId("c1"));
      expect(call).not.toHaveProperty("stray");
      expectDigests([call as Call]);
    });

    test("tokens that are a view of a larger buffer are kept as what the view shows", async () => {
      const { ledger } = subject;
      const admitted = await admitOne(ledger, admission("c1"));
      const buffer = Uint32Array.from({ length: 1000 }, (_, index) => index);
      const { call } = await ledger.settle(
        answer(admitted, { more: { carriedTokenIds: buffer.subarray(7, 9) } }),
      );
      expect([...((await ledger.call(call.callId)) as Call).carriedTokenIds]).toEqual([7, 8]);
    });

    test("a call that was never admitted, or not so, cannot settle", async () => {
      const { ledger } = subject;
      const ghost: Admitted = { ...(await admitOne(ledger, admission("c1"))), callId: callId("ghost") };
      await expectRefusal(ledger.settle(answer(ghost)), "not_found");
      await expectRefusal(ledger.settle(answer({ ...ghost, attempt: 2 })), "not_found");
      const real = { ...ghost, callId: callId("c1") };
      await expectRefusal(ledger.settle(answer(real, { more: { status: "admitted" } })), "invalid_request");
      await expectRefusal(ledger.settle(answer({ ...real, admittedOrder: 9 })), "invalid_request");
      expect(await ledger.call(real.callId)).toMatchObject({ status: "admitted" });
      expect((await ledger.settle(answer(real))).call.settledOrder).toBe(2);
    });

    test("a refused settle leaves those that arrive with it alone", async () => {
      const { ledger } = subject;
      const admitted = await ledger.admit([admission("c1"), admission("c2")]);
      const [one, two] = admitted as [Admitted, Admitted];
      const results = await Promise.allSettled([
        ledger.settle(answer(one)),
        ledger.settle(answer({ ...one, callId: callId("ghost") })),
        ledger.settle(answer(two)),
      ]);
      expect(results.map((result) => result.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
      expect((await ledger.calls(key())).map((call) => call.settledOrder)).toEqual([3, 4]);
    });

    test("calls that arrive together in any mix get every place once, and digests hold", async () => {
      const { ledger } = subject;
      const work = Array.from({ length: 40 }, async (_, index) => {
        const admitted = await admitOne(ledger, admission(`c${index}`));
        if (index % 4 === 3) return;
        await ledger.settle(answer(admitted, { prompt: [index], generated: [index, 7] }));
      });
      await Promise.all(work);
      const calls = await ledger.calls(key());
      const places = calls.flatMap((call) => [call.admittedOrder, call.settledOrder ?? []]).flat();
      expect(places.toSorted((one, other) => one - other)).toEqual(
        Array.from({ length: 70 }, (_, index) => index + 1),
      );
      expect((await ledger.rollout(key()))?.counts).toMatchObject({ admitted: 40, committed: 30 });
      expectDigests(calls);
    });
  });

  describe("reading", () => {
    test("summaries since a place are what has changed since, by its last place", async () => {
      const { ledger } = subject;
      const [one, two] = (await ledger.admit([admission("c1"), admission("c2")])) as [Admitted, Admitted];
      await admitOne(ledger, admission("c3"));
      await ledger.settle(answer(two));
      await ledger.settle(answer(one));
      const since = async (order: number): Promise<string[]> =>
        (await ledger.summaries(key(), order)).map((call) => call.callId);
      expect(await since(0)).toEqual(["c3", "c2", "c1"]);
      expect(await since(3)).toEqual(["c2", "c1"]);
      expect(await since(4)).toEqual(["c1"]);
      expect(await since(5)).toEqual([]);
      const first = await ledger.summaries(key(), 0, 2);
      expect(first.map((call) => call.callId)).toEqual(["c3", "c2"]);
      expect((await ledger.summaries(key(), 4, 2)).map((call) => call.callId)).toEqual(["c1"]);
    });

    test("a sequence is joined from the ancestors", async () => {
      const { ledger } = subject;
      const tokens = [10, 11, 1001, 101, 102, 1002, 201, 1003];
      const root = await ledger.settle(
        answer(await admitOne(ledger, admission("c1")), { prompt: tokens.slice(0, 2), generated: [1001] }),
      );
      const child = await ledger.settle(
        answer(await admitOne(ledger, admission("c2")), {
          prompt: tokens.slice(0, 5),
          generated: [1002],
          parent: root.call,
        }),
      );
      await ledger.settle(
        answer(await admitOne(ledger, admission("c3")), {
          prompt: tokens.slice(0, 7),
          generated: [1003],
          parent: child.call,
        }),
      );
      const read = (await ledger.call(callId("c3"))) as Call;
      expect([...read.carriedTokenIds]).toEqual([201]);
      expect(read.parentCallId).toBe("c2");
      expect([...((await ledger.sequence(callId("c3"))) as Uint32Array)]).toEqual(tokens);
      expect([...((await ledger.sequence(callId("c1"))) as Uint32Array)]).toEqual([10, 11, 1001]);
      expect(await ledger.sequence(callId("nobody"))).toBeNull();
    });

    test("twins, calls with the same sequence, are two calls", async () => {
      const { ledger } = subject;
      const [one, two] = (await ledger.admit([admission("c1"), admission("c2")])) as [Admitted, Admitted];
      await Promise.all([ledger.settle(answer(one)), ledger.settle(answer(two))]);
      const calls = await ledger.calls(key());
      expect(calls[0]?.address).toBe(calls[1]?.address);
      expect(new Set(calls.map((call) => call.digest)).size).toBe(2);
    });
  });

  describe("after a restart", () => {
    test("settled calls are what they were, calls in flight are unknown, and the counts prove it", async () => {
      const admitted = await subject.ledger.admit(
        ["c1", "c2", "c3"].map((id) => admission(id, { agent: "a" })),
      );
      const { call } = await subject.ledger.settle(answer(admitted[1] as Admitted));
      await subject.restart();
      const calls = await subject.ledger.calls(key());
      expect(calls.map((read) => [read.callId, read.status, read.settledOrder])).toEqual([
        ["c1", "unknown", 5],
        ["c2", "committed", 4],
        ["c3", "unknown", 6],
      ]);
      expect(calls[1]).toEqual(call);
      expect(calls[0]).toMatchObject({ agent: "a", settledAt: null });
      expect(calls[0]?.statusDetail).toContain("before this call settled");
      expectDigests(calls);
      expect((await subject.ledger.rollout(key()))?.counts).toEqual({
        admitted: 3,
        committed: 1,
        failed: 0,
        aborted: 0,
        unknown: 2,
        late: 0,
      });
      expect(await admitOne(subject.ledger, admission("c4"))).toMatchObject({ admittedOrder: 7 });
    });

    test("an answer that comes for an unknown call goes to the late bin", async () => {
      const admitted = await admitOne(subject.ledger, admission("c1"));
      await subject.restart();
      expect((await subject.ledger.settle(answer(admitted))).late).toBe(true);
      expect(await subject.ledger.call(callId("c1"))).toMatchObject({ status: "unknown" });
    });

    test("states, outcomes and the late bin are what they were", async () => {
      await admitOne(subject.ledger, admission("c1"));
      await subject.ledger.seal(outcome({ reward: 1, accepted: ["c1"] }), 3000);
      await admitOne(subject.ledger, admission("c2"));
      const before = await subject.ledger.rollout(key());
      await subject.restart();
      expect(await subject.ledger.rollout(key())).toEqual(before);
      const late = await subject.ledger.lateCalls(key());
      expect(late).toMatchObject([{ callId: "c2", status: "unknown" }]);
      expectDigests(late);
    });
  });
}
