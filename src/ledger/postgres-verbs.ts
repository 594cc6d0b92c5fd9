// The verbs of `Ledger` on PostgreSQL but for the two hot ones (postgres-batch.ts), each within a transaction of its own.
// The rules are those of sqlite-verbs.ts: every verb locks its attempts, checks, and then writes.
import { summaryOf, type Call, type CallId, type CallSummary } from "../lineage/call.ts";
import { canonicalJson } from "../lineage/message.ts";
import { digestCall, type PendingCall } from "../lineage/record-digest.ts";
import type { Outcome } from "../selection/outcome.ts";
import { fieldsOfRow, outcomeOfRow, rolloutOfRow, type AttemptRow } from "./attempt-row.ts";
import type { AttemptKey, OpenRollout, Rollout, RolloutFilter } from "./ledger.ts";
import {
  AttemptCount,
  attemptsByKey,
  fillAttempt,
  findAttempt,
  holderOf,
  insertAttempt,
  listAttempts,
  lockAttempts,
  lockNewest,
  setOlder,
  setOutcome,
  setSealed,
} from "./postgres-attempts.ts";
import {
  callsOf,
  CallWrites,
  damaged,
  decodeStored,
  deleteCalls,
  inFlightOfAttempt,
  inFlightOfIds,
  NO_ATTEMPT,
  pendingOf,
  storedCall,
  storedWalk,
  summariesOf,
} from "./postgres-calls.ts";
import type { Transaction } from "./postgres-connection.ts";
import { checkUnclaimed } from "./postgres-held.ts";
import {
  alreadySwept,
  cannotReopen,
  checkAttempt,
  fieldsOf,
  fillFields,
  fillOutcome,
  neverOpened,
  placeTaken,
} from "./rollout-rules.ts";

export async function openRollout(tx: Transaction, request: OpenRollout): Promise<Rollout> {
  const { rolloutId, attempt: wanted } = request;
  checkAttempt(wanted);
  const newest = await lockNewest(tx, rolloutId);
  const told = fieldsOf(request);
  if (newest !== undefined && (wanted === null || wanted <= newest.attempt)) {
    if (newest.state !== "open" || (wanted !== null && wanted < newest.attempt)) {
      throw cannotReopen(rolloutOfRow(newest, false), wanted);
    }
    const fields = fillFields(rolloutId, fieldsOfRow(newest), told);
    await checkPlace(tx, rolloutId, fields);
    return rolloutOfRow(await fillAttempt(tx, newest.attempt_key, fields), false);
  }
  await checkPlace(tx, rolloutId, told);
  if (newest !== undefined) {
    if (newest.state === "open") await sealAttempt(tx, newest, request.openedAt);
    await setOlder(tx, newest.attempt_key);
  }
  const row = await insertAttempt(tx, { rolloutId, attempt: wanted ?? 1, openedAt: request.openedAt });
  return rolloutOfRow(await fillAttempt(tx, row.attempt_key, told), false);
}

export async function sealRollout(tx: Transaction, outcome: Outcome, sealedAt: number): Promise<Rollout> {
  const newest = await lockNewest(tx, outcome.rolloutId);
  if (newest === undefined) throw neverOpened(outcome.rolloutId);
  if (newest.state === "swept") throw alreadySwept(outcome.rolloutId);
  const { group_id: groupId, generation_index: generationIndex } = newest;
  const kept = outcomeOfRow(newest) ?? { ...outcome, groupId, generationIndex };
  const filled = fillOutcome(kept, outcome);
  await checkPlace(tx, outcome.rolloutId, filled);
  if (newest.state === "sealed" && canonicalJson(filled) !== canonicalJson(kept)) {
    await checkUnclaimed(tx, newest, sealedAt);
  }
  if (newest.state === "open") await sealAttempt(tx, newest, sealedAt);
  return rolloutOfRow(await setOutcome(tx, newest.attempt_key, filled), false);
}

