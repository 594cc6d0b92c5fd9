// Calls for tests of ledgers: admissions, answers with true addresses, and arbitrary records of every shape that the
// types allow.
import fc from "fast-check";
import {
  callId,
  rolloutId,
  type Call,
  type CallClass,
  type CallStatus,
  type Message,
  type RolloutId,
  type SequenceAddress,
} from "../../lineage/call.ts";
import type { PendingCall } from "../../lineage/record-digest.ts";
import { addressOf, emptySequence, extendSequence } from "../../lineage/sequence.ts";
import type { Outcome } from "../../selection/outcome.ts";
import { unansweredCall } from "../pending-call.ts";
import type { Admission, Admitted, AttemptKey, OpenRollout } from "../ledger.ts";

export const R0: RolloutId = rolloutId("r0");

export function opening(more: Partial<OpenRollout> = {}): OpenRollout {
  return {
    rolloutId: R0,
    attempt: null,
    groupId: null,
    groupSize: null,
    generationIndex: null,
    sampling: null,
    deadlineAt: null,
    tags: null,
    openedAt: 1000,
    ...more,
  };
}

export function outcome(more: Partial<Outcome> = {}): Outcome {
  return {
    rolloutId: R0,
    groupId: null,
    generationIndex: null,
    reward: null,
    accepted: null,
    final: null,
    failed: null,
    infer: false,
    ...more,
  };
}

export function admission(id: string, more: Partial<Admission> = {}): Admission {
  return {
    rolloutId: R0,
    callId: callId(id),
    responseId: `resp-${id}`,
    admittedAt: 2000,
    agent: null,
    class: null,
    ...more,
  };
}

export function key(attempt: number | null = null, id: RolloutId = R0): AttemptKey {
  return { rolloutId: id, attempt };
}

export interface Answer {
  readonly rolloutId?: RolloutId;
  readonly parent?: Call;
  readonly prompt?: readonly number[];
  readonly generated?: readonly number[];
  readonly more?: Partial<PendingCall>;
}

/** A committed answer to an admitted call, its lineage as the product would make it. */
export function answer(
  admitted: Pick<Admitted, "callId" | "attempt" | "admittedOrder">,
  how: Answer = {},
): PendingCall {
  const prompt = Uint32Array.from(how.prompt ?? [10, 11]);
  const generated = Uint32Array.from(how.generated ?? [1001, 1002]);
  const end = extendSequence(extendSequence(emptySequence(), prompt), generated);
  const carried = prompt.slice(how.parent?.sequenceLength ?? 0);
  return {
    ...unansweredCall({
      ...admission(admitted.callId, { rolloutId: how.rolloutId ?? R0 }),
      attempt: admitted.attempt,
      admittedOrder: admitted.admittedOrder,
    }),
    status: "committed",
    settledAt: 3000,
    parentCallId: how.parent?.callId ?? null,
    carriedLength: carried.length,
    generatedLength: generated.length,
    sequenceLength: end.length,
    address: addressOf(end, []),
    fingerprint: end.fingerprint,
    finishReason: "stop",
    weightVersions: [{ version: "7", start: 0 }],
    sampling: { asked: { temperature: 0.7 }, used: { temperature: 1 } },
    logprobsMode: "raw",
    carriedTokenIds: carried,
    generatedTokenIds: generated,
    generatedLogprobs: Float32Array.from(generated, (_, index) => -0.25 * (index + 1)),
    ...how.more,
  };
}

/** Any text that a JavaScript string can hold: lone surrogates and NUL too. */
function anyText(): fc.Arbitrary<string> {
  return fc.oneof(
    fc.constantFrom("", "stop", "12", "0012", "a".repeat(40)),
    fc.string({ unit: "binary" }),
    fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)) }),
  );
}

function maybe<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.option(arbitrary, { nil: null, freq: 2 });
}

/** What JSON can tell, and reads back the same (which -0 does not). */
function anyJson(): fc.Arbitrary<unknown> {
  return fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown);
}

function anyObject(): fc.Arbitrary<Message> {
  return fc.dictionary(anyText(), anyJson(), { maxKeys: 4, noNullPrototype: true });
}

const anyHex = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString("hex"));
const anyId = fc.stringMatching(/^[A-Za-z0-9._:@+-]{1,40}$/).map((id) => callId(id));
const anyTime = fc.oneof(fc.nat({ max: 2e12 }), fc.constantFrom(0, 0.5, 1764531000000.25));
const anyIds = fc.uint32Array({ maxLength: 40 });

/** The fields of a call that settling may say anything about, as far as the types allow. */
export function anyAnswer(): fc.Arbitrary<Partial<PendingCall>> {
  return fc.record({
    responseId: maybe(anyText()),
    status: fc.constantFrom<CallStatus>("committed", "aborted", "failed", "unknown"),
    statusDetail: maybe(anyText()),
    admittedAt: anyTime,
    settledAt: maybe(anyTime),
    parentCallId: maybe(anyId),
    namedParent: maybe(anyText()),
    namedParentMisfit: fc.boolean(),
    rootReason: anyRootReason(),
    carriedLength: fc.nat(),
    generatedLength: fc.nat(),
    sequenceLength: fc.nat(),
    address: maybe(fc.oneof(anyText(), anyHex)).map((address) => address as SequenceAddress | null),
    fingerprint: fc.integer(),
    mediaDigests: fc.array(anyText(), { maxLength: 2 }),
    finishReason: maybe(anyText()),
    untrainable: maybe(anyText()),
    weightVersions: fc.array(fc.record({ version: anyText(), start: fc.nat() }), { maxLength: 2 }),
    way: fc.constantFrom("text", "token-in"),
    notes: fc.array(anyText(), { maxLength: 2 }),
    sampling: fc.record({ asked: anyObject(), used: anyObject() }),
    logprobsMode: maybe(anyText()),
    agent: maybe(anyText()),
    class: maybe(fc.constantFrom<CallClass>("main", "sub_agent", "compaction", "title", "auxiliary")),
    requestDigest: maybe(fc.oneof(anyHex, anyText())),
    historyDigest: maybe(fc.oneof(anyHex, anyText())),
    messageCount: fc.nat(),
    messagesFrom: fc.nat(),
    carriedTokenIds: anyIds,
    generatedTokenIds: anyIds,
    generatedLogprobs: fc.float32Array({ maxLength: 40 }),
    messages: maybe(fc.array(anyObject(), { maxLength: 3 })),
    answer: maybe(anyObject()),
  });
}

function anyRootReason(): fc.Arbitrary<Call["rootReason"]> {
  return maybe(
    fc.oneof(
      fc.constantFrom({ kind: "rewrite" } as const, { kind: "unknown" } as const),
      anyId.map((rootCallId) => ({ kind: "asked_again", rootCallId }) as const),
      fc
        .record({
          followedCallId: anyId,
          index: fc.nat(),
          expectedId: maybe(fc.nat()),
          actualId: maybe(fc.nat()),
          expectedText: maybe(anyText()),
          actualText: maybe(anyText()),
        })
        .map((drift) => ({ kind: "drift", ...drift }) as const),
    ),
  );
}
