// Posting an outcome. Its references are tried before anything is sealed: where one fails, the agent may correct it.
// Everything else seals the rollout, whatever the outcome is worth, and the answer tells the refusal.
import { CoppiceError } from "../errors.ts";
import type { Ledger, Rollout } from "../ledger/ledger.ts";
import type { Call, RolloutId } from "../lineage/call.ts";
import { buildForest } from "../lineage/forest.ts";
import { checkRecords } from "../rows/check-records.ts";
import { isReferenceFault, type Outcome, type Reference, type Refusal } from "../selection/outcome.ts";
import { select } from "../selection/select.ts";
import type { EventHub } from "./events.ts";
import type { GatewayMetrics } from "./gateway-metrics.ts";
import { buildRollout, checkRoomInGroup, isOverdue } from "./group-rows.ts";
import type { OutcomeBody } from "./management-schemas.ts";
import type { Recorder } from "./recorder.ts";
import type { UnrecordedMarks } from "./unrecorded-marks.ts";

export interface SealParts {
  readonly ledger: Ledger;
  readonly recorder: Recorder;
  readonly marks: UnrecordedMarks;
  readonly metrics: GatewayMetrics;
  readonly events: EventHub;
}

export interface SealedRollout {
  readonly rollout: Rollout;
  /** Why the rollout gives no rows; null where it gives some. */
  readonly refusal: Refusal | null;
}

/**
 * Throws `not_found` for a rollout that nobody opened, `unprocessable` for a reference that fails, `conflict` for an
 * outcome that differs from the one that stands.
 */
export async function sealRollout(
  id: RolloutId,
  body: OutcomeBody,
  parts: SealParts,
): Promise<SealedRollout> {
  const { ledger, recorder, marks } = parts;
  const rollout = await ledger.rollout({ rolloutId: id, attempt: null });
  if (rollout === null)
    throw new CoppiceError("not_found", `there is no rollout ${id}`, { param: "rollout_id" });
  const outcome = outcomeOf(id, body, rollout.outcome);
  if (rollout.state === "open") {
    // Sealing turns what is in flight into something harmless: a missing answer must have its mark by then.
    await recorder.settleGone(id);
    await marks.flush(id);
    if (!isOverdue(rollout, Date.now())) checkSaysSomething(outcome);
    checkReferences(await ledger.calls(rollout), outcome);
    if (body.group_size !== null && body.group_size !== undefined) await addGroupSize(rollout, body, ledger);
  }
  await checkRoomInGroup(ledger, id, {
    groupId: outcome.groupId ?? rollout.groupId,
    groupSize: body.group_size ?? rollout.groupSize,
    generationIndex: outcome.generationIndex ?? rollout.generationIndex,
  });
  const sealed = await ledger.seal(outcome, Date.now());
  const built = buildRollout(sealed, await ledger.calls(sealed));
  const refusal = built.kind === "failure" ? built.failure : null;
  if (rollout.state === "open") announce(sealed, refusal, parts);
  return { rollout: sealed, refusal };
}

function announce(rollout: Rollout, refusal: Refusal | null, { metrics, events }: SealParts): void {
  if (refusal !== null) metrics.refusals.add({ reason: refusal.reason });
  events.publish("rollout_sealed", () => ({
    rollout_id: rollout.rolloutId,
    attempt: rollout.attempt,
    group_id: rollout.groupId,
    reward: rollout.outcome?.reward ?? null,
    refusal: refusal?.reason ?? null,
  }));
}

/** What is left out of a second telling was told before: a reward, say, that is added later. */
function outcomeOf(id: RolloutId, body: OutcomeBody, before: Outcome | null): Outcome {
  const told = {
    rolloutId: id,
    groupId: body.group_id ?? null,
    generationIndex: body.generation_index ?? null,
    reward: body.reward ?? null,
  };
  if (before !== null && !saysWhatWasKept(body)) return { ...before, ...told };
  return {
    ...told,
    accepted: body.accepted?.map(referenceOf) ?? null,
    final: body.final === null || body.final === undefined ? null : referenceOf(body.final),
    failed: body.failed ?? null,
    infer: body.infer ?? false,
  };
}

function saysWhatWasKept({ accepted, final, failed, infer }: OutcomeBody): boolean {
  return [accepted, final, failed, infer].some(
    (field) => field !== undefined && field !== null && field !== false,
  );
}

/** An outcome that says nothing would seal the rollout for ever without rows: rather a slip than a wish. */
function checkSaysSomething(outcome: Outcome): void {
  const { accepted, final, failed, infer } = outcome;
  if (accepted !== null || final !== null || failed !== null || infer) return;
  throw new CoppiceError(
    "unprocessable",
    "no_outcome: the outcome says nothing of what was kept; give accepted, final, failed or infer: true",
    { param: "accepted", detail: { reason: "no_outcome", index: null } },
  );
}

function referenceOf(given: string | Record<string, unknown>): Reference {
  return typeof given === "string" ? given : { item: given };
}

/** A corrupt record comes before any reference: it is a refusal, and no correction helps. */
function checkReferences(calls: readonly Call[], outcome: Outcome): void {
  if (checkRecords(calls.filter((call) => call.status !== "admitted")) !== null) return;
  const selection = select(buildForest(calls), outcome);
  if (selection.kind === "selected" || !isReferenceFault(selection.refusal.reason)) return;
  const { reason, detail } = selection.refusal;
  const place = /^(accepted\[(\d+)\]|final)/.exec(detail);
  throw new CoppiceError("unprocessable", `${reason}: ${detail}`, {
    param: place?.[1] ?? "accepted",
    detail: { reason, index: place?.[2] === undefined ? null : Number(place[2]) },
  });
}

async function addGroupSize(rollout: Rollout, body: OutcomeBody, ledger: Ledger): Promise<void> {
  await ledger.open({
    rolloutId: rollout.rolloutId,
    attempt: rollout.attempt,
    groupId: body.group_id ?? null,
    groupSize: body.group_size ?? null,
    generationIndex: body.generation_index ?? null,
    sampling: null,
    deadlineAt: null,
    tags: null,
    openedAt: rollout.openedAt,
  });
}
