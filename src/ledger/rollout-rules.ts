// What may be said about a rollout more than once, for ledgers of every kind: the first words stand, what was null may
// be filled in, anything else is a conflict. Pure; groups are checked by the ledger, which alone knows the others.
import { CoppiceError } from "../errors.ts";
import type { RolloutId } from "../lineage/call.ts";
import { canonicalJson } from "../lineage/message.ts";
import type { Outcome } from "../selection/outcome.ts";
import type { OpenRollout, Rollout } from "./ledger.ts";

/** What opening a rollout tells, as far as it is kept. */
export interface RolloutFields extends Pick<
  OpenRollout,
  "groupId" | "groupSize" | "generationIndex" | "sampling" | "deadlineAt" | "tags"
> {
  /** Time from opening to the deadline, as it was told: a client that asks again tells the same span, not the same time. */
  readonly deadlineMs: number | null;
}

export function fieldsOf(request: OpenRollout): RolloutFields {
  const { groupId, groupSize, generationIndex, sampling, deadlineAt, tags, openedAt } = request;
  const deadlineMs = deadlineAt === null ? null : deadlineAt - openedAt;
  return { groupId, groupSize, generationIndex, sampling, deadlineAt, deadlineMs, tags };
}

/** The kept fields with those that were null filled in. Throws `conflict` where a field was told otherwise before. */
export function fillFields(rolloutId: RolloutId, kept: RolloutFields, told: RolloutFields): RolloutFields {
  const fill = <T>(field: string, one: T | null, other: T | null): T | null => {
    if (one === null || other === null || canonicalJson(one) === canonicalJson(other)) return one ?? other;
    throw differs(rolloutId, field, one, other);
  };
  const sameSpan = kept.deadlineMs !== null && kept.deadlineMs === told.deadlineMs;
  return {
    groupId: fill("group_id", kept.groupId, told.groupId),
    groupSize: fill("group_size", kept.groupSize, told.groupSize),
    generationIndex: fill("generation_index", kept.generationIndex, told.generationIndex),
    sampling: fill("sampling", kept.sampling, told.sampling),
    deadlineAt: sameSpan ? kept.deadlineAt : fill("deadline_at", kept.deadlineAt, told.deadlineAt),
    deadlineMs: kept.deadlineAt === null ? told.deadlineMs : kept.deadlineMs,
    tags: fill("tags", kept.tags, told.tags),
  };
}

/** The kept outcome with a reward, group or index that was missing. Throws `conflict` for anything else that is new. */
export function fillOutcome(kept: Outcome, told: Outcome): Outcome {
  const fill = <T>(field: string, one: T | null, other: T | null): T | null => {
    if (one === null || other === null || one === other) return one ?? other;
    throw differs(kept.rolloutId, field, one, other);
  };
  for (const field of ["accepted", "final", "failed", "infer"] as const) {
    if (canonicalJson(kept[field]) !== canonicalJson(told[field])) {
      throw differs(kept.rolloutId, field, kept[field], told[field]);
    }
  }
  return {
    ...kept,
    groupId: fill("group_id", kept.groupId, told.groupId),
    generationIndex: fill("generation_index", kept.generationIndex, told.generationIndex),
    reward: fill("reward", kept.reward, told.reward),
  };
}

function differs(rolloutId: RolloutId, field: string, kept: unknown, told: unknown): CoppiceError {
  return new CoppiceError(
    "conflict",
    `${field} of rollout ${rolloutId} was told as ${shown(kept)} and is now told as ${shown(told)}; the first stands`,
    { param: field, detail: { rollout_id: rolloutId, field } },
  );
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 120 ? `${text.slice(0, 120)}...` : text;
}

export function placeTaken(
  group: { readonly groupId: string; readonly generationIndex: number },
  holder: RolloutId,
): CoppiceError {
  return new CoppiceError(
    "conflict",
    `generation_index ${group.generationIndex} of group ${group.groupId} belongs to rollout ${holder}`,
    { param: "generation_index", detail: { rollout_id: holder, group_id: group.groupId } },
  );
}

export function checkAttempt(wanted: number | null): void {
  if (wanted === null || (Number.isSafeInteger(wanted) && wanted > 0)) return;
  throw new CoppiceError("invalid_request", `attempt is ${wanted}; it must be a whole number from 1 on`, {
    param: "attempt",
  });
}

/** An attempt that is not open cannot be opened again; `wanted` is null where none was asked for. */
export function cannotReopen(
  newest: Pick<Rollout, "rolloutId" | "attempt" | "state">,
  wanted: number | null,
): CoppiceError {
  const { rolloutId, attempt, state } = newest;
  const older = wanted !== null && wanted < attempt;
  return new CoppiceError(
    "conflict",
    older
      ? `attempt ${wanted} of rollout ${rolloutId} is over: attempt ${attempt} is the newest`
      : `attempt ${attempt} of rollout ${rolloutId} is ${state}; ask for attempt ${attempt + 1} to run it again`,
    { param: "attempt", detail: { rollout_id: rolloutId, newest_attempt: attempt, state } },
  );
}

export function alreadySwept(rolloutId: RolloutId): CoppiceError {
  return new CoppiceError("conflict", `rollout ${rolloutId} is swept; its outcome can no longer be told`, {
    detail: { rollout_id: rolloutId, state: "swept" },
  });
}

export function neverOpened(rolloutId: RolloutId): CoppiceError {
  return new CoppiceError("not_found", `nobody opened rollout ${rolloutId}`, { param: "rollout_id" });
}

export function callIdTaken(callId: string): CoppiceError {
  return new CoppiceError("conflict", `call id ${callId} was admitted before; call ids are used once`, {
    param: "call_id",
    detail: { call_id: callId },
  });
}

export function neverAdmitted(callId: string, rolloutId: RolloutId, attempt: number): CoppiceError {
  return new CoppiceError(
    "not_found",
    `call ${callId} cannot settle: it was never admitted in attempt ${attempt} of rollout ${rolloutId}`,
    { param: "call_id" },
  );
}

/** A settle must say how the call ended, and its place must be the one that admission gave. */
export function checkSettle(
  call: { readonly callId: string; readonly status: string; readonly admittedOrder: number },
  admittedOrder: number | null,
): void {
  if (call.status === "admitted") {
    throw new CoppiceError(
      "invalid_request",
      `call ${call.callId} cannot settle as admitted; it must be committed, aborted, failed or unknown`,
      { param: "status" },
    );
  }
  if (admittedOrder !== null && call.admittedOrder !== admittedOrder) {
    throw new CoppiceError(
      "invalid_request",
      `call ${call.callId} was admitted at ${admittedOrder} and settles with admitted_order ${call.admittedOrder}`,
      { param: "admitted_order" },
    );
  }
}