async function checkPlace(
  tx: Transaction,
  rolloutId: string,
  { groupId, generationIndex }: { readonly groupId: string | null; readonly generationIndex: number | null },
): Promise<void> {
  if (groupId === null || generationIndex === null) return;
  const holder = await holderOf(tx, groupId, generationIndex);
  if (holder !== undefined && holder !== rolloutId) throw placeTaken({ groupId, generationIndex }, holder);
}

/** Seals a locked attempt; its calls in flight become `aborted`. */
export async function sealAttempt(tx: Transaction, attempt: AttemptRow, sealedAt: number): Promise<void> {
  const writes = new CallWrites();
  const count = new AttemptCount(attempt);
  for (const row of await inFlightOfAttempt(tx, attempt.attempt_key)) {
    if (row.late) continue;
    const pending = pendingOf(row, attempt);
    writes.settle(
      count,
      { ...pending, status: "aborted", statusDetail: "sealed", settledAt: sealedAt },
      { late: false, order: count.nextOrder("aborted"), parentOrder: null, wasInFlight: true },
    );
  }
  await writes.write(tx);
  await setSealed(tx, attempt.attempt_key, sealedAt);
}

export async function sweepAttempt(tx: Transaction, key: AttemptKey): Promise<boolean> {
  const attempts = (await lockAttempts(tx, [key.rolloutId])).get(key.rolloutId) ?? [];
  const attempt =
    key.attempt === null ? attempts.at(-1) : attempts.find((one) => one.attempt === key.attempt);
  return attempt !== undefined && (await sweepLocked(tx, attempt));
}

export async function sweepLocked(tx: Transaction, attempt: AttemptRow): Promise<boolean> {
  const count = new AttemptCount(attempt);
  // They leave no record, but the counts must still add up.
  for (const row of await inFlightOfAttempt(tx, attempt.attempt_key)) {
    if (!row.late) count.nextOrder("aborted");
  }
  const writes = new CallWrites();
  writes.count(count);
  await writes.write(tx);
  await deleteCalls(tx, attempt.attempt_key);
  await tx.query("UPDATE coppice_attempt SET state = 'swept' WHERE attempt_key = $1", [attempt.attempt_key]);
  return attempt.state !== "swept";
}

/** Settles as `unknown` the calls that a gateway left in flight. They take the next places, so counts add up. */
export async function settleUnknown(tx: Transaction, gatewayKey: number, detail: string): Promise<number> {
  const { rows: left } = await tx.query<{ rollout_id: string }>(
    `SELECT DISTINCT a.rollout_id FROM coppice_in_flight f JOIN coppice_attempt a USING (attempt_key)
     WHERE f.gateway_key = $1`,
    [gatewayKey],
  );
  const locked = await lockAttempts(
    tx,
    left.map((row) => row.rollout_id),
  );
  const writes = new CallWrites();
  let settled = 0;
  for (const attempt of [...locked.values()].flat()) {
    const count = new AttemptCount(attempt);
    for (const row of await inFlightOfAttempt(tx, attempt.attempt_key)) {
      if (row.gateway_key !== gatewayKey) continue;
      const { late } = row;
      // Nobody saw when it ended, so `settledAt` stays null.
      const unknown: PendingCall = { ...pendingOf(row, attempt), status: "unknown", statusDetail: detail };
      const order = late ? count.nextLateOrder(false) : count.nextOrder("unknown");
      writes.settle(count, unknown, { late, order, parentOrder: null, wasInFlight: true });
      settled += 1;
    }
  }
  await writes.write(tx);
  return settled;
}

export async function readRollout(tx: Transaction, key: AttemptKey): Promise<Rollout | null> {
  const row = await findAttempt(tx, key);
  return row === undefined ? null : rolloutOfRow(row, false);
}

export async function readRollouts(tx: Transaction, filter: RolloutFilter): Promise<readonly Rollout[]> {
  return (await listAttempts(tx, filter)).map((row) => rolloutOfRow(row, false));
}

