// Part of the ledger contract: what comes to an attempt that is over stands in its late bin and changes nothing else.
import { describe, expect, test } from "vitest";
import { callId } from "../../lineage/call.ts";
import { admitOne, expectDigests, type Subject } from "./contract-subject.ts";
import { admission, answer, key, opening, outcome } from "./sample-calls.ts";

export function describeLate(subject: Subject): void {
  describe("the late bin", () => {
    test("an answer after sealing is late, and the sealed record stands", async () => {
      const { ledger } = subject;
      const admitted = await admitOne(ledger, admission("c1"));
      const sealed = await ledger.seal(outcome(), 3000);
      const calls = await ledger.calls(key());
      const { late, call } = await ledger.settle(answer(admitted));
      expect(late).toBe(true);
      expect(await ledger.calls(key())).toEqual(calls);
      expect(await ledger.summaries(key(), 0)).toHaveLength(1);
      expect(await ledger.call(callId("c1"))).toEqual(calls[0]);
      expect(await ledger.lateCalls(key())).toEqual([call]);
      expectDigests([call]);
      expect(await ledger.rollout(key())).toEqual({ ...sealed, counts: { ...sealed.counts, late: 1 } });
    });

    test("a call to a sealed rollout is late from its admission on", async () => {
      const { ledger } = subject;
      await admitOne(ledger, admission("c1"));
      const sealed = await ledger.seal(outcome(), 3000);
      const admitted = await admitOne(ledger, admission("c2", { agent: "straggler" }));
      expect(admitted).toMatchObject({ late: true, attempt: 1 });
      const counts = { ...sealed.counts, late: 1 };
      expect(await ledger.rollout(key())).toEqual({ ...sealed, counts });
      const inFlight = await ledger.lateCalls(key());
      expect(inFlight).toMatchObject([{ callId: "c2", status: "admitted", agent: "straggler" }]);
      expect(await ledger.call(callId("c2"))).toEqual(inFlight[0]);
      const { late, call } = await ledger.settle(answer(admitted));
      expect(late).toBe(true);
      expect(await ledger.lateCalls(key())).toEqual([call]);
      expect(await ledger.call(callId("c2"))).toEqual(call);
      expect((await ledger.calls(key())).map((one) => one.callId)).toEqual(["c1"]);
      expect(await ledger.rollout(key())).toEqual({ ...sealed, counts });
    });

    test("its count goes on from the attempt's, so a late call comes after all that is settled", async () => {
      const { ledger } = subject;
      const one = await admitOne(ledger, admission("c1"));
      const two = await admitOne(ledger, admission("c2"));
      await ledger.settle(answer(one));
      await ledger.seal(outcome(), 3000);
      const three = await admitOne(ledger, admission("c3"));
      const late = [await ledger.settle(answer(two)), await ledger.settle(answer(three))];
      expect(three.admittedOrder).toBe(5);
      expect(late.map((settled) => settled.call.settledOrder)).toEqual([6, 7]);
      expect((await ledger.lateCalls(key())).map((call) => call.callId)).toEqual(["c2", "c3"]);
    });

    test("a call that settles twice is late the second time, and the open attempt counts on without a gap", async () => {
      const { ledger } = subject;
      const one = await admitOne(ledger, admission("c1"));
      const two = await admitOne(ledger, admission("c2"));
      const first = await ledger.settle(answer(one));
      for (const _time of [2, 3]) {
        const again = await ledger.settle(answer(one, { generated: [5], more: { finishReason: "length" } }));
        expect(again.late).toBe(true);
      }
      expect(await ledger.call(callId("c1"))).toEqual(first.call);
      const settled = await ledger.settle(answer(two));
      expect(settled).toMatchObject({ late: false, call: { settledOrder: 4 } });
      expect(await ledger.lateCalls(key())).toHaveLength(2);
      expect((await ledger.rollout(key()))?.counts).toMatchObject({ admitted: 2, committed: 2, late: 2 });
    });

    test("an answer after sweeping is late and does not bring the attempt back to life", async () => {
      const { ledger } = subject;
      const admitted = await admitOne(ledger, admission("c1"));
      await ledger.sweep(key());
      const { late, call } = await ledger.settle(answer(admitted));
      expect(late).toBe(true);
      expect(await ledger.rollout(key())).toMatchObject({ state: "swept", counts: { late: 1 } });
      expect(await ledger.calls(key())).toEqual([]);
      expect(await ledger.lateCalls(key())).toEqual([call]);
      expect(await ledger.call(callId("c1"))).toEqual(call);
    });

    test("a call to a swept rollout is late, until a new attempt is opened", async () => {
      const { ledger } = subject;
      await ledger.open(opening());
      await ledger.sweep(key());
      const late = await admitOne(ledger, admission("c1"));
      expect(late).toMatchObject({ late: true, attempt: 1 });
      await ledger.open(opening({ attempt: 2 }));
      const { call } = await ledger.settle(answer(late));
      expect(await ledger.lateCalls(key(1))).toEqual([call]);
      expect(await admitOne(ledger, admission("c2"))).toMatchObject({
        late: false,
        attempt: 2,
        admittedOrder: 1,
      });
      expect(await ledger.lateCalls(key(2))).toEqual([]);
    });

    test("a late call can hang under a call of its attempt; swept, its sequence is not known any more", async () => {
      const { ledger } = subject;
      const root = await ledger.settle(
        answer(await admitOne(ledger, admission("c1")), { prompt: [1], generated: [2] }),
      );
      await ledger.seal(outcome(), 3000);
      const child = { prompt: [1, 2, 3], generated: [4], parent: root.call };
      await ledger.settle(answer(await admitOne(ledger, admission("c2")), child));
      expect([...((await ledger.sequence(callId("c2"))) as Uint32Array)]).toEqual([1, 2, 3, 4]);
      const last = await admitOne(ledger, admission("c3"));
      await ledger.sweep(key());
      await ledger.settle(answer(last, child));
      expect(await ledger.call(callId("c3"))).toMatchObject({ parentCallId: "c1" });
      expect(await ledger.sequence(callId("c3"))).toBeNull();
    });

    test("sweeping again deletes what came late since", async () => {
      const { ledger } = subject;
      await ledger.open(opening());
      await ledger.sweep(key());
      await admitOne(ledger, admission("c1"));
      expect(await ledger.sweep(key())).toBe(false);
      expect(await ledger.lateCalls(key())).toEqual([]);
      expect(await ledger.call(callId("c1"))).toBeNull();
    });
  });
}
