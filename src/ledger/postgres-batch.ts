// Admissions and settles that arrive together at a gateway, as one transaction with one sync: the attempts are locked, each
// verb is decided in its turn on what stands there, and what all of them change is written by one statement. A verb that
// is refused has written nothing, so the others go on without it.
import type { CallId } from "../lineage/call.ts";
import { digestCall, type PendingCall } from "../lineage/record-digest.ts";
import { fieldsOfRow, type AttemptRow } from "./attempt-row.ts";
import type { SettledPlace as Place } from "./ledger-verbs.ts";
import type { Admission, Admitted } from "./ledger.ts";
import { AttemptCount, insertAttempt, tryLockAttempts } from "./postgres-attempts.ts";
import {
  admissionText,
  CallWrites,
  inFlightOfIds,
  placesOfIds,
  type InFlightRow,
  type SettledPlace,
} from "./postgres-calls.ts";
import type { Transaction, Try } from "./postgres-connection.ts";
import { callIdTaken, checkSettle, neverAdmitted } from "./rollout-rules.ts";

export type HotVerb =
  | { readonly name: "admit"; readonly admissions: readonly Admission[] }
  | { readonly name: "settle"; readonly pending: PendingCall };

export type HotOutcome =
  | { readonly ok: true; readonly value: readonly Admitted[] | Place }
  | { readonly ok: false; readonly error: unknown };

export async function runBatch(
  tx: Transaction,
  verbs: readonly HotVerb[],
  how: Try & { readonly gatewayKey: number },
): Promise<{ readonly value: readonly HotOutcome[]; readonly last: Promise<void> }> {
  const batch = new Batch(tx, how.gatewayKey, how.maybeDone);
  await batch.load(verbs);
  const outcomes = verbs.map((verb): HotOutcome => {
    try {
      return {
        ok: true,
        value: verb.name === "admit" ? batch.admit(verb.admissions) : batch.settle(verb.pending),
      };
    } catch (error) {
      return { ok: false, error };
    }
  });
  return { value: outcomes, last: batch.write() };
}

class Batch {
  readonly #tx: Transaction;
  readonly #gatewayKey: number;
  readonly #maybeDone: boolean;
  #attempts = new Map<string, readonly AttemptCount[]>();
  #inFlight = new Map<CallId, InFlightRow>();
  #settled: readonly SettledPlace[] = [];
  /** Ids that admissions of this batch will take. */
  readonly #asked = new Set<CallId>();
  readonly #settledHere = new Set<CallId>();
  readonly #writes = new CallWrites();

  constructor(tx: Transaction, gatewayKey: number, maybeDone: boolean) {
    this.#tx = tx;
    this.#gatewayKey = gatewayKey;
    this.#maybeDone = maybeDone;
  }

  async load(verbs: readonly HotVerb[]): Promise<void> {
    const admissions = verbs.flatMap((verb) => (verb.name === "admit" ? verb.admissions : []));
    const pending = verbs.flatMap((verb) => (verb.name === "settle" ? [verb.pending] : []));
    const rollouts = [...new Set([...admissions, ...pending].map((one) => one.rolloutId))];
    const ids = [...admissions, ...pending].map((one) => one.callId);
    const parents = pending.flatMap(({ parentCallId }) => parentCallId ?? []);
    const [locked, inFlight, settled] = await this.#lockAndLook(rollouts, ids, parents);
    for (const [id, rows] of locked) this.#attempts.set(id, rows.map(counted));
    this.#inFlight = new Map(inFlight.map((row) => [row.call_id, row]));
    this.#settled = settled;
    for (const verb of verbs) if (verb.name === "admit") await this.#openMissing(verb.admissions);
  }

