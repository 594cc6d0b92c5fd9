// The naive ledger that others are compared with: arrays and plain loops, nothing shared with their code but the record
// of a call. It keeps nothing when the process ends; `restart` is the death of the process that held it.
import { isDeepStrictEqual } from "node:util";
import { CoppiceError } from "../../errors.ts";
import type { Call, CallId, CallSummary, RolloutId } from "../../lineage/call.ts";
import { digestCall, settleCall, type PendingCall } from "../../lineage/record-digest.ts";
import type { Outcome } from "../../selection/outcome.ts";
import {
  claimAt,
  claimed,
  isClaimable,
  isOverdue,
  leaseOver,
  noOutcome,
  unknownClaim,
} from "../claim-rules.ts";
import { pickFields, unansweredCall } from "../pending-call.ts";
import type {
  Admission,
  Admitted,
  AttemptKey,
  CallCounts,
  Claim,
  ClaimRequest,
  Ledger,
  OpenRollout,
  Rollout,
  RolloutFilter,
  Settled,
  SweepPolicy,
  SweepReport,
} from "../ledger.ts";
import { alreadySwept, callIdTaken, cannotReopen, placeTaken } from "../rollout-rules.ts";

interface Attempt {
  told: Omit<Rollout, "counts" | "tags"> & { tags: Rollout["tags"] | null; deadlineMs: number | null };
  counts: { -readonly [K in keyof CallCounts]: number };
  order: number;
  lateOrder: number;
  inFlight: PendingCall[];
  settled: Call[];
  lateInFlight: PendingCall[];
  late: Call[];
  publishedAt: number | null;
}

export class MemoryLedger implements Ledger {
  readonly location = "memory";
  #attempts: Attempt[] = [];
  #claims: Claim[] = [];
  #weightVersion: string | null = null;

  /** What the next process finds: calls in flight are unknown. */
  restart(): void {
    const detail = "the ledger was closed before this call settled";
    for (const attempt of this.#attempts) {
      for (const call of attempt.inFlight.splice(0)) {
        attempt.counts.unknown += 1;
        attempt.settled.push(
          settleCall({ ...call, status: "unknown", statusDetail: detail }, ++attempt.order),
        );
      }
      for (const call of attempt.lateInFlight.splice(0)) {
        attempt.late.push(
          settleCall({ ...call, status: "unknown", statusDetail: detail }, nextLate(attempt)),
        );
      }
    }
  }

  async open(request: OpenRollout): Promise<Rollout> {
    const newest = this.#newest(request.rolloutId);
    if (request.attempt !== null && !(Number.isSafeInteger(request.attempt) && request.attempt >= 1)) {
      throw new CoppiceError("invalid_request", "attempt is no attempt");
    }
    const begins = newest === undefined || (request.attempt ?? 0) > newest.told.attempt;
    if (!begins && (request.attempt ?? newest.told.attempt) < newest.told.attempt)
      throw cannotReopen(newest.told, request.attempt);
    if (!begins && newest.told.state !== "open") throw cannotReopen(newest.told, request.attempt);
    const told = { ...request, deadlineMs: deadlineMs(request) };
    const before = begins ? null : newest.told;
    const fields = {
      groupId: first("group_id", before?.groupId, told.groupId),
      groupSize: first("group_size", before?.groupSize, told.groupSize),
      generationIndex: first("generation_index", before?.generationIndex, told.generationIndex),
      sampling: first("sampling", before?.sampling, told.sampling),
      tags: first("tags", before?.tags, told.tags),
      deadlineAt: before?.deadlineAt ?? told.deadlineAt,
      deadlineMs:
        before?.deadlineAt === undefined || before.deadlineAt === null ? told.deadlineMs : before.deadlineMs,
    };
    if (before !== null && before.deadlineMs !== told.deadlineMs)
      first("deadline_at", before.deadlineAt, told.deadlineAt);
    this.#checkGroup(request.rolloutId, fields.groupId, fields.generationIndex);
    if (!begins) {
      newest.told = { ...newest.told, ...fields };
      return tell(newest);
    }
    if (newest?.told.state === "open") sealAttempt(newest, request.openedAt);
    return tell(
      this.#begin(request.rolloutId, request.attempt ?? 1, { ...fields, openedAt: request.openedAt }),
    );
  }

