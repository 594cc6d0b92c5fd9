// The promises of the ledger and of publishing, as they can be seen from outside: what agents and consumers were told is
// compared with what the ledger has. Parents are looked for here by comparing tokens, the slow way that can't be wrong.
import { isDeepStrictEqual } from "node:util";
import type { Claim, Ledger, Rollout } from "../../src/ledger/ledger.ts";
import type { Call, RolloutId } from "../../src/lineage/call.ts";
import { callsOf, type Life } from "./life.ts";

const RANK = { open: 0, sealed: 1, swept: 2 } as const;

function hold(held: boolean, what: () => string): void {
  if (!held) throw new Error(`a promise does not hold: ${what()}`);
}

/** Remembers what it saw, since some promises are about what must not be undone. */
export class Promises {
  readonly #seen = new Map<string, Rollout["state"]>();
  readonly #newest = new Map<RolloutId, number>();
  #steps = 0;

  /** After each step; the costly looks at tokens now and then, and at the end. */
  async look(life: Life): Promise<void> {
    this.#steps += 1;
    await this.#states(life);
    await this.#leases(life);
    if (this.#steps % 16 === 0) await this.#records(life);
  }

  /** Once nothing is under way: all that is complete must get out, once. */
  async end(life: Life): Promise<void> {
    await this.#records(life);
    const { ledger, schedule } = life;
    schedule.now += 1_000_000;
    for (let turn = 0; ; turn += 1) {
      hold(turn <= life.rollouts.length, () => "groups are given out again though they were acknowledged");
      const claimId = `last-${turn}`;
      const at = { consumer: "last", claimedAt: schedule.now, leaseMs: 1000 };
      const claim = await ledger.claim({ claimId, ...at });
      if (claim === null) break;
      for (const member of claim.members) {
        hold(
          (await ledger.rollout(member))?.state === "sealed",
          () => `${member.rolloutId} is claimed, not sealed`,
        );
      }
      life.claims.push(claim);
      life.read.add(claimId);
      await ledger.acknowledge(claimId, schedule.now);
      life.acknowledged.add(claimId);
    }
    await this.#states(life);
    await this.#leases(life);
    for (const rolloutId of life.rollouts) {
      const rollout = await ledger.rollout({ rolloutId, attempt: null });
      hold(
        rollout === null || rollout.state === "swept",
        () => `${rolloutId} is ${rollout?.state}, never published`,
      );
    }
  }

  /** An attempt that has ended stays so, and no older attempt becomes the newest. */
  async #states({ ledger, rollouts }: Life): Promise<void> {
    for (const rolloutId of rollouts) {
      const rollout = await ledger.rollout({ rolloutId, attempt: null });
      const newest = this.#newest.get(rolloutId) ?? 0;
      hold((rollout?.attempt ?? 0) >= newest, () => `attempt ${newest} of ${rolloutId} is gone`);
      if (rollout === null) continue;
      this.#newest.set(rolloutId, rollout.attempt);
      const key = `${rolloutId} ${rollout.attempt}`;
      const before = this.#seen.get(key) ?? "open";
      hold(RANK[rollout.state] >= RANK[before], () => `${key} was ${before} and is ${rollout.state}`);
      this.#seen.set(key, rollout.state);
    }
  }