  /**
   * Sent together and done in this order: once the locks are held, nobody changes what the calls are, and each statement sees
   * what was committed before it began.
   */
  async #lockAndLook(
    rollouts: readonly string[],
    ids: readonly CallId[],
    parents: readonly CallId[],
  ): Promise<[ReadonlyMap<string, readonly AttemptRow[]>, readonly InFlightRow[], readonly SettledPlace[]]> {
    for (;;) {
      const [locked, inFlight, settled] = await Promise.all([
        tryLockAttempts(this.#tx, rollouts),
        inFlightOfIds(this.#tx, ids),
        placesOfIds(this.#tx, [...ids, ...parents]),
      ]);
      if (locked !== null) return [locked, inFlight, settled];
    }
  }

  /** A call to a rollout that nobody opened opens it; not where the call itself will be refused. */
  async #openMissing(admissions: readonly Admission[]): Promise<void> {
    const ids = admissions.map(({ callId }) => callId);
    if (ids.some((id, index) => this.#asked.has(id) || this.#isKnown(id) || ids.indexOf(id) < index)) return;
    for (const id of ids) this.#asked.add(id);
    for (const { rolloutId, admittedAt } of admissions.toSorted(byRollout)) {
      if (this.#attempts.has(rolloutId)) continue;
      const row = await insertAttempt(this.#tx, { rolloutId, attempt: 1, openedAt: admittedAt });
      this.#attempts.set(rolloutId, [counted(row)]);
    }
  }

  admit(admissions: readonly Admission[]): readonly Admitted[] {
    const mine = this.#maybeDone ? this.#admittedBefore(admissions) : null;
    if (mine !== null) return mine;
    const ids = admissions.map(({ callId }) => callId);
    const taken = ids.find((id, index) => this.#isKnown(id) || ids.indexOf(id) < index);
    if (taken !== undefined) throw callIdTaken(taken);
    return admissions.map((admission) => {
      const count = this.#newest(admission.rolloutId);
      const late = count.attempt.state !== "open";
      const order = late ? count.nextLateOrder(true) : count.nextOrder("admitted");
      const row: InFlightRow = {
        attempt_key: count.attempt.attempt_key,
        late,
        admitted_order: order,
        call_id: admission.callId,
        admission: admissionText(admission),
        gateway_key: this.#gatewayKey,
      };
      this.#inFlight.set(admission.callId, row);
      this.#writes.admit(count, row);
      return told(count.attempt, row);
    });
  }

  /** What an earlier try wrote, where the connection broke before it could be told. */
  #admittedBefore(admissions: readonly Admission[]): readonly Admitted[] | null {
    const rows = admissions.map(({ callId }) => this.#inFlight.get(callId));
    if (rows.some((row, index) => row?.admission !== admissionText(admissions[index] as Admission)))
      return null;
    return admissions.map(({ rolloutId }, index) =>
      told(this.#newest(rolloutId).attempt, rows[index] as InFlightRow),
    );
  }

  settle(pending: PendingCall): Place {
    const { callId, rolloutId } = pending;
    const count = this.#attempts.get(rolloutId)?.find(({ attempt }) => attempt.attempt === pending.attempt);
    if (count === undefined) throw neverAdmitted(callId, rolloutId, pending.attempt);
    const { attempt_key: key, state } = count.attempt;
    const row = this.#inFlight.get(callId);
    const inFlight = row?.attempt_key === key ? row : null;
    if (inFlight === null && this.#maybeDone) {
      const before = this.#settledBefore(pending, key);
      if (before !== null) return before;
    }
    checkSettle(pending, inFlight?.admitted_order ?? null);
    if (inFlight === null && state !== "swept" && !this.#isSettled(callId)) {
      throw neverAdmitted(callId, rolloutId, pending.attempt);
    }
    const late = inFlight === null || inFlight.late;
    const order = late ? count.nextLateOrder(inFlight === null) : count.nextOrder(pending.status);
    const parentOrder = this.#parentOrder(pending, key);
    const { digest } = this.#writes.settle(count, pending, {
      late,
      order,
      parentOrder,
      wasInFlight: inFlight !== null,
    });
    if (inFlight !== null) this.#inFlight.delete(callId);
    this.#settledHere.add(callId);
    return { settledOrder: order, digest, late };
  }

  #settledBefore(pending: PendingCall, key: number): Place | null {
    const place = this.#settled.find(
      (one) =>
        one.callId === pending.callId &&
        one.attemptKey === key &&
        one.digest === digestCall({ ...pending, settledOrder: one.order }),
    );
    return place === undefined ? null : { settledOrder: place.order, digest: place.digest, late: place.late };
  }

  #parentOrder({ parentCallId }: PendingCall, key: number): number | null {
    if (parentCallId === null) return null;
    const parent = this.#settled.find(
      (one) => one.callId === parentCallId && one.attemptKey === key && !one.late,
    );
    return parent?.order ?? null;
  }

  write(): Promise<void> {
    return this.#writes.write(this.#tx);
  }

  #newest(rolloutId: string): AttemptCount {
    return this.#attempts.get(rolloutId)?.at(-1) as AttemptCount;
  }

  #isKnown(callId: CallId): boolean {
    return this.#inFlight.has(callId) || this.#isSettled(callId);
  }

  #isSettled(callId: CallId): boolean {
    return this.#settledHere.has(callId) || this.#settled.some((one) => one.callId === callId);
  }
}

function counted(row: AttemptRow): AttemptCount {
  return new AttemptCount(row);
}

function byRollout(one: Admission, other: Admission): number {
  return one.rolloutId < other.rolloutId ? -1 : 1;
}

function told(attempt: AttemptRow, row: InFlightRow): Admitted {
  const { sampling, deadlineAt } = fieldsOfRow(attempt);
  return {
    callId: row.call_id,
    attempt: attempt.attempt,
    admittedOrder: row.admitted_order,
    late: row.late,
    sampling,
    deadlineAt,
    rolloutWeightVersion: attempt.weight_version,
  };
}
