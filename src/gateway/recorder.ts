// The record of a call, from admission to settling. A call is admitted before the engine is asked, and settled exactly
// once: committed, aborted or failed. Whatever goes wrong in here never reaches the agent: an answer that could not be
// recorded is marked `unknown`, and the mark is kept until it is on disk.
import { randomUUID } from "node:crypto";
import { CoppiceError, messageOf } from "../errors.ts";
import type { Engine } from "../engine/engine.ts";
import type { Admitted, Ledger } from "../ledger/ledger.ts";
import {
  callId,
  type Call,
  type CallClass,
  type CallId,
  type CallStatus,
  type Message,
  type RolloutId,
  type Sampling,
  type Way,
  type WeightVersionSpan,
} from "../lineage/call.ts";
import { recordCall, recordUnanswered, RolloutIndex, type CapturedCall } from "../lineage/record-call.ts";
import type { PendingCall } from "../lineage/record-digest.ts";
import { describeRoot } from "./describe-root.ts";
import type { EventHub } from "./events.ts";
import type { GatewayMetrics } from "./gateway-metrics.ts";
import { historyNotes } from "./history-notes.ts";
import { LiveCalls, type LiveCall } from "./live-calls.ts";
import type { Log } from "./log.ts";
import type { RolloutIndexes } from "./rollout-indexes.ts";
import { callSpan } from "./call-span.ts";
import type { TraceExport } from "./trace-export.ts";
import type { UnrecordedMarks } from "./unrecorded-marks.ts";

export interface CallToAdmit {
  readonly rolloutId: RolloutId;
  readonly agent: string | null;
  readonly class: CallClass | null;
  readonly namedParent: string | null;
  /** Of the client's trace, as it came. */
  readonly traceParent: string | null;
  /** As the client named it. */
  readonly model: string | null;
  readonly choices: number;
  /** What the answer's id starts with; its API says. */
  readonly idPrefix: string;
  /** True once nobody waits for the answer any more. */
  readonly isGone: () => boolean;
}

export interface AdmittedCall {
  readonly request: CallToAdmit;
  readonly attempt: number;
  /** The answer's id; the choices of a call with n above 1 are `ID:k`. */
  readonly responseId: string;
  readonly choices: readonly AdmittedChoice[];
  readonly admittedAt: number;
  readonly live: LiveCall;
  readonly late: boolean;
  /** Sampling settings that win over the client's. */
  readonly pinned: Readonly<Record<string, unknown>> | null;
  /** The weight version at the rollout's start. */
  readonly rolloutWeightVersion: string | null;
}

export interface AdmittedChoice {
  readonly callId: CallId;
  readonly responseId: string;
  readonly admittedOrder: number;
}

/** What there is to record of one choice. */
export interface AnswerToRecord {
  readonly status: Extract<CallStatus, "committed" | "aborted" | "failed">;
  readonly statusDetail: string | null;
  /** Null where the engine told none. */
  readonly promptTokenIds: Uint32Array | null;
  readonly tokenIds: Uint32Array;
  readonly logprobs: Float32Array;
  readonly message: Message | null;
  readonly finishReason: string | null;
  readonly untrainable: string | null;
  readonly weightVersions: readonly WeightVersionSpan[];
  readonly notes: readonly string[];
}

/** What all choices of a call have in common, as it was asked. */
export interface AskToRecord {
  /** Null for a text completion, which has none. */
  readonly messages: readonly Message[] | null;
  readonly mediaDigests: readonly string[];
  readonly sampling: Sampling;
  readonly way: Way;
  /** Digest of the request's tools and template options. */
  readonly contextDigest: string;
  /** What the record says beside what each answer's own notes say. */
  readonly notes: readonly string[];
}

export interface RecorderParts {
  readonly ledger: Ledger;
  readonly engine: Engine;
  readonly indexes: RolloutIndexes;
  readonly marks: UnrecordedMarks;
  readonly metrics: GatewayMetrics;
  readonly events: EventHub;
  readonly log: Log;
  readonly tokensOnly: boolean;
  /** Where spans go; null for nowhere. */
  readonly traces: Pick<TraceExport, "add"> | null;
}

export class Recorder {
  readonly #parts: RecorderParts;
  readonly #live = new LiveCalls();
  #admitFault: string | null = null;

  constructor(parts: RecorderParts) {
    this.#parts = parts;
  }

  /** Why the last call could not be admitted; null once one could. */
  get admitFault(): string | null {
    return this.#admitFault;
  }

