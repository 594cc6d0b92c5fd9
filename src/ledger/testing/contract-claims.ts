// Part of the ledger contract: publishing under a lease, and what is deleted by age.
import { describe, expect, test } from "vitest";
import { rolloutId } from "../../lineage/call.ts";
import type { Claim, Ledger } from "../ledger.ts";
import { admitOne, expectRefusal, type Subject } from "./contract-subject.ts";
import { admission, answer, key, opening, outcome } from "./sample-calls.ts";

const NOW = 10_000;
const GROUP = { groupId: "g", groupSize: 2 };
const KEEP_ALL = { openBefore: null, publishedBefore: null, lateBefore: null, dryRun: false };

function take(ledger: Ledger, claimId: string, at: number = NOW): Promise<Claim | null> {
  return ledger.claim({ claimId, consumer: "trainer", claimedAt: at, leaseMs: 1000 });
}

/** A rollout of the group with one call and an outcome. */
async function finished(
  ledger: Ledger,
  id: string,
  more: Parameters<typeof opening>[0] = GROUP,
): Promise<void> {
  const at = { rolloutId: rolloutId(id) };
  await ledger.open(opening({ ...at, ...more }));
  await ledger.settle(answer(await admitOne(ledger, admission(`call-${id}`, at)), at));
  await ledger.seal(outcome({ ...at, reward: 1 }), 2000);
}