  /** One lease a group at any time; each attempt acknowledged once, and read by whoever acknowledged it. */
  async #leases({ ledger, schedule, claims, acknowledged, read }: Life): Promise<void> {
    const holders = new Map<string, string>();
    const published = new Map<string, string>();
    const last = new Map<string, Claim>();
    for (const { claimId } of claims) {
      const claim = await ledger.claimOf(claimId, schedule.now);
      if (claim === null) throw new Error(`claim ${claimId} is gone`);
      const before = last.get(claim.groupId);
      last.set(claim.groupId, claim);
      hold(
        before === undefined || before.state === "acknowledged" || before.expiresAt <= claim.claimedAt,
        () => `${claim.groupId} was given to ${claimId} while ${before?.claimId} had its lease`,
      );
      if (claim.state === "held") {
        const other = holders.get(claim.groupId);
        hold(other === undefined, () => `${claim.groupId} is held by ${other} and ${claimId}`);
        holders.set(claim.groupId, claimId);
      }
      hold(
        !acknowledged.has(claimId) || claim.state === "acknowledged",
        () => `${claimId} is ${claim.state}`,
      );
      if (claim.state !== "acknowledged") continue;
      hold(read.has(claimId), () => `${claimId} is acknowledged and was never read`);
      for (const { rolloutId, attempt } of claim.members) {
        const key = `${rolloutId} ${attempt}`;
        hold(!published.has(key), () => `${key} was acknowledged by ${published.get(key)} and ${claimId}`);
        published.set(key, claimId);
      }
    }
  }

  async #records(life: Life): Promise<void> {
    const { ledger } = life;
    for (const [key, frozen] of life.sealed) {
      const [rolloutId, attempt] = key.split(" ") as [RolloutId, string];
      const rollout = await ledger.rollout({ rolloutId, attempt: Number(attempt) });
      if (rollout?.state !== "sealed") continue;
      const now = await callsOf(ledger, rolloutId, Number(attempt));
      hold(
        isDeepStrictEqual(now, frozen),
        () => `${key} changed after its outcome: ${frozen.join()} / ${now.join()}`,
      );
    }
    for (const [rolloutId, newest] of this.#newest) {
      for (let attempt = 1; attempt <= newest; attempt += 1) await this.#attempt(life, rolloutId, attempt);
    }
  }

  async #attempt(life: Life, rolloutId: RolloutId, attempt: number): Promise<void> {
    const { ledger } = life;
    const rollout = await ledger.rollout({ rolloutId, attempt });
    if (rollout === null || rollout.state === "swept") return;
    const calls = await ledger.calls({ rolloutId, attempt });
    const late = await ledger.lateCalls({ rolloutId, attempt });
    const name = `${rolloutId}, attempt ${attempt}`;
    checkCounts(name, rollout, calls);
    await checkParents(name, ledger, calls);
    const ofAttempt = (one: { readonly rolloutId: RolloutId; readonly attempt: number }): boolean =>
      one.rolloutId === rolloutId && one.attempt === attempt;
    for (const { callId } of life.admitted.filter(ofAttempt)) {
      hold(
        calls.some((call) => call.callId === callId),
        () => `${callId} of ${name} was admitted and is nowhere`,
      );
    }
    for (const { callId, prompt, generated, isMarked } of life.received.filter(ofAttempt)) {
      const kept = [...calls, ...late].filter((call) => call.callId === callId);
      hold(kept.length > 0, () => `the answer of ${callId} of ${name} was received and is nowhere`);
      const committed = kept.find(({ status }) => status === "committed");
      hold(
        isMarked || committed !== undefined,
        () => `${callId} of ${name} was received and is ${kept[0]?.status}`,
      );
      if (committed === undefined || !calls.includes(committed)) continue;
      const sequence = await ledger.sequence(callId);
      hold(
        isDeepStrictEqual([...(sequence ?? [])], [...prompt, ...generated]),
        () =>
          `${callId} of ${name} has tokens ${sequence?.join()}, the agent ${[...prompt, ...generated].join()}`,
      );
    }
  }
}

/** Orders are 1, 2, 3 ... without gaps; counts are those of the calls; an ended attempt has nothing in flight. */
function checkCounts(name: string, { counts, state }: Rollout, calls: readonly Call[]): void {
  const orders = calls.flatMap(({ admittedOrder, settledOrder }) =>
    [admittedOrder, settledOrder ?? []].flat(),
  );
  const expected = Array.from({ length: orders.length }, (_, index) => index + 1);
  const sorted = orders.toSorted((one, other) => one - other);
  hold(isDeepStrictEqual(sorted, expected), () => `orders of ${name} are ${sorted.join()}`);
  hold(
    counts.admitted === calls.length,
    () => `${name} counts ${counts.admitted} calls and has ${calls.length}`,
  );
  for (const status of ["committed", "failed", "aborted", "unknown"] as const) {
    const found = calls.filter((call) => call.status === status).length;
    hold(counts[status] === found, () => `${name} counts ${counts[status]} ${status} and has ${found}`);
  }
  const inFlight = calls.filter(({ status }) => status === "admitted").length;
  hold(state === "open" || inFlight === 0, () => `${name} is ${state} with ${inFlight} calls in flight`);
}

/** The longest earlier sequence that the prompt starts with, the latest committed of twins. */
async function checkParents(name: string, ledger: Ledger, calls: readonly Call[]): Promise<void> {
  const committed = calls.filter(({ status }) => status === "committed");
  const sequences = new Map<string, string>();
  for (const { callId } of committed)
    sequences.set(callId, `${(await ledger.sequence(callId))?.join() ?? ""},`);
  for (const call of committed) {
    const whole = sequences.get(call.callId) as string;
    const promptLength = call.sequenceLength - call.generatedLength;
    const prompt = `${whole.split(",").slice(0, promptLength).join()},`;
    const fits = committed.filter(
      (one) =>
        one.generatedLength > 0 &&
        (one.settledOrder as number) < call.admittedOrder &&
        prompt.startsWith(sequences.get(one.callId) as string),
    );
    const [parent] = fits.toSorted(
      (one, other) =>
        other.sequenceLength - one.sequenceLength ||
        (other.settledOrder as number) - (one.settledOrder as number),
    );
    hold(
      call.parentCallId === (parent?.callId ?? null),
      () => `parent of ${call.callId} of ${name} is ${call.parentCallId}, and should be ${parent?.callId}`,
    );
  }
}