  callsInFlight(rolloutId: RolloutId): number {
    return this.#live.inFlight(rolloutId);
  }

  /**
   * Admits a call, one record a choice. Throws `invalid_request` for a named parent that nobody in the rollout has, and
   * `ledger_error` where the ledger cannot record that the engine is about to be asked.
   */
  async admit(request: CallToAdmit): Promise<AdmittedCall> {
    const { rolloutId, namedParent } = request;
    await this.settleGone(rolloutId);
    if (namedParent !== null && !(await this.#parts.indexes.knows(rolloutId, namedParent))) {
      throw new CoppiceError(
        "invalid_request",
        `x-coppice-parent is ${namedParent}, which is no call or response of rollout ${rolloutId}`,
        { param: "x-coppice-parent" },
      );
    }
    const unique = randomUUID().replaceAll("-", "");
    const responseId = `${request.idPrefix}${unique}`;
    const admittedAt = Date.now();
    const admissions = Array.from({ length: request.choices }, (_, index) => ({
      rolloutId,
      callId: callId(request.choices === 1 ? `call-${unique}` : `call-${unique}.${index}`),
      responseId: request.choices === 1 ? responseId : `${responseId}:${index}`,
      admittedAt,
      agent: request.agent,
      class: request.class,
    }));
    const admitted = await this.#parts.ledger.admit(admissions).catch((error: unknown) => {
      this.#admitFault = messageOf(error);
      throw new CoppiceError("ledger_error", `the call could not be admitted: ${messageOf(error)}`, {
        cause: error,
        status: 503,
      });
    });
    this.#admitFault = null;
    const first = admitted[0] as Admitted;
    const call: AdmittedCall = {
      request,
      attempt: first.attempt,
      responseId,
      choices: admitted.map(({ callId, admittedOrder }, index) => ({
        callId,
        admittedOrder,
        responseId: (admissions[index] as { readonly responseId: string }).responseId,
      })),
      admittedAt,
      live: this.#live.add(rolloutId, request.isGone),
      late: first.late,
      pinned: first.sampling,
      rolloutWeightVersion: first.rolloutWeightVersion,
    };
    this.#noteAdmitted(call, admitted);
    return call;
  }

  /** Settles an admitted call. Contract: must not throw. Resolves once the record, or its mark, is as safe as it gets. */
  async settle(call: AdmittedCall, ask: AskToRecord, answers: readonly AnswerToRecord[]): Promise<void> {
    const began = performance.now();
    const captured = call.choices.map((choice, index) =>
      captureCall(call, choice, ask, answers[index] as AnswerToRecord, this.#parts.engine.logprobsMode),
    );
    try {
      const pending = await this.#place(call, captured);
      const results = await Promise.allSettled(pending.map((record) => this.#write(record)));
      for (const [index, result] of results.entries()) {
        if (result.status === "rejected")
          this.#markUnrecorded(captured[index] as CapturedCall, result.reason);
      }
    } catch (error) {
      for (const one of captured) this.#markUnrecorded(one, error);
    } finally {
      const commitMs = performance.now() - began;
      this.#parts.metrics.commitSeconds.observe(commitMs / 1000);
      this.#parts.metrics.callSeconds.observe((Date.now() - call.admittedAt) / 1000);
      this.#parts.traces?.add(callSpan(call, captured, { commitMs, engine: this.#parts.engine.kind }));
      this.#live.remove(call.live);
    }
  }

  /** Waits, in bounds, until the rollout's calls whose client has gone are settled. */
  async settleGone(rolloutId: RolloutId): Promise<void> {
    if (await this.#live.settleGone(rolloutId)) return;
    this.#parts.log("gone_call_not_settled", { rollout_id: rolloutId });
  }

  #noteAdmitted(call: AdmittedCall, admitted: readonly Admitted[]): void {
    const { rolloutId } = call.request;
    const { indexes, events, metrics } = this.#parts;
    for (const [index, one] of admitted.entries()) {
      const { responseId } = call.choices[index] as AdmittedChoice;
      const isOpening = !one.late && indexes.noteAdmitted(rolloutId, one, responseId);
      if (isOpening) {
        events.publish("rollout_opened", () => ({
          rollout_id: rolloutId,
          attempt: one.attempt,
          group_id: null,
        }));
      }
      events.publish("call_admitted", () => ({
        rollout_id: rolloutId,
        attempt: one.attempt,
        call_id: one.callId,
        response_id: responseId,
        admitted_order: one.admittedOrder,
        agent: call.request.agent,
        class: call.request.class,
        late: one.late,
      }));
    }
    if (call.late) metrics.lateCalls.add({}, admitted.length);
  }

  /** Each choice's place in the forest. The first needs every call that settled before this one was admitted. */
  async #place(call: AdmittedCall, captured: readonly CapturedCall[]): Promise<PendingCall[]> {
    const { rolloutId } = call.request;
    const pending: PendingCall[] = [];
    for (const one of captured) {
      if (one.status === "failed") {
        pending.push(recordUnanswered(one));
        continue;
      }
      // The late bin is no forest: nothing in it has a parent.
      const index = call.late
        ? new RolloutIndex()
        : await this.#parts.indexes.before(rolloutId, call.attempt, one.admittedOrder);
      const lineage = index.place(one);
      const root = await describeRoot(lineage.root, one.promptTokenIds ?? new Uint32Array(), this.#parts);
      const { ledger, tokensOnly } = this.#parts;
      const told = await historyNotes(one, lineage, { index, readCall: (id) => ledger.call(id) });
      pending.push(recordCall({ ...one, ...told }, lineage, root, { tokensOnly }));
    }
    return pending;
  }

  async #write(record: PendingCall): Promise<void> {
    const { call, late } = await this.#parts.ledger.settle(record);
    if (late) this.#parts.metrics.lateCalls.add({});
    else this.#parts.indexes.noteSettled(call);
    this.#count(call, late);
  }

  #count(call: Call, late: boolean): void {
    const { metrics, events } = this.#parts;
    metrics.calls.add({ way: call.way, status: call.status });
    if (call.rootReason !== null) metrics.roots.add({ reason: call.rootReason.kind });
    metrics.tokens.add({ kind: "carried" }, call.carriedLength);
    metrics.tokens.add({ kind: "generated" }, call.generatedLength);
    if (call.status === "committed" && call.untrainable !== null) metrics.untrainableCalls.add({});
    events.publish("call_settled", () => ({
      rollout_id: call.rolloutId,
      attempt: call.attempt,
      call_id: call.callId,
      response_id: call.responseId,
      status: call.status,
      parent_call_id: call.parentCallId,
      root_reason: call.rootReason?.kind ?? null,
      carried_tokens: call.carriedLength,
      generated_tokens: call.generatedLength,
      finish_reason: call.finishReason,
      untrainable: call.untrainable,
      late,
    }));
  }

  #markUnrecorded(captured: CapturedCall, error: unknown): void {
    const reason = messageOf(error);
    this.#parts.metrics.recordFailures.add({});
    this.#parts.log("call_not_recorded", {
      rollout_id: captured.rolloutId,
      call_id: captured.callId,
      status: captured.status,
      reason,
    });
    // A call that failed has no answer to lose: it is tried again as what it is.
    const status = captured.status === "failed" ? "failed" : "unknown";
    const statusDetail =
      status === "failed" ? captured.statusDetail : `the answer was not recorded: ${reason}`;
    this.#parts.marks.add(recordUnanswered({ ...captured, ...NOTHING_GENERATED, status, statusDetail }));
  }
}