  async admit(admissions: readonly Admission[]): Promise<readonly Admitted[]> {
    const ids = admissions.map((admission) => admission.callId);
    const taken = ids.find((id, index) => this.#holds(id) || ids.indexOf(id) < index);
    if (taken !== undefined) throw callIdTaken(taken);
    return admissions.map((admission) => {
      const attempt =
        this.#newest(admission.rolloutId) ??
        this.#begin(admission.rolloutId, 1, { openedAt: admission.admittedAt });
      const late = attempt.told.state !== "open";
      const admittedOrder = late ? nextLate(attempt) : ++attempt.order;
      attempt.counts[late ? "late" : "admitted"] += 1;
      (late ? attempt.lateInFlight : attempt.inFlight).push(
        unansweredCall({ ...admission, attempt: attempt.told.attempt, admittedOrder }),
      );
      return {
        callId: admission.callId,
        attempt: attempt.told.attempt,
        admittedOrder,
        late,
        sampling: attempt.told.sampling,
        deadlineAt: attempt.told.deadlineAt,
        rolloutWeightVersion: attempt.told.weightVersion,
      };
    });
  }

  async settle(given: PendingCall): Promise<Settled> {
    const pending = pickFields(given);
    const attempt = this.#find(pending);
    if (attempt === undefined) throw new CoppiceError("not_found", "no such attempt");
    if (pending.status === "admitted") throw new CoppiceError("invalid_request", "status");
    const inFlight = [...attempt.inFlight, ...attempt.lateInFlight].find(
      (call) => call.callId === pending.callId,
    );
    if (inFlight !== undefined && inFlight.admittedOrder !== pending.admittedOrder) {
      throw new CoppiceError("invalid_request", "order");
    }
    if (inFlight === undefined && attempt.told.state !== "swept" && !this.#holdsSettled(pending.callId)) {
      throw new CoppiceError("not_found", "never admitted");
    }
    if (inFlight !== undefined && attempt.inFlight.includes(inFlight)) {
      attempt.inFlight.splice(attempt.inFlight.indexOf(inFlight), 1);
      attempt.counts[pending.status] += 1;
      const call = settleCall(pending, ++attempt.order);
      attempt.settled.push(call);
      return { call, late: false };
    }
    if (inFlight === undefined) attempt.counts.late += 1;
    else attempt.lateInFlight.splice(attempt.lateInFlight.indexOf(inFlight), 1);
    const call = settleCall(pending, nextLate(attempt));
    attempt.late.push(call);
    return { call, late: true };
  }

  async seal(outcome: Outcome, sealedAt: number): Promise<Rollout> {
    const attempt = this.#newest(outcome.rolloutId);
    if (attempt === undefined) throw new CoppiceError("not_found", "no rollout");
    const { told } = attempt;
    if (told.state === "swept") throw alreadySwept(outcome.rolloutId);
    const before = told.outcome;
    if (before !== null) {
      for (const field of ["accepted", "final", "failed", "infer"] as const) {
        if (!isDeepStrictEqual(before[field], outcome[field])) throw fieldDiffers(field);
      }
    }
    const groupId = first("group_id", told.groupId, outcome.groupId);
    const generationIndex = first("generation_index", told.generationIndex, outcome.generationIndex);
    const reward = first("reward", before?.reward, outcome.reward);
    this.#checkGroup(outcome.rolloutId, groupId, generationIndex);
    const changes =
      groupId !== told.groupId || generationIndex !== told.generationIndex || reward !== before?.reward;
    const group = told.groupId ?? told.rolloutId;
    if (told.state === "sealed" && before !== null && changes && this.#isHeld(group, sealedAt)) {
      throw claimed(told.rolloutId, group);
    }
    if (told.state === "open") sealAttempt(attempt, sealedAt);
    attempt.told = {
      ...attempt.told,
      groupId,
      generationIndex,
      outcome: { ...(before ?? outcome), groupId, generationIndex, reward },
    };
    return tell(attempt);
  }

  async rollout(key: AttemptKey): Promise<Rollout | null> {
    const attempt = this.#find(key);
    return attempt === undefined ? null : tell(attempt);
  }

  async rollouts({ groupId, state, limit }: RolloutFilter): Promise<readonly Rollout[]> {
    return this.#attempts
      .filter((attempt) => this.#newest(attempt.told.rolloutId) === attempt)
      .filter(({ told }) => groupId === undefined || (told.groupId ?? told.rolloutId) === groupId)
      .filter(({ told }) => state === undefined || told.state === state)
      .toSorted((one, other) => one.told.openedAt - other.told.openedAt)
      .slice(0, limit)
      .map(tell);
  }

  async summaries(key: AttemptKey, sinceOrder: number, most?: number): Promise<readonly CallSummary[]> {
    return (await this.calls(key))
      .filter((call) => lastOrder(call) > sinceOrder)
      .toSorted((one, other) => lastOrder(one) - lastOrder(other))
      .slice(0, most)
      .map((call) => {
        const { carriedTokenIds: _c, generatedTokenIds: _g, generatedLogprobs: _l, ...rest } = call;
        const { messages: _m, answer: _a, digest: _d, ...summary } = rest;
        return summary;
      });
  }

  async calls(key: AttemptKey): Promise<readonly Call[]> {
    const attempt = this.#find(key);
    if (attempt === undefined) return [];
    return [...attempt.settled, ...attempt.inFlight.map(asRead)].toSorted(
      (one, other) => one.admittedOrder - other.admittedOrder,
    );
  }

  async call(callId: CallId): Promise<Call | null> {
    const isIt = (call: { readonly callId: CallId }): boolean => call.callId === callId;
    for (const { inFlight, lateInFlight } of this.#attempts) {
      const pending = [...inFlight, ...lateInFlight].find(isIt);
      if (pending !== undefined) return asRead(pending);
    }
    return (
      this.#attempts.flatMap((attempt) => attempt.settled).find(isIt) ??
      this.#attempts.flatMap((attempt) => attempt.late).findLast(isIt) ??
      null
    );
  }

  async lateCalls(key: AttemptKey): Promise<readonly Call[]> {
    const attempt = this.#find(key);
    if (attempt === undefined) return [];
    return [...attempt.late, ...attempt.lateInFlight.map(asRead)].toSorted(
      (one, other) => lastOrder(one) - lastOrder(other),
    );
  }

  async sequence(callId: CallId): Promise<Uint32Array | null> {
    const call = await this.call(callId);
    if (call === null || call.address === null) return null;
    const own = [...call.carriedTokenIds, ...call.generatedTokenIds];
    if (call.parentCallId === null) return Uint32Array.from(own);
    const above = await this.sequence(call.parentCallId);
    return above === null ? null : Uint32Array.from([...above, ...own]);
  }

  async sweep(key: AttemptKey): Promise<boolean> {
    const attempt = this.#find(key);
    if (attempt === undefined) return false;
    attempt.counts.aborted += attempt.inFlight.length;
    attempt.order += attempt.inFlight.length;
    Object.assign(attempt, { inFlight: [], settled: [], lateInFlight: [], late: [] });
    const wasThere = attempt.told.state !== "swept";
    attempt.told = { ...attempt.told, state: "swept" };
    return wasThere;
  }

  async claim({ claimId, consumer, claimedAt, leaseMs }: ClaimRequest): Promise<Claim | null> {
    const again = await this.claimOf(claimId, claimedAt);
    if (again !== null) return again;
    const groups = new Map<string, Attempt[]>();
    for (const attempt of this.#attempts.toSorted((one, other) => one.told.openedAt - other.told.openedAt)) {
      if (this.#newest(attempt.told.rolloutId) !== attempt || attempt.publishedAt !== null) continue;
      const groupId = attempt.told.groupId ?? attempt.told.rolloutId;
      groups.set(groupId, [...(groups.get(groupId) ?? []), attempt]);
    }
    for (const [groupId, members] of groups) {
      if (this.#isHeld(groupId, claimedAt)) continue;
      const told = members.map((member) => member.told);
      if (!isClaimable(told, claimedAt)) continue;
      // Before anything is waited for: another claim may be asked for meanwhile.
      this.#claims.push({
        claimId,
        groupId,
        consumer,
        state: "held",
        claimedAt,
        expiresAt: claimedAt + leaseMs,
        acknowledgedAt: null,
        members: told
          .filter(({ state }) => state !== "swept")
          .map(({ rolloutId, attempt }) => ({ rolloutId, attempt })),
      });
      for (const one of told) {
        if (isOverdue(one, claimedAt)) await this.seal(noOutcome(one.rolloutId), claimedAt);
      }
      return this.claimOf(claimId, claimedAt);
    }
    return null;
  }

  async claimOf(claimId: string, now: number): Promise<Claim | null> {
    const index = this.#claims.findIndex((one) => one.claimId === claimId);
    const claim = this.#claims[index];
    if (claim === undefined) return null;
    const taken = this.#claims.slice(index + 1).some(({ groupId }) => groupId === claim.groupId);
    return claimAt(taken && claim.state === "held" ? { ...claim, state: "expired" } : claim, now);
  }

  async acknowledge(claimId: string, now: number): Promise<Claim> {
    const claim = await this.claimOf(claimId, now);
    if (claim === null) throw unknownClaim(claimId);
    if (claim.state === "expired") throw leaseOver(claim);
    if (claim.state === "acknowledged") return claim;
    for (const member of claim.members) {
      await this.sweep(member);
      const attempt = this.#find(member);
      if (attempt !== undefined) attempt.publishedAt = now;
    }
    const acknowledged: Claim = { ...claim, state: "acknowledged", acknowledgedAt: now };
    this.#claims = this.#claims.map((one) => (one.claimId === claimId ? acknowledged : one));
    return acknowledged;
  }

  async sweepOld({ openBefore, publishedBefore, lateBefore, dryRun }: SweepPolicy): Promise<SweepReport> {
    const before = (time: number | null, bound: number | null): boolean =>
      time !== null && bound !== null && time < bound;
    const open = this.#attempts.filter(
      (one) =>
        one.told.state === "open" &&
        this.#newest(one.told.rolloutId) === one &&
        before(one.told.openedAt, openBefore),
    );
    const published = this.#attempts.filter((one) => before(one.publishedAt, publishedBefore));
    const isOld = (call: Call): boolean => before(call.settledAt ?? call.admittedAt, lateBefore);
    const gone = dryRun ? [] : published;
    const forgotten = new Set(
      gone.filter((one) => this.#newest(one.told.rolloutId) === one).map((one) => one.told.rolloutId),
    );
    if (!dryRun) for (const one of open) await this.sweep(one.told);
    this.#attempts = this.#attempts.filter(
      (one) => !gone.includes(one) && !forgotten.has(one.told.rolloutId),
    );
    const late = this.#attempts.flatMap((one) => one.late.filter(isOld));
    if (!dryRun) {
      for (const one of this.#attempts) one.late = one.late.filter((call) => !isOld(call));
      this.#claims = this.#claims.filter(
        (one) => one.state === "held" || !before(one.acknowledgedAt ?? one.expiresAt, publishedBefore),
      );
    }
    return { openRollouts: open.length, publishedAttempts: published.length, lateCalls: late.length };
  }

  #isHeld(groupId: string, now: number): boolean {
    return this.#claims.some(
      (claim) => claim.groupId === groupId && claim.state === "held" && claim.expiresAt > now,
    );
  }

  async setWeightVersion(version: string): Promise<void> {
    this.#weightVersion = version;
  }

  async weightVersion(): Promise<string | null> {
    return this.#weightVersion;
  }

  async close(): Promise<void> {}

  #begin(
    rolloutId: RolloutId,
    attempt: number,
    fields: Partial<Attempt["told"]> & { openedAt: number },
  ): Attempt {
    const begun: Attempt = {
      told: {
        groupId: null,
        groupSize: null,
        generationIndex: null,
        sampling: null,
        tags: null,
        deadlineAt: null,
        deadlineMs: null,
        sealedAt: null,
        outcome: null,
        ...fields,
        rolloutId,
        attempt,
        state: "open",
        weightVersion: this.#weightVersion,
      },
      counts: { admitted: 0, committed: 0, failed: 0, aborted: 0, unknown: 0, late: 0 },
      order: 0,
      lateOrder: 0,
      inFlight: [],
      settled: [],
      lateInFlight: [],
      late: [],
      publishedAt: null,
    };
    this.#attempts.push(begun);
    return begun;
  }

  #newest(rolloutId: RolloutId): Attempt | undefined {
    return this.#attempts.findLast((attempt) => attempt.told.rolloutId === rolloutId);
  }

  #find({ rolloutId, attempt }: AttemptKey): Attempt | undefined {
    if (attempt === null) return this.#newest(rolloutId);
    return this.#attempts.find(({ told }) => told.rolloutId === rolloutId && told.attempt === attempt);
  }

  #holdsSettled(id: CallId): boolean {
    return this.#attempts.some(({ settled, late }) =>
      [...settled, ...late].some((call) => call.callId === id),
    );
  }

  #holds(id: CallId): boolean {
    return (
      this.#holdsSettled(id) ||
      this.#attempts.some((one) => [...one.inFlight, ...one.lateInFlight].some((call) => call.callId === id))
    );
  }

  #checkGroup(rolloutId: RolloutId, groupId: string | null, index: number | null): void {
    if (groupId === null || index === null) return;
    for (const attempt of this.#attempts) {
      const { told } = attempt;
      const isOther = told.rolloutId !== rolloutId && this.#newest(told.rolloutId) === attempt;
      if (isOther && told.groupId === groupId && told.generationIndex === index)
        throw placeTaken({ groupId, generationIndex: index }, told.rolloutId);
    }
  }
}

