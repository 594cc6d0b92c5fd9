// The verbs of `Ledger` on the tables of an embedded ledger, done at once and within the caller's transaction
// (sqlite-engine.ts). Each verb checks before it writes. Nothing is remembered between verbs: after a rollback the
// tables alone say what is true.
import type Database from "better-sqlite3";
import { summaryOf, type Call, type CallId, type CallSummary } from "../lineage/call.ts";
import type { PendingCall } from "../lineage/record-digest.ts";
import { canonicalJson } from "../lineage/message.ts";
import { settleCall } from "../lineage/record-digest.ts";
import type { Outcome } from "../selection/outcome.ts";
import type { ImmediateVerbs, SettledPlace } from "./ledger-verbs.ts";
import type {
  Admission,
  Admitted,
  AttemptKey,
  Claim,
  ClaimRequest,
  OpenRollout,
  Rollout,
  RolloutFilter,
  SweepPolicy,
  SweepReport,
} from "./ledger.ts";
import {
  alreadySwept,
  callIdTaken,
  cannotReopen,
  checkAttempt,
  checkSettle,
  fieldsOf,
  fillFields,
  fillOutcome,
  neverAdmitted,
  neverOpened,
  placeTaken,
} from "./rollout-rules.ts";
import { fieldsOfRow, outcomeOfRow, rolloutOfRow, type AttemptRow } from "./attempt-row.ts";
import { AttemptTable } from "./sqlite-attempts.ts";
import { CallTable, inFlightCall } from "./sqlite-calls.ts";
import { SqliteClaims } from "./sqlite-claims.ts";

export class SqliteVerbs implements ImmediateVerbs {
  /** Why calls in flight will never settle, where the process that serves the file is dead; else null. */
  abandoned: string | null = null;
  readonly #attempts: AttemptTable;
  readonly #calls: CallTable;
  readonly #claims: SqliteClaims;
  readonly #readSetting;
  readonly #writeSetting;