export function describeClaims(subject: Subject): void {
  describe("claiming", () => {
    test("a group can be claimed once its number of rollouts is sealed, and tells its members", async () => {
      const { ledger } = subject;
      await finished(ledger, "r0");
      expect(await take(ledger, "k1")).toBeNull();
      await ledger.open(opening({ rolloutId: rolloutId("r1"), ...GROUP, openedAt: 1500 }));
      expect(await take(ledger, "k1")).toBeNull();
      await ledger.seal(outcome({ rolloutId: rolloutId("r1") }), 3000);
      const claim = await take(ledger, "k1");
      expect(claim).toEqual({
        claimId: "k1",
        groupId: "g",
        consumer: "trainer",
        state: "held",
        claimedAt: NOW,
        expiresAt: NOW + 1000,
        acknowledgedAt: null,
        members: [
          { rolloutId: "r0", attempt: 1 },
          { rolloutId: "r1", attempt: 1 },
        ],
      });
      expect(await take(ledger, "k1")).toEqual(claim);
      await subject.restart();
      expect(await subject.ledger.claimOf("k1", NOW)).toEqual(claim);
    });

    test("a rollout without a group is one of its own; a named group without a size waits for a deadline", async () => {
      const { ledger } = subject;
      await finished(ledger, "alone", {});
      await finished(ledger, "r0", { groupId: "unsized" });
      expect((await take(ledger, "k1"))?.groupId).toBe("alone");
      expect(await take(ledger, "k2")).toBeNull();
    });

    test("past their deadline rollouts are waited for no longer: open ones are sealed without an outcome", async () => {
      const { ledger } = subject;
      await finished(ledger, "r0", { groupId: "g", groupSize: 3, deadlineAt: 5000 });
      await ledger.open(opening({ rolloutId: rolloutId("r1"), groupId: "g", deadlineAt: 6000 }));
      const admitted = await admitOne(ledger, admission("c1", { rolloutId: rolloutId("r1") }));
      expect(await take(ledger, "k0", 5500)).toBeNull();
      expect((await take(ledger, "k1"))?.members).toHaveLength(2);
      expect(await ledger.rollout(key(null, rolloutId("r1")))).toMatchObject({
        state: "sealed",
        sealedAt: NOW,
        counts: { aborted: 1 },
      });
      expect((await ledger.settle(answer(admitted, { rolloutId: rolloutId("r1") }))).late).toBe(true);
    });

    test("nobody else gets a group that is held, however many ask at once", async () => {
      const { ledger } = subject;
      for (const id of ["a", "b", "c"]) await finished(ledger, id, {});
      const claims = await Promise.all(Array.from({ length: 8 }, (_, index) => take(ledger, `k${index}`)));
      let groups = claims.flatMap((claim) => claim?.groupId ?? []);
      // One that found another at the same group may have come away empty-handed.
      for (let index = 8; groups.length < 3 && index < 12; index++) {
        groups = [...groups, ...[await take(ledger, `k${index}`)].flatMap((claim) => claim?.groupId ?? [])];
      }
      expect(groups.toSorted()).toEqual(["a", "b", "c"]);
      expect(await take(ledger, "last")).toBeNull();
    });

    test("acknowledged once, a group is swept and never given out again; the same acknowledgement again is fine", async () => {
      const { ledger } = subject;
      await finished(ledger, "r0", {});
      await take(ledger, "k1");
      const done = await ledger.acknowledge("k1", NOW + 500);
      expect(done).toMatchObject({ state: "acknowledged", acknowledgedAt: NOW + 500 });
      expect(await ledger.rollout(key())).toMatchObject({ state: "swept", counts: { committed: 1 } });
      expect(await ledger.calls(key())).toEqual([]);
      expect(await ledger.acknowledge("k1", NOW + 9000)).toEqual(done);
      expect(await take(ledger, "k2", NOW + 9000)).toBeNull();
      await ledger.open(opening({ attempt: 2 }));
      await ledger.seal(outcome(), NOW);
      expect((await take(ledger, "k3", NOW + 9000))?.members).toEqual([{ rolloutId: "r0", attempt: 2 }]);
    });

    test("a lease that ran out returns the group, and its acknowledgement is a conflict", async () => {
      const { ledger } = subject;
      await finished(ledger, "r0", {});
      await take(ledger, "k1");
      expect(await take(ledger, "k2", NOW + 999)).toBeNull();
      await expectRefusal(ledger.acknowledge("k1", NOW + 1000), "conflict", { state: "expired" });
      expect(await ledger.claimOf("k1", NOW + 1000)).toMatchObject({ state: "expired" });
      expect(await ledger.calls(key()), "nothing is lost").toHaveLength(1);
      expect(await take(ledger, "k2", NOW + 1000)).toMatchObject({ claimId: "k2", groupId: "r0" });
      await expectRefusal(ledger.acknowledge("k1", NOW + 500), "conflict", { state: "expired" });
      expect(await ledger.acknowledge("k2", NOW + 1500)).toMatchObject({ state: "acknowledged" });
      await expectRefusal(ledger.acknowledge("nobody", NOW), "not_found");
      expect(await ledger.claimOf("nobody", NOW)).toBeNull();
    });

    test("what is claimed is not corrected any more, until its lease runs out", async () => {
      const { ledger } = subject;
      await ledger.open(opening());
      await ledger.seal(outcome(), 2000);
      await take(ledger, "k1");
      expect(await ledger.seal(outcome(), NOW + 1)).toMatchObject({ state: "sealed" });
      await expectRefusal(ledger.seal(outcome({ reward: 1 }), NOW + 1), "conflict", { state: "claimed" });
      expect(await ledger.seal(outcome({ reward: 1 }), NOW + 1000)).toMatchObject({ outcome: { reward: 1 } });
    });

    test("rollouts that were deleted count as told; a group of nothing else is not given out", async () => {
      const { ledger } = subject;
      await finished(ledger, "r0");
      await finished(ledger, "r1");
      await ledger.sweep(key());
      const claim = await take(ledger, "k1");
      expect(claim?.members).toEqual([{ rolloutId: "r1", attempt: 1 }]);
      await ledger.acknowledge("k1", NOW);
      expect(await take(ledger, "k2", NOW + 9000)).toBeNull();
    });
  });

  describe("sweeping by age", () => {
    test("each kind by its own age, and a dry run only counts", async () => {
      const { ledger } = subject;
      await finished(ledger, "r0", {});
      await take(ledger, "k1");
      await ledger.acknowledge("k1", NOW);
      await ledger.open(opening({ rolloutId: rolloutId("old"), openedAt: 500 }));
      await ledger.open(opening({ rolloutId: rolloutId("new"), openedAt: 5000 }));
      await finished(ledger, "r2", {});
      const late = await admitOne(ledger, admission("late", { rolloutId: rolloutId("r2") }));
      await ledger.settle(answer(late, { rolloutId: rolloutId("r2") }));
      const policy = { openBefore: 1000, publishedBefore: NOW + 1, lateBefore: 4000, dryRun: true };
      const report = { openRollouts: 1, publishedAttempts: 1, lateCalls: 1 };
      expect(await ledger.sweepOld(policy)).toEqual(report);
      expect(await ledger.rollout(key())).toMatchObject({ state: "swept" });
      expect(await ledger.sweepOld({ ...policy, dryRun: false })).toEqual(report);
      expect(await ledger.rollout(key())).toBeNull();
      expect(await ledger.claimOf("k1", NOW)).toBeNull();
      expect(await ledger.rollout(key(null, rolloutId("old")))).toMatchObject({ state: "swept" });
      expect(await ledger.rollout(key(null, rolloutId("new")))).toMatchObject({ state: "open" });
      expect(await ledger.lateCalls(key(null, rolloutId("r2")))).toEqual([]);
      expect(await ledger.calls(key(null, rolloutId("r2")))).toHaveLength(1);
      expect(await ledger.sweepOld({ ...policy, dryRun: false })).toEqual({
        openRollouts: 0,
        publishedAttempts: 0,
        lateCalls: 0,
      });
      expect(await ledger.sweepOld(KEEP_ALL)).toEqual({
        openRollouts: 0,
        publishedAttempts: 0,
        lateCalls: 0,
      });
    });
  });
}