export async function readSummaries(
  tx: Transaction,
  key: AttemptKey,
  since: { readonly sinceOrder: number; readonly most: number | null },
): Promise<readonly CallSummary[]> {
  const attempt = await findAttempt(tx, key);
  if (attempt === undefined) return [];
  const [settled, inFlight] = await Promise.all([
    summariesOf(tx, attempt, since),
    inFlightOfAttempt(tx, attempt.attempt_key),
  ]);
  const unsettled = inFlight
    .filter((row) => !row.late && row.admitted_order > since.sinceOrder)
    .map((row) => summaryOf(asRead(pendingOf(row, attempt))));
  return [...settled, ...unsettled]
    .sort((one, other) => lastOrder(one) - lastOrder(other))
    .slice(0, since.most ?? undefined);
}

export async function readCalls(tx: Transaction, key: AttemptKey, late: boolean): Promise<readonly Call[]> {
  const attempt = await findAttempt(tx, key);
  if (attempt === undefined) return [];
  const [settled, inFlight] = await Promise.all([
    callsOf(tx, attempt, late),
    inFlightOfAttempt(tx, attempt.attempt_key),
  ]);
  const unsettled = inFlight.filter((row) => row.late === late).map((row) => asRead(pendingOf(row, attempt)));
  // An admission has a place in the late bin's count only where it was late itself.
  return [...settled, ...unsettled].sort((one, other) =>
    late ? lastOrder(one) - lastOrder(other) : one.admittedOrder - other.admittedOrder,
  );
}

export async function readCall(tx: Transaction, callId: CallId): Promise<Call | null> {
  const [inFlight] = await inFlightOfIds(tx, [callId]);
  if (inFlight !== undefined) {
    const attempt = (await attemptsByKey(tx, [inFlight.attempt_key])).get(inFlight.attempt_key);
    return asRead(pendingOf(inFlight, attempt as AttemptRow));
  }
  const row = await storedCall(tx, callId);
  if (row === undefined) return null;
  return decodeStored(row, (await attemptsByKey(tx, [row.attempt_key])).get(row.attempt_key) as AttemptRow);
}

/** Joined from the call and its ancestors. */
export async function readSequence(tx: Transaction, callId: CallId): Promise<Uint32Array | null> {
  let walk = await storedWalk(tx, callId);
  const own = walk[0];
  if (own === undefined) return null;
  const length = own.sequence_length;
  const tokens = new Uint32Array(length);
  let end = length;
  for (;;) {
    for (const row of walk) {
      const call = decodeStored(row, NO_ATTEMPT);
      if (call.address === null) return null;
      const { carriedTokenIds: carried, generatedTokenIds: generated } = call;
      if (row.sequence_length !== end || carried.length + generated.length > end) {
        throw damaged(callId, `its tokens and those of its ancestors are not ${length} in number`);
      }
      end -= generated.length;
      tokens.set(generated, end);
      end -= carried.length;
      tokens.set(carried, end);
    }
    // A parent outside the attempt, or one that was swept, is known by its id alone.
    const { parentCallId } = decodeStored(walk.at(-1) as typeof own, NO_ATTEMPT);
    if (parentCallId === null) break;
    walk = await storedWalk(tx, parentCallId);
    if (walk.length === 0 && own.late) return null;
    if (walk.length === 0 || walk[0]?.generated_length === 0)
      throw damaged(callId, `its parent ${parentCallId} is gone`);
  }
  if (end !== 0) throw damaged(callId, `the first ${end} of its ${length} tokens are missing`);
  return tokens;
}

function asRead(pending: PendingCall): Call {
  const call = { ...pending, settledOrder: null };
  return Object.freeze({ ...call, digest: digestCall(call) });
}

function lastOrder(call: CallSummary): number {
  return call.settledOrder ?? call.admittedOrder;
}