  constructor(db: Database.Database) {
    this.#attempts = new AttemptTable(db);
    this.#calls = new CallTable(db, this.#attempts);
    this.#claims = new SqliteClaims(db, this.#attempts, this);
    this.#readSetting = db.prepare<[string], string>("SELECT value FROM setting WHERE name = ?").pluck();
    this.#writeSetting = db.prepare<[string, string]>(
      "INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)",
    );
  }

  open(request: OpenRollout): Rollout {
    const { rolloutId, attempt: wanted } = request;
    checkAttempt(wanted);
    const newest = this.#attempts.newest(rolloutId);
    const told = fieldsOf(request);
    if (newest !== undefined && (wanted === null || wanted <= newest.attempt)) {
      if (newest.state !== "open" || (wanted !== null && wanted < newest.attempt)) {
        throw cannotReopen(this.#told(newest), wanted);
      }
      const fields = fillFields(rolloutId, fieldsOfRow(newest), told);
      this.#checkPlace(newest, fields.groupId, fields.generationIndex);
      return this.#told(this.#attempts.fill(newest.attempt_key, fields));
    }
    this.#checkPlace({ rollout_id: rolloutId }, told.groupId, told.generationIndex);
    if (newest !== undefined) {
      if (newest.state === "open") this.#seal(newest, request.openedAt);
      this.#attempts.setOlder(newest.attempt_key);
    }
    const row = this.#insertAttempt(request, wanted ?? 1);
    return this.#told(this.#attempts.fill(row.attempt_key, told));
  }

  admit(admissions: readonly Admission[]): readonly Admitted[] {
    return admissions.map((admission) => {
      if (this.#calls.isKnown(admission.callId)) throw callIdTaken(admission.callId);
      const { rolloutId, admittedAt } = admission;
      const attempt =
        this.#attempts.newest(rolloutId) ?? this.#insertAttempt({ rolloutId, openedAt: admittedAt }, 1);
      const late = attempt.state !== "open";
      const order = late
        ? this.#attempts.nextLateOrder(attempt.attempt_key, true)
        : this.#attempts.nextOrder(attempt.attempt_key, "admitted");
      this.#calls.admit(admission, attempt.attempt_key, { late, order });
      const { sampling, deadlineAt } = fieldsOfRow(attempt);
      return {
        callId: admission.callId,
        attempt: attempt.attempt,
        admittedOrder: order,
        late,
        sampling,
        deadlineAt,
        rolloutWeightVersion: attempt.weight_version,
      };
    });
  }

  settle(pending: PendingCall): SettledPlace {
    const { callId, rolloutId } = pending;
    const attempt = this.#attempts.find(pending);
    if (attempt === undefined) throw neverAdmitted(callId, rolloutId, pending.attempt);
    const { attempt_key: key, state } = attempt;
    const row = this.#calls.inFlight(callId);
    const inFlight = row !== undefined && row.attempt_key === key ? row : null;
    checkSettle(pending, inFlight?.admitted_order ?? null);
    if (inFlight === null && state !== "swept" && !this.#calls.isSettled(callId)) {
      throw neverAdmitted(callId, rolloutId, pending.attempt);
    }
    const late = inFlight === null || inFlight.late === 1;
    const order = late
      ? this.#attempts.nextLateOrder(key, inFlight === null)
      : this.#attempts.nextOrder(key, pending.status);
    const { digest } = this.#calls.settle(pending, attempt, { late, order });
    return { settledOrder: order, digest, late };
  }

  seal(outcome: Outcome, sealedAt: number): Rollout {
    const newest = this.#attempts.newest(outcome.rolloutId);
    if (newest === undefined) throw neverOpened(outcome.rolloutId);
    if (newest.state === "swept") throw alreadySwept(outcome.rolloutId);
    const { group_id: groupId, generation_index: generationIndex } = newest;
    const kept = outcomeOfRow(newest) ?? { ...outcome, groupId, generationIndex };
    const filled = fillOutcome(kept, outcome);
    this.#checkPlace(newest, filled.groupId, filled.generationIndex);
    if (newest.state === "sealed" && canonicalJson(filled) !== canonicalJson(kept)) {
      this.#claims.checkUnclaimed(newest, sealedAt);
    }
    if (newest.state === "open") this.#seal(newest, sealedAt);
    return this.#told(this.#attempts.setOutcome(newest.attempt_key, filled));
  }

  rollout(key: AttemptKey): Rollout | null {
    const row = this.#attempts.find(key);
    return row === undefined ? null : this.#told(row);
  }

  rollouts(filter: RolloutFilter): readonly Rollout[] {
    return this.#attempts.list(filter).map((row) => this.#told(row));
  }

  summaries(key: AttemptKey, sinceOrder: number, most?: number): readonly CallSummary[] {
    const attempt = this.#attempts.find(key);
    if (attempt === undefined) return [];
    const unsettled = this.#unsettled(attempt, false)
      .filter((call) => lastOrder(call) > sinceOrder)
      .map(summaryOf);
    return [...this.#calls.summaries(attempt, sinceOrder, most), ...unsettled]
      .sort((one, other) => lastOrder(one) - lastOrder(other))
      .slice(0, most);
  }

  calls(key: AttemptKey): readonly Call[] {
    return this.#all(key, false);
  }

  lateCalls(key: AttemptKey): readonly Call[] {
    return this.#all(key, true);
  }

  call(callId: CallId): Call | null {
    const row = this.#calls.inFlight(callId);
    // A late answer to a call that was settled stands in the late bin under the same id: the settled one is the call.
    if (row === undefined) return this.#calls.call(callId);
    const unsettled = this.#unsettled(this.#attempts.byKey(row.attempt_key), row.late === 1);
    return unsettled.find((call) => call.callId === callId) ?? null;
  }

  sequence(callId: CallId): Uint32Array | null {
    return this.#calls.sequence(callId);
  }

  sweep(key: AttemptKey): boolean {
    const attempt = this.#attempts.find(key);
    if (attempt === undefined) return false;
    // They leave no record, but the counts must still add up.
    for (const _call of this.#calls.unsettled(attempt, false)) {
      this.#attempts.nextOrder(attempt.attempt_key, "aborted");
    }
    this.#calls.deleteAll(attempt.attempt_key);
    this.#attempts.setSwept(attempt.attempt_key);
    return attempt.state !== "swept";
  }

  claim(request: ClaimRequest): Claim | null {
    return this.#claims.claim(request);
  }

  claimOf(claimId: string, now: number): Claim | null {
    return this.#claims.claimOf(claimId, now);
  }

  acknowledge(claimId: string, now: number): Claim {
    return this.#claims.acknowledge(claimId, now);
  }

  sweepOld(policy: SweepPolicy): SweepReport {
    return this.#claims.sweepOld(policy);
  }

  setWeightVersion(version: string): void {
    this.#writeSetting.run("weight_version", version);
  }

  weightVersion(): string | null {
    return this.#readSetting.get("weight_version") ?? null;
  }

  /** Settles as `unknown` all calls in flight, whose process is dead. They take the next places, so counts add up. */
  recover(detail: string): void {
    const keys = new Set(this.#calls.allInFlight().map((row) => row.attempt_key));
    for (const key of keys) {
      const attempt = this.#attempts.byKey(key);
      for (const late of [false, true]) {
        for (const call of this.#calls.unsettled(attempt, late)) {
          const order = late
            ? this.#attempts.nextLateOrder(key, false)
            : this.#attempts.nextOrder(key, "unknown");
          this.#calls.settle(asUnknown(call, detail), attempt, { late, order });
        }
      }
    }
  }

  #told(row: AttemptRow): Rollout {
    return rolloutOfRow(row, this.abandoned !== null);
  }

  #insertAttempt(opened: Pick<OpenRollout, "rolloutId" | "openedAt">, attempt: number): AttemptRow {
    return this.#attempts.insert({ ...opened, attempt, weightVersion: this.weightVersion() });
  }

  #checkPlace(
    attempt: Pick<AttemptRow, "rollout_id">,
    groupId: string | null,
    generationIndex: number | null,
  ): void {
    if (groupId === null || generationIndex === null) return;
    const holder = this.#attempts.holderOf(groupId, generationIndex);
    if (holder !== undefined && holder !== attempt.rollout_id) {
      throw placeTaken({ groupId, generationIndex }, holder);
    }
  }

  #seal(attempt: AttemptRow, sealedAt: number): void {
    for (const call of this.#calls.unsettled(attempt, false)) {
      const order = this.#attempts.nextOrder(attempt.attempt_key, "aborted");
      const aborted: PendingCall = {
        ...call,
        status: "aborted",
        statusDetail: "sealed",
        settledAt: sealedAt,
      };
      this.#calls.settle(aborted, attempt, { late: false, order });
    }
    this.#attempts.setSealed(attempt.attempt_key, sealedAt);
  }

  /** Calls in flight as they are to be read: admitted, or what `recover` would make of them. */
  #unsettled(attempt: AttemptRow, late: boolean): readonly Call[] {
    const { abandoned } = this;
    const calls = this.#calls.unsettled(attempt, late);
    if (abandoned === null) return calls.map(inFlightCall);
    const last = late ? Math.max(attempt.last_late_order, attempt.last_order) : attempt.last_order;
    return calls.map((call, index) => settleCall(asUnknown(call, abandoned), last + 1 + index));
  }

  #all(key: AttemptKey, late: boolean): readonly Call[] {
    const attempt = this.#attempts.find(key);
    if (attempt === undefined) return [];
    const calls = [...this.#calls.calls(attempt, late), ...this.#unsettled(attempt, late)];
    // An admission has a place in the late bin's count only where it was late itself.
    return calls.sort((one, other) =>
      late ? lastOrder(one) - lastOrder(other) : one.admittedOrder - other.admittedOrder,
    );
  }
}

/** Nobody saw when it ended, so `settledAt` stays null. */
function asUnknown(call: PendingCall, detail: string): PendingCall {
  return { ...call, status: "unknown", statusDetail: detail };
}

function lastOrder(call: CallSummary): number {
  return call.settledOrder ?? call.admittedOrder;
}