function nextLate(attempt: Attempt): number {
  attempt.lateOrder = Math.max(attempt.lateOrder, attempt.order) + 1;
  return attempt.lateOrder;
}

function sealAttempt(attempt: Attempt, sealedAt: number): void {
  for (const call of attempt.inFlight.splice(0)) {
    attempt.counts.aborted += 1;
    attempt.settled.push(
      settleCall(
        { ...call, status: "aborted", statusDetail: "sealed", settledAt: sealedAt },
        ++attempt.order,
      ),
    );
  }
  attempt.told = { ...attempt.told, state: "sealed", sealedAt };
}

function tell({ told, counts }: Attempt): Rollout {
  const { deadlineMs: _deadlineMs, tags, ...rest } = told;
  return { ...rest, tags: tags ?? {}, counts: { ...counts } };
}

function first<T>(field: string, kept: T | null | undefined, told: T | null): T | null {
  if (kept === null || kept === undefined) return told;
  if (told !== null && !isDeepStrictEqual(kept, told)) throw fieldDiffers(field);
  return kept;
}

function deadlineMs(request: OpenRollout): number | null {
  return request.deadlineAt === null ? null : request.deadlineAt - request.openedAt;
}

function lastOrder(call: CallSummary): number {
  return call.settledOrder ?? call.admittedOrder;
}

function asRead(pending: PendingCall): Call {
  const call = { ...pending, settledOrder: null };
  return { ...call, digest: digestCall(call) };
}

function fieldDiffers(field: string): CoppiceError {
  return new CoppiceError("conflict", `${field} was told otherwise`, { detail: { field } });
}