/** The mark holds nothing of the request: what could not be recorded once must not stand in its way again. */
const NOTHING_GENERATED = {
  messages: null,
  generatedTokenIds: new Uint32Array(),
  generatedLogprobs: new Float32Array(),
  answer: null,
} as const;

function captureCall(
  call: AdmittedCall,
  choice: AdmittedChoice,
  ask: AskToRecord,
  answer: AnswerToRecord,
  logprobsMode: string | null,
): CapturedCall {
  return {
    rolloutId: call.request.rolloutId,
    attempt: call.attempt,
    callId: choice.callId,
    responseId: choice.responseId,
    status: answer.status,
    statusDetail: answer.statusDetail,
    admittedOrder: choice.admittedOrder,
    admittedAt: call.admittedAt,
    settledAt: Date.now(),
    namedParent: call.request.namedParent,
    promptTokenIds: answer.promptTokenIds,
    generatedTokenIds: answer.tokenIds,
    generatedLogprobs: answer.logprobs,
    mediaDigests: ask.mediaDigests,
    finishReason: answer.finishReason,
    untrainable: answer.untrainable,
    weightVersions: answer.weightVersions,
    way: ask.way,
    notes: [...ask.notes, ...answer.notes],
    sampling: ask.sampling,
    logprobsMode,
    agent: call.request.agent,
    class: call.request.class,
    messages: ask.messages,
    contextDigest: ask.contextDigest,
    answer: answer.message,
  };
}
