// Rollouts and calls as the management API shows them: snake_case, times in seconds, nothing left to look up.
import { standsInForest, type Call, type CallSummary } from "../lineage/call.ts";
import type { Rollout } from "../ledger/ledger.ts";
import type { Reference, Refusal } from "../selection/outcome.ts";
import { formatFloat32s, formatIntegers, object } from "../export/json-lines.ts";
import type { ChangingLine } from "./changing-line.ts";
import { placeOf } from "./group-rows.ts";

type Json = Readonly<Record<string, unknown>>;

/** Below this many calls, all of them roots is nothing to worry about. */
const ALARM_FROM_CALLS = 4;

export function rolloutView(rollout: Rollout): Json {
  const { outcome } = rollout;
  return {
    rollout_id: rollout.rolloutId,
    attempt: rollout.attempt,
    state: rollout.state,
    group_id: placeOf(rollout).groupId,
    group_size: rollout.groupSize,
    generation_index: rollout.generationIndex,
    sampling: rollout.sampling,
    deadline_at: seconds(rollout.deadlineAt),
    tags: rollout.tags,
    opened_at: seconds(rollout.openedAt),
    sealed_at: seconds(rollout.sealedAt),
    weight_version: rollout.weightVersion,
    outcome:
      outcome === null
        ? null
        : {
            reward: outcome.reward,
            accepted: outcome.accepted?.map(plain) ?? null,
            final: outcome.final === null ? null : plain(outcome.final),
            failed: outcome.failed,
            infer: outcome.infer,
          },
    counts: rollout.counts,
  };
}

export function sealedRolloutView(rollout: Rollout, refusal: Refusal | null): Json {
  const told = refusal === null ? null : { reason: refusal.reason, detail: refusal.detail };
  return { ...rolloutView(rollout), refusal: told };
}

/** Every call a root, where there are enough of them to wonder. */
export function everyCallIsARoot(calls: readonly CallSummary[]): boolean {
  const standing = calls.filter(standsInForest);
  return standing.length >= ALARM_FROM_CALLS && standing.every((call) => call.parentCallId === null);
}

/**
 * With its calls in order of admission, and what about them is alarming.
 *
 * @param line what keeps the prompts from sharing a prefix, where every call is a root and a line can be blamed
 */
export function rolloutWithCallsView(
  rollout: Rollout,
  calls: readonly CallSummary[],
  line: ChangingLine | null = null,
): Json {
  const ordered = [...calls].sort((one, other) => one.admittedOrder - other.admittedOrder);
  return {
    ...rolloutView(rollout),
    alarms: everyCallIsARoot(ordered) ? ["n_calls_n_roots"] : [],
    changing_line: line,
    drifts: ordered.filter((call) => call.rootReason?.kind === "drift").length,
    calls: ordered.map(callView),
  };
}

export function callView(call: CallSummary): Json {
  const reason = call.rootReason;
  return {
    call_id: call.callId,
    response_id: call.responseId,
    parent_call_id: call.parentCallId,
    root_reason: reason?.kind ?? null,
    drift:
      reason?.kind === "drift"
        ? {
            followed_call_id: reason.followedCallId,
            index: reason.index,
            expected_id: reason.expectedId,
            actual_id: reason.actualId,
            expected_text: reason.expectedText,
            actual_text: reason.actualText,
          }
        : null,
    asked_again_call_id: reason?.kind === "asked_again" ? reason.rootCallId : null,
    status: call.status,
    status_detail: call.statusDetail,
    way: call.way,
    agent: call.agent,
    class: call.class,
    carried_tokens: call.carriedLength,
    generated_tokens: call.generatedLength,
    sequence_length: call.sequenceLength,
    finish_reason: call.finishReason,
    untrainable: call.untrainable,
    named_parent: call.namedParent,
    named_parent_misfit: call.namedParentMisfit,
    weight_versions: call.weightVersions,
    sampling: call.sampling,
    notes: call.notes,
    admitted_order: call.admittedOrder,
    settled_order: call.settledOrder,
    admitted_at: seconds(call.admittedAt),
    settled_at: seconds(call.settledAt),
  };
}

/**
 * One call with its tokens, as JSON text: log-probs are the shortest decimals that read back to the same float32.
 *
 * @param sequence prompt and generated ids; null where they are not known
 */
export function callJson(call: Call, sequence: Uint32Array | null): string {
  const prompt = sequence?.subarray(0, sequence.length - call.generatedLength) ?? null;
  const fields = {
    rollout_id: call.rolloutId,
    attempt: call.attempt,
    ...callView(call),
    logprobs_mode: call.logprobsMode,
    media_digests: call.mediaDigests,
    messages_from: call.messagesFrom,
    messages: call.messages,
    answer: call.answer,
    digest: call.digest,
  };
  return object([
    ...Object.entries(fields).map(([name, value]) => [name, JSON.stringify(value ?? null)] as const),
    ["prompt_token_ids", prompt === null ? "null" : formatIntegers(prompt)],
    ["carried_token_ids", formatIntegers(call.carriedTokenIds)],
    ["generated_token_ids", formatIntegers(call.generatedTokenIds)],
    ["generated_logprobs", formatFloat32s(call.generatedLogprobs)],
  ]);
}

function plain(reference: Reference): unknown {
  return typeof reference === "string" ? reference : reference.item;
}

function seconds(milliseconds: number | null): number | null {
  return milliseconds === null ? null : milliseconds / 1000;
}
