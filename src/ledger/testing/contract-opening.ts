// Part of the ledger contract: opening rollouts and attempts, groups, listing, weight versions.
import { describe, expect, test } from "vitest";
import { rolloutId } from "../../lineage/call.ts";
import { admitOne, expectRefusal, type Subject } from "./contract-subject.ts";
import { admission, answer, key, opening, outcome, R0 } from "./sample-calls.ts";

const R1 = rolloutId("r1");

export function describeOpening(subject: Subject): void {
  describe("opening", () => {
    test("a rollout is told back as it was opened", async () => {
      const { ledger } = subject;
      await ledger.setWeightVersion("41");
      const told = {
        groupId: "g",
        groupSize: 4,
        generationIndex: 2,
        sampling: { temperature: 0.5, stop: ["x"] },
        deadlineAt: 61_000,
        tags: { task: "t1" },
      };
      const opened = await ledger.open(opening(told));
      expect(opened).toEqual({
        ...told,
        rolloutId: R0,
        attempt: 1,
        state: "open",
        openedAt: 1000,
        sealedAt: null,
        outcome: null,
        weightVersion: "41",
        counts: { admitted: 0, committed: 0, failed: 0, aborted: 0, unknown: 0, late: 0 },
      });
      expect(await ledger.rollout(key())).toEqual(opened);
      expect(await ledger.rollout(key(1))).toEqual(opened);
    });

    test("a rollout or attempt that nobody opened is null and has no calls", async () => {
      const { ledger } = subject;
      expect(await ledger.rollout(key())).toBeNull();
      await ledger.open(opening());
      expect(await ledger.rollout(key(2))).toBeNull();
      expect(await ledger.calls(key(2))).toEqual([]);
      expect(await ledger.summaries(key(2), 0)).toEqual([]);
      expect(await ledger.lateCalls(key(2))).toEqual([]);
      expect(await ledger.sweep(key(2))).toBe(false);
    });

    test("opening again with the same fields changes nothing, and fills in what was null", async () => {
      const { ledger } = subject;
      const opened = await ledger.open(opening({ groupId: "g", sampling: { top_p: 1, seed: 3 } }));
      expect(await ledger.open(opening({ openedAt: 5000, sampling: { seed: 3, top_p: 1 } }))).toEqual(opened);
      const filled = await ledger.open(opening({ generationIndex: 0, tags: { a: "b" }, deadlineAt: 9000 }));
      expect(filled).toEqual({ ...opened, generationIndex: 0, tags: { a: "b" }, deadlineAt: 9000 });
    });

    test.each([
      ["group_id", { groupId: "g" }, { groupId: "h" }],
      ["group_size", { groupSize: 4 }, { groupSize: 5 }],
      ["generation_index", { generationIndex: 0 }, { generationIndex: 1 }],
      ["sampling", { sampling: { temperature: 1 } }, { sampling: { temperature: 2 } }],
      ["deadline_at", { deadlineAt: 5000 }, { deadlineAt: 6000 }],
      ["tags", { tags: { a: "b" } }, { tags: { a: "c" } }],
    ] as const)(
      "%s told otherwise is a conflict that names it, and the first stands",
      async (field, one, other) => {
        const { ledger } = subject;
        const opened = await ledger.open(opening(one));
        const error = await expectRefusal(ledger.open(opening({ ...other, openedAt: 1500 })), "conflict", {
          field,
        });
        expect(error.message).toContain(field);
        expect(await ledger.rollout(key())).toEqual(opened);
      },
    );

    test("a deadline told again as the same span after a retry is the same deadline", async () => {
      const { ledger } = subject;
      const opened = await ledger.open(opening({ deadlineAt: 61_000, openedAt: 1000 }));
      expect(await ledger.open(opening({ deadlineAt: 63_000, openedAt: 3000 }))).toEqual(opened);
    });

    test("a number above the newest begins a new attempt, an older one is a conflict", async () => {
      const { ledger } = subject;
      await ledger.open(opening({ groupId: "g" }));
      const second = await ledger.open(opening({ attempt: 3, openedAt: 4000 }));
      expect(second).toMatchObject({ attempt: 3, state: "open", groupId: null, openedAt: 4000 });
      expect(await ledger.open(opening({ attempt: 3 }))).toEqual(second);
      expect(await ledger.rollout(key(1))).toMatchObject({ state: "sealed", sealedAt: 4000, outcome: null });
      expect(await ledger.rollout(key())).toEqual(second);
      await expectRefusal(ledger.open(opening({ attempt: 2 })), "conflict", { newest_attempt: 3 });
    });

    test("an attempt that is no whole number from 1 on is refused", async () => {
      for (const attempt of [0, -1, 1.5, Number.NaN]) {
        await expectRefusal(subject.ledger.open(opening({ attempt })), "invalid_request");
      }
      expect(await subject.ledger.rollout(key())).toBeNull();
    });

    test("a sealed or swept rollout opens again only by a newer attempt", async () => {
      const { ledger } = subject;
      await ledger.open(opening());
      await ledger.seal(outcome(), 2000);
      await expectRefusal(ledger.open(opening()), "conflict", { state: "sealed" });
      await expectRefusal(ledger.open(opening({ attempt: 1 })), "conflict", { state: "sealed" });
      expect(await ledger.open(opening({ attempt: 2 }))).toMatchObject({ attempt: 2, state: "open" });
      await ledger.sweep(key());
      await expectRefusal(ledger.open(opening()), "conflict", { state: "swept" });
      expect(await ledger.open(opening({ attempt: 3 }))).toMatchObject({ attempt: 3, state: "open" });
    });

    test("a new attempt while the old one is open seals it without an outcome and aborts its calls", async () => {
      const { ledger } = subject;
      const admitted = await admitOne(ledger, admission("c1"));
      await ledger.open(opening({ attempt: 2, openedAt: 7000 }));
      expect(await ledger.calls(key(1))).toMatchObject([
        { callId: "c1", status: "aborted", statusDetail: "sealed", settledAt: 7000, settledOrder: 2 },
      ]);
      const { late, call } = await ledger.settle(answer(admitted));
      expect(late).toBe(true);
      expect(await ledger.lateCalls(key(1))).toEqual([call]);
      expect(await ledger.lateCalls(key(2))).toEqual([]);
      expect((await ledger.rollout(key(2)))?.counts.admitted).toBe(0);
      expect(await admitOne(ledger, admission("c2"))).toMatchObject({
        attempt: 2,
        admittedOrder: 1,
        late: false,
      });
    });
  });

  describe("groups", () => {
    test("a place in a group belongs to one rollout, whichever way it is told", async () => {
      const { ledger } = subject;
      await ledger.open(opening({ groupId: "g", generationIndex: 0 }));
      const r1 = { rolloutId: R1 };
      const taken = { rollout_id: R0 };
      const error = await expectRefusal(
        ledger.open(opening({ ...r1, groupId: "g", generationIndex: 0 })),
        "conflict",
        taken,
      );
      expect(error.message).toContain("r0");
      expect(await ledger.rollout(key(null, R1))).toBeNull();
      await ledger.open(opening({ ...r1, groupId: "g" }));
      await expectRefusal(ledger.open(opening({ ...r1, generationIndex: 0 })), "conflict", taken);
      await expectRefusal(ledger.seal(outcome({ ...r1, generationIndex: 0 }), 2000), "conflict", taken);
      expect(await ledger.rollout(key(null, R1))).toMatchObject({ state: "open", generationIndex: null });
      expect(await ledger.seal(outcome({ ...r1, generationIndex: 1 }), 2000)).toMatchObject({
        generationIndex: 1,
      });
    });

    test("only newest attempts hold places", async () => {
      const { ledger } = subject;
      await ledger.open(opening({ groupId: "g", generationIndex: 0 }));
      await ledger.open(opening({ attempt: 2, groupId: "g", generationIndex: 1 }));
      expect(await ledger.open(opening({ rolloutId: R1, groupId: "g", generationIndex: 0 }))).toMatchObject({
        attempt: 1,
        generationIndex: 0,
      });
      await expectRefusal(
        ledger.open(opening({ attempt: 3, groupId: "g", generationIndex: 0 })),
        "conflict",
        { rollout_id: R1 },
      );
      expect(await ledger.rollout(key())).toMatchObject({ attempt: 2, state: "open" });
    });
  });

  describe("listing", () => {
    test("newest attempts come oldest first, by group, state and number", async () => {
      const { ledger } = subject;
      const ids = ["a", "b", "c", "d"].map((id) => rolloutId(id));
      const [a, b, c, d] = ids as [typeof R0, typeof R0, typeof R0, typeof R0];
      await ledger.open(opening({ rolloutId: b, openedAt: 2000, groupId: "g", generationIndex: 0 }));
      await ledger.open(opening({ rolloutId: a, openedAt: 1000, groupId: "g", generationIndex: 1 }));
      await ledger.open(opening({ rolloutId: c, openedAt: 3000 }));
      await ledger.open(opening({ rolloutId: d, openedAt: 500 }));
      await ledger.open(opening({ rolloutId: d, openedAt: 4000, attempt: 2 }));
      await ledger.seal(outcome({ rolloutId: a }), 5000);
      await ledger.sweep(key(null, c));
      const list = async (filter: Parameters<typeof ledger.rollouts>[0]): Promise<string[]> =>
        (await ledger.rollouts(filter)).map((rollout) => `${rollout.rolloutId}${rollout.attempt}`);
      expect(await list({})).toEqual(["a1", "b1", "c1", "d2"]);
      expect(await list({ groupId: "g" })).toEqual(["a1", "b1"]);
      expect(await list({ state: "open" })).toEqual(["b1", "d2"]);
      expect(await list({ state: "swept" })).toEqual(["c1"]);
      expect(await list({ groupId: "g", state: "sealed", limit: 1 })).toEqual(["a1"]);
      expect(await list({ limit: 2 })).toEqual(["a1", "b1"]);
      expect(await list({ groupId: "nobody's" })).toEqual([]);
      expect(await list({ groupId: "d" }), "without a group it is one of its own").toEqual(["d2"]);
    });
  });

  describe("weight versions", () => {
    test("the version is null until told, and a rollout keeps the one it was opened with", async () => {
      const { ledger } = subject;
      expect(await ledger.weightVersion()).toBeNull();
      const early = await admitOne(ledger, admission("c1"));
      expect(early.rolloutWeightVersion).toBeNull();
      await ledger.setWeightVersion("1");
      await ledger.setWeightVersion("2");
      expect(await ledger.weightVersion()).toBe("2");
      expect((await ledger.rollout(key()))?.weightVersion).toBeNull();
      expect(await ledger.open(opening({ attempt: 2 }))).toMatchObject({ weightVersion: "2" });
      await ledger.setWeightVersion("3");
      expect((await admitOne(ledger, admission("c2"))).rolloutWeightVersion).toBe("2");
      await subject.restart();
      expect(await subject.ledger.weightVersion()).toBe("3");
    });
  });
}
