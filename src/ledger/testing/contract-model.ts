// Part of the ledger contract: random lives of a few rollouts, told to the ledger and to the naive one alike. Whatever
// is answered and whatever can be read afterwards must be the same; error messages may differ, their codes not.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CoppiceError } from "../../errors.ts";
import { callId, rolloutId, type CallStatus, type RolloutId } from "../../lineage/call.ts";
import type { Admitted, Ledger } from "../ledger.ts";
import type { LedgerHarness } from "./contract-subject.ts";
import { MemoryLedger } from "./memory-ledger.ts";
import { admission, answer, key, opening, outcome } from "./sample-calls.ts";

const ROLLOUTS = ["r0", "r1", "r2"].map((id) => rolloutId(id));
/** Few ids, so that they meet. */
const CALLS = Array.from({ length: 12 }, (_, index) => `c${index}`);

/** What a call was told at its admission. */
interface Known {
  readonly rolloutId: RolloutId;
  readonly admitted: Pick<Admitted, "callId" | "attempt" | "admittedOrder">;
}

/** What is told to both; `admitted` is what is known of the calls, by id. */
type Step = (ledger: Ledger, admitted: ReadonlyMap<string, Known>) => Promise<unknown>;

interface Command {
  readonly name: string;
  readonly step: Step | "restart";
  /** How a counterexample shows it. */
  readonly [fc.toStringMethod]: () => string;
}

function named(name: string, step: Step | "restart"): Command {
  return { name, step, [fc.toStringMethod]: () => name };
}

function anyCommand(): fc.Arbitrary<Command> {
  const id = fc.constantFrom(...ROLLOUTS);
  const call = fc.constantFrom(...CALLS);
  const group = { groupId: fc.constantFrom("g", "h", null), generationIndex: fc.constantFrom(0, 1, null) };
  const command = <T>(
    weight: number,
    arbitrary: fc.Arbitrary<T>,
    make: (given: T) => Step,
  ): fc.WeightedArbitrary<Command> => ({
    weight,
    arbitrary: arbitrary.map((given) => named(`${make.name} ${JSON.stringify(given)}`, make(given))),
  });
  const claim = fc.constantFrom("k0", "k1", "k2", "k3");
  const now = fc.constantFrom(6000, 7000, 9000);
  const old = fc.constantFrom(null, null, 1500, 6500);
  const openings = fc.record({
    ...group,
    groupSize: fc.constantFrom(null, 1, 2),
    rolloutId: id,
    attempt: fc.constantFrom(null, null, 1, 2, 3),
    deadlineAt: fc.constantFrom(null, 8000),
    openedAt: fc.constantFrom(1000, 2000),
  });
  const outcomes = fc.record({
    ...group,
    rolloutId: id,
    reward: fc.constantFrom(null, 0, 1),
    accepted: fc.constantFrom(null, ["c1"]),
  });
  const settles = fc.record({
    id: call,
    status: fc.constantFrom<CallStatus>("committed", "committed", "aborted", "failed", "unknown"),
    generated: fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 3 }),
  });
  return fc.oneof(
    command(3, openings, function open(told) {
      return (ledger) => ledger.open(opening(told));
    }),
    command(
      6,
      fc.record({ rolloutId: id, ids: fc.array(call, { minLength: 1, maxLength: 2 }) }),
      function admit(told) {
        return (ledger) => ledger.admit(told.ids.map((one) => admission(one, { rolloutId: told.rolloutId })));
      },
    ),
    command(8, settles, function settle(told) {
      return async (ledger, admitted) => {
        const strange = { callId: callId(told.id), attempt: 1, admittedOrder: 1 };
        const known = admitted.get(told.id) ?? { rolloutId: ROLLOUTS[0] as RolloutId, admitted: strange };
        const { status, generated } = told;
        return ledger.settle(
          answer(known.admitted, { rolloutId: known.rolloutId, generated, more: { status } }),
        );
      };
    }),
    command(2, outcomes, function seal(told) {
      return (ledger) => ledger.seal(outcome(told), 5000);
    }),
    command(1, fc.record({ id, attempt: fc.constantFrom(null, 1, 2) }), function sweep(told) {
      return (ledger) => ledger.sweep(key(told.attempt, told.id));
    }),
    command(
      2,
      fc.record({ claimId: claim, claimedAt: now, leaseMs: fc.constantFrom(500, 5000) }),
      function take(told) {
        return (ledger) => ledger.claim({ ...told, consumer: "trainer" });
      },
    ),
    command(2, fc.record({ claimId: claim, now }), function acknowledge(told) {
      return (ledger) => ledger.acknowledge(told.claimId, told.now);
    }),
    command(
      1,
      fc.record({ openBefore: old, publishedBefore: old, lateBefore: old, dryRun: fc.boolean() }),
      function sweepOld(told) {
        return (ledger) => ledger.sweepOld(told);
      },
    ),
    command(1, fc.constantFrom("1", "2"), function weigh(version) {
      return (ledger) => ledger.setWeightVersion(version);
    }),
    { weight: 1, arbitrary: fc.constant(named("restart", "restart")) },
  );
}

/** What it resolves with, or the code that it is refused with. */
async function resultOf(verb: Promise<unknown>): Promise<unknown> {
  try {
    return await verb;
  } catch (error) {
    if (error instanceof CoppiceError) return { refused: error.code };
    throw error;
  }
}

async function everythingIn(ledger: Ledger): Promise<unknown> {
  const attempts = [];
  for (const id of ROLLOUTS) {
    for (const attempt of [null, 1, 2, 3]) {
      const at = key(attempt, id);
      attempts.push({
        rollout: await ledger.rollout(at),
        calls: await ledger.calls(at),
        late: await ledger.lateCalls(at),
        summaries: await ledger.summaries(at, 0),
        since: await ledger.summaries(at, 3),
      });
    }
  }
  const calls = await Promise.all(CALLS.map((id) => ledger.call(callId(id))));
  return {
    attempts,
    calls,
    groups: await ledger.rollouts({ groupId: "g" }),
    claims: await Promise.all(["k0", "k1", "k2", "k3"].map((id) => ledger.claimOf(id, 8000))),
    version: await ledger.weightVersion(),
  };
}

export function describeModel(makeLedger: () => Promise<LedgerHarness>, numRuns: number): void {
  describe("random lives", () => {
    test("are told as the naive ledger tells them", async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(anyCommand(), { minLength: 5, maxLength: 30 }), async (commands) => {
          const harness = await makeLedger();
          try {
            await liveThrough(commands, harness);
          } finally {
            await harness.dispose();
          }
        }),
        { numRuns },
      );
    });
  });
}

async function liveThrough(commands: readonly Command[], harness: LedgerHarness): Promise<void> {
  const model = new MemoryLedger();
  const admitted = new Map<string, Known>();
  let { ledger } = harness;
  for (const { name, step } of commands) {
    if (step === "restart") {
      model.restart();
      ledger = await harness.restart();
    } else {
      const expected = await resultOf(step(model, admitted));
      expect(await resultOf(step(ledger, admitted)), name).toEqual(expected);
      if (Array.isArray(expected)) await noteAdmitted(expected as readonly Admitted[], model, admitted);
    }
  }
  expect(await everythingIn(ledger), "what is kept").toEqual(await everythingIn(model));
}

async function noteAdmitted(
  list: readonly Admitted[],
  model: MemoryLedger,
  admitted: Map<string, Known>,
): Promise<void> {
  for (const one of list) {
    const call = await model.call(one.callId);
    if (call !== null) admitted.set(one.callId, { rolloutId: call.rolloutId, admitted: one });
  }
}
