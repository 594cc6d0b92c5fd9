// Part of the ledger contract: outcomes and sweeping.
import { describe, expect, test } from "vitest";
import { rolloutId } from "../../lineage/call.ts";
import { admitOne, expectDigests, expectRefusal, type Subject } from "./contract-subject.ts";
import { admission, answer, key, opening, outcome } from "./sample-calls.ts";

export function describeSealing(subject: Subject): void {
  describe("sealing", () => {
    test("an outcome seals the rollout and is told back", async () => {
      const { ledger } = subject;
      await ledger.open(opening());
      const told = outcome({
        groupId: "g",
        generationIndex: 1,
        reward: 0.1,
        failed: "gave up",
        infer: true,
        accepted: ["resp-1", { item: { role: "assistant", content: "hi" } }],
        final: "c9",
      });
      const sealed = await ledger.seal(told, 2000);
      expect(sealed).toMatchObject({ state: "sealed", sealedAt: 2000, groupId: "g", generationIndex: 1 });
      expect(sealed.outcome).toEqual(told);
      expect(await ledger.rollout(key())).toEqual(sealed);
    });

    test("the same outcome again is fine, with less said too, and the first time of sealing stands", async () => {
      const { ledger } = subject;
      await ledger.open(opening());
      const told = outcome({ reward: 1, accepted: ["c1", { item: { a: 1, b: 2 } }], groupId: "g" });
      const sealed = await ledger.seal(told, 2000);
      expect(await ledger.seal(told, 3000)).toEqual(sealed);
      const again = { ...told, reward: null, groupId: null, accepted: ["c1", { item: { b: 2, a: 1 } }] };
      expect(await ledger.seal(again, 4000)).toEqual(sealed);
    });

    test("a missing reward, group and index may be added once", async () => {
      const { ledger } = subject;
      await ledger.open(opening());
      await ledger.seal(outcome({ accepted: [] }), 2000);
      await ledger.seal(outcome({ accepted: [], reward: 0 }), 3000);
      await expectRefusal(ledger.seal(outcome({ accepted: [], reward: 1 }), 3000), "conflict", {
        field: "reward",
      });
      await ledger.seal(outcome({ accepted: [], groupId: "g" }), 3000);
      await expectRefusal(ledger.seal(outcome({ accepted: [], groupId: "h" }), 3000), "conflict", {
        field: "group_id",
      });
      const sealed = await ledger.seal(outcome({ accepted: [], generationIndex: 3 }), 3000);
      expect(sealed).toMatchObject({
        sealedAt: 2000,
        groupId: "g",
        generationIndex: 3,
        outcome: { reward: 0, groupId: "g", generationIndex: 3 },
      });
    });

    test.each([
      ["accepted", { accepted: ["c1"] }, { accepted: ["c2"] }],
      ["accepted", { accepted: null }, { accepted: [] }],
      ["final", { final: "c1" }, { final: null }],
      ["failed", { failed: null }, { failed: "late excuse" }],
      ["infer", { infer: false }, { infer: true }],
    ] as const)("%s told otherwise is a conflict, and the first stands", async (field, one, other) => {
      const { ledger } = subject;
      await ledger.open(opening());
      const sealed = await ledger.seal(outcome(one), 2000);
      await expectRefusal(ledger.seal(outcome({ ...one, ...other }), 3000), "conflict", { field });
      expect(await ledger.rollout(key())).toEqual(sealed);
    });

    test("an outcome with another group than the rollout was opened with is a conflict and seals nothing", async () => {
      const { ledger } = subject;
      const opened = await ledger.open(opening({ groupId: "g" }));
      await expectRefusal(ledger.seal(outcome({ groupId: "h" }), 2000), "conflict", { field: "group_id" });
      expect(await ledger.rollout(key())).toEqual(opened);
      expect((await ledger.seal(outcome(), 2000)).outcome?.groupId).toBe("g");
    });

    test("sealing what nobody opened is not found, and what is swept is a conflict", async () => {
      const { ledger } = subject;
      await expectRefusal(ledger.seal(outcome({ rolloutId: rolloutId("nobody") }), 1), "not_found");
      await ledger.open(opening());
      await ledger.sweep(key());
      await expectRefusal(ledger.seal(outcome(), 2000), "conflict", { state: "swept" });
    });

    test("calls in flight become aborted, in order of admission, and the counts add up", async () => {
      const { ledger } = subject;
      const [first] = await ledger.admit(["c1", "c2", "c3"].map((id) => admission(id, { agent: "main" })));
      await ledger.settle(answer(first as NonNullable<typeof first>));
      const { counts } = await ledger.seal(outcome(), 5000);
      expect(counts).toEqual({ admitted: 3, committed: 1, failed: 0, aborted: 2, unknown: 0, late: 0 });
      const calls = await ledger.calls(key());
      expect(calls.map((call) => [call.callId, call.status, call.settledOrder])).toEqual([
        ["c1", "committed", 4],
        ["c2", "aborted", 5],
        ["c3", "aborted", 6],
      ]);
      expect(calls[2]).toMatchObject({
        statusDetail: "sealed",
        settledAt: 5000,
        agent: "main",
        address: null,
      });
      expectDigests(calls);
    });
  });

  describe("sweeping", () => {
    test("calls are gone, late ones too; the rollout is still told with its counts and outcome", async () => {
      const { ledger } = subject;
      const [one] = await ledger.admit([admission("c1"), admission("c2")]);
      await ledger.settle(answer(one as NonNullable<typeof one>));
      await ledger.seal(outcome({ reward: 1 }), 3000);
      await admitOne(ledger, admission("c3"));
      const before = await ledger.rollout(key());
      expect(await ledger.sweep(key())).toBe(true);
      expect(await ledger.rollout(key())).toEqual({ ...before, state: "swept" });
      expect(await ledger.calls(key())).toEqual([]);
      expect(await ledger.summaries(key(), 0)).toEqual([]);
      expect(await ledger.lateCalls(key())).toEqual([]);
      for (const id of ["c1", "c2", "c3"]) {
        expect(await ledger.call(admission(id).callId)).toBeNull();
        expect(await ledger.sequence(admission(id).callId)).toBeNull();
      }
      expect(await ledger.sweep(key()), "swept before").toBe(false);
    });

    test("an open rollout that is swept counts its calls in flight as aborted", async () => {
      const { ledger } = subject;
      await ledger.admit([admission("c1"), admission("c2")]);
      expect(await ledger.sweep(key())).toBe(true);
      expect(await ledger.rollout(key())).toMatchObject({
        state: "swept",
        sealedAt: null,
        counts: { admitted: 2, aborted: 2 },
      });
    });

    test("one attempt is swept and the other stays", async () => {
      const { ledger } = subject;
      await admitOne(ledger, admission("c1"));
      await ledger.open(opening({ attempt: 2 }));
      await admitOne(ledger, admission("c2"));
      expect(await ledger.sweep(key(1))).toBe(true);
      expect(await ledger.rollout(key(1))).toMatchObject({ state: "swept" });
      expect(await ledger.calls(key())).toMatchObject([{ callId: "c2", attempt: 2 }]);
    });
  });
}
