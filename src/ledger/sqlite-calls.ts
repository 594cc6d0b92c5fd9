// The `in_flight` and `call` tables of an embedded ledger. Admitted calls wait in the first and move to the second when
// they settle; a late bin's calls have `late` = 1 and the late bin's own count. A parent in the same attempt is kept as
// its place there. Which call goes where is decided in sqlite-verbs.ts; how a row looks is call-row.ts.
import type Database from "better-sqlite3";
import { CoppiceError, messageOf } from "../errors.ts";
import type { Call, CallClass, CallId, CallSummary, SequenceAddress } from "../lineage/call.ts";
import { digestCall, settleCall, type PendingCall } from "../lineage/record-digest.ts";
import { tokensFromBytes } from "../lineage/sequence.ts";
import {
  decodeCall,
  decodeSummary,
  encodeCall,
  samplingText,
  unansweredCall,
  type CallColumns,
  type RowPlace,
  type SummaryColumns,
} from "./call-row.ts";
import type { Admission } from "./ledger.ts";
import type { AttemptRow, AttemptTable } from "./sqlite-attempts.ts";

const SUMMARY = (
  "call_id response_id status admitted_order settled_order admitted_at settled_at carried_length generated_length " +
  "sequence_length address fingerprint finish_reason weight_version way logprobs_mode agent class request_digest " +
  "history_digest message_count messages_from sampling more"
).split(" ");
const PAYLOAD = ["digest", "carried", "generated", "logprobs", "messages", "answer"];
const KEY = ["attempt_key", "late", "parent_order"];

/** The parent's id, looked up by its place in the attempt. */
const PARENT = `(SELECT parent.call_id FROM call AS parent WHERE parent.attempt_key = call.attempt_key
  AND parent.late = 0 AND parent.settled_order = call.parent_order) AS parent_call_id`;

type Parent = { readonly parent_call_id: CallId | null };
type Keyed = { readonly attempt_key: number };

export interface InFlightRow {
  readonly attempt_key: number;
  readonly late: number;
  readonly admitted_order: number;
  readonly call_id: CallId;
  readonly admission: string;
}

export class CallTable {
  readonly #attempts: AttemptTable;
  readonly #insertInFlight;
  readonly #inFlightOfId;
  readonly #inFlightOfAttempt;
  readonly #allInFlight;
  readonly #deleteInFlight;
  readonly #settledId;
  readonly #insert;
  readonly #parentOrder;
  readonly #summaries;
  readonly #calls;
  readonly #callOfId;
  readonly #lateCallOfId;
  readonly #stepOfId;
  readonly #lateStepOfId;
  readonly #deleteCalls;
  readonly #deleteAllInFlight;

  constructor(db: Database.Database, attempts: AttemptTable) {
    this.#attempts = attempts;
    this.#insertInFlight = db.prepare<[InFlightRow]>(
      `INSERT INTO in_flight (attempt_key, late, admitted_order, call_id, admission)
       VALUES (@attempt_key, @late, @admitted_order, @call_id, @admission)`,
    );
    this.#inFlightOfId = db.prepare<[string], InFlightRow>("SELECT * FROM in_flight WHERE call_id = ?");
    this.#inFlightOfAttempt = db.prepare<[number, number], InFlightRow>(
      "SELECT * FROM in_flight WHERE attempt_key = ? AND late = ? ORDER BY admitted_order",
    );
    this.#allInFlight = db.prepare<[], InFlightRow>(
      "SELECT * FROM in_flight ORDER BY attempt_key, late, admitted_order",
    );
    this.#deleteInFlight = db.prepare<[string]>("DELETE FROM in_flight WHERE call_id = ?");
    this.#settledId = db
      .prepare<[string, string], number>(
        `SELECT attempt_key FROM call WHERE late = 0 AND call_id = ?
         UNION ALL SELECT attempt_key FROM call WHERE late = 1 AND call_id = ? LIMIT 1`,
      )
      .pluck();
    const columns = [...KEY, ...SUMMARY, ...PAYLOAD];
    this.#insert = db.prepare<[CallColumns & Readonly<Record<string, unknown>>]>(
      `INSERT INTO call (${columns.join(", ")}) VALUES (${columns.map((column) => `@${column}`).join(", ")})`,
    );
    this.#parentOrder = db
      .prepare<[number, string], number>(
        "SELECT settled_order FROM call WHERE attempt_key = ? AND late = 0 AND call_id = ?",
      )
      .pluck();
    const whole = `SELECT attempt_key, ${[...SUMMARY, ...PAYLOAD].join(", ")}, ${PARENT} FROM call`;
    this.#summaries = db.prepare<[number, number], SummaryColumns & Parent>(
      `SELECT ${SUMMARY.join(", ")}, ${PARENT} FROM call
       WHERE attempt_key = ? AND late = 0 AND settled_order > ? ORDER BY settled_order`,
    );
    this.#calls = db.prepare<[number, number], CallColumns & Parent>(
      `${whole} WHERE attempt_key = ? AND late = ? ORDER BY settled_order`,
    );
    this.#callOfId = db.prepare<[string], CallColumns & Parent & Keyed>(
      `${whole} WHERE call_id = ? AND late = 0`,
    );
    this.#lateCallOfId = db.prepare<[string], CallColumns & Parent & Keyed>(
      `${whole} WHERE call_id = ? AND late = 1 ORDER BY call_key DESC LIMIT 1`,
    );
    const step = `SELECT ${SUMMARY.join(", ")}, carried, generated, ${PARENT} FROM call`;
    this.#stepOfId = db.prepare<[string], CallColumns & Parent>(`${step} WHERE call_id = ? AND late = 0`);
    this.#lateStepOfId = db.prepare<[string], CallColumns & Parent>(
      `${step} WHERE call_id = ? AND late = 1 ORDER BY call_key DESC LIMIT 1`,
    );
    this.#deleteCalls = db.prepare<[number]>("DELETE FROM call WHERE attempt_key = ?");
    this.#deleteAllInFlight = db.prepare<[number]>("DELETE FROM in_flight WHERE attempt_key = ?");
  }

  /** True for an id that was admitted, settled or late before, and not swept. */
  isKnown(callId: string): boolean {
    return this.#inFlightOfId.get(callId) !== undefined || this.isSettled(callId);
  }

  isSettled(callId: string): boolean {
    return this.#settledId.get(callId, callId) !== undefined;
  }

  inFlight(callId: string): InFlightRow | undefined {
    return this.#inFlightOfId.get(callId);
  }

  allInFlight(): readonly InFlightRow[] {
    return this.#allInFlight.all();
  }

  admit(
    admission: Admission,
    attemptKey: number,
    place: { readonly late: boolean; readonly order: number },
  ): void {
    this.#insertInFlight.run({
      attempt_key: attemptKey,
      late: place.late ? 1 : 0,
      admitted_order: place.order,
      call_id: admission.callId,
      admission: JSON.stringify([
        admission.responseId,
        admission.admittedAt,
        admission.agent,
        admission.class,
      ]),
    });
  }

  /** Calls of an attempt that were admitted and have not settled, in order of admission. */
  unsettled(attempt: AttemptRow, late: boolean): readonly PendingCall[] {
    return this.#inFlightOfAttempt.all(attempt.attempt_key, late ? 1 : 0).map((row) => {
      const [responseId, admittedAt, agent, callClass] = JSON.parse(row.admission) as readonly [
        string | null,
        number,
        string | null,
        CallClass | null,
      ];
      return unansweredCall({
        rolloutId: attempt.rollout_id,
        attempt: attempt.attempt,
        callId: row.call_id,
        responseId,
        admittedOrder: row.admitted_order,
        admittedAt,
        agent,
        class: callClass,
      });
    });
  }

  /** Writes the settled call where it belongs; it is in flight no more. */
  settle(
    pending: PendingCall,
    attempt: AttemptRow,
    place: { readonly late: boolean; readonly order: number },
  ): Call {
    const call = settleCall(pending, place.order);
    const parentOrder =
      call.parentCallId === null ? undefined : this.#parentOrder.get(attempt.attempt_key, call.parentCallId);
    const columns = encodeCall(call, {
      parentCallId: parentOrder === undefined ? null : call.parentCallId,
      usualSampling: this.#usualSampling(call, attempt),
    });
    this.#insert.run({
      ...columns,
      attempt_key: attempt.attempt_key,
      late: place.late ? 1 : 0,
      parent_order: parentOrder ?? null,
    });
    this.#deleteInFlight.run(call.callId);
    return call;
  }

  /** The first sampling that an attempt sees is its usual one, and is kept once. */
  #usualSampling(call: Call, attempt: AttemptRow): string | null {
    const text = samplingText(call.sampling);
    if (attempt.usual_sampling !== null || text === "") return attempt.usual_sampling;
    this.#attempts.setUsualSampling(attempt.attempt_key, text);
    return text;
  }

  summaries(attempt: AttemptRow, sinceOrder: number): readonly CallSummary[] {
    return this.#summaries
      .all(attempt.attempt_key, sinceOrder)
      .map((row) => readable(row.call_id, () => decodeSummary(row, placeOf(attempt, row))));
  }

  calls(attempt: AttemptRow, late: boolean): readonly Call[] {
    return this.#calls
      .all(attempt.attempt_key, late ? 1 : 0)
      .map((row) => readable(row.call_id, () => decodeCall(row, placeOf(attempt, row))));
  }

  call(callId: string): Call | null {
    const row = this.#callOfId.get(callId) ?? this.#lateCallOfId.get(callId);
    if (row === undefined) return null;
    const attempt = this.#attempts.byKey(row.attempt_key);
    return readable(callId, () => decodeCall(row, placeOf(attempt, row)));
  }

  /** Reads the tokens of the call and of each ancestor once. */
  sequence(callId: string): Uint32Array | null {
    const settled = this.#stepOfId.get(callId);
    let row = settled ?? this.#lateStepOfId.get(callId);
    if (row === undefined) return null;
    const length = row.sequence_length;
    const tokens = new Uint32Array(length);
    let end = length;
    for (;;) {
      const { carried, generated, parentCallId, address } = readable(row.call_id, () =>
        stepOf(row as StepRow),
      );
      if (address === null) return null;
      if (row.sequence_length !== end || carried.length + generated.length > end) {
        throw damaged(callId, `its tokens and those of its ancestors are not ${length} in number`);
      }
      end -= generated.length;
      tokens.set(generated, end);
      end -= carried.length;
      tokens.set(carried, end);
      if (parentCallId === null) break;
      const parent = this.#stepOfId.get(parentCallId);
      // Ancestors of a late call may have been swept away before it came.
      if (parent === undefined && settled === undefined) return null;
      // A call that generated nothing is nobody's parent, so every step goes down.
      if (parent === undefined || parent.generated_length === 0) {
        throw damaged(callId, `its parent ${parentCallId} is gone`);
      }
      row = parent;
    }
    if (end !== 0) throw damaged(callId, `the first ${end} of its ${length} tokens are missing`);
    return tokens;
  }

  deleteAll(attemptKey: number): void {
    this.#deleteCalls.run(attemptKey);
    this.#deleteAllInFlight.run(attemptKey);
  }
}

type StepRow = CallColumns & Parent;

interface Step {
  readonly carried: Uint32Array;
  readonly generated: Uint32Array;
  readonly parentCallId: CallId | null;
  readonly address: SequenceAddress | null;
}

function stepOf(row: StepRow): Step {
  // Only ids and lengths are looked at: whose sampling it was does not matter here.
  const nowhere = {
    rolloutId: "" as Call["rolloutId"],
    attempt: 0,
    parentCallId: row.parent_call_id,
    usualSampling: "",
  };
  const { parentCallId, address } = decodeSummary(row, nowhere);
  return {
    carried: tokensFromBytes(row.carried),
    generated: tokensFromBytes(row.generated),
    parentCallId,
    address,
  };
}

function placeOf(attempt: AttemptRow, row: Parent): RowPlace {
  return {
    rolloutId: attempt.rollout_id,
    attempt: attempt.attempt,
    parentCallId: row.parent_call_id,
    usualSampling: attempt.usual_sampling,
  };
}

/** A call in flight as it is read: its digest is over what is known of it so far. */
export function inFlightCall(pending: PendingCall): Call {
  const call = { ...pending, settledOrder: null };
  return Object.freeze({ ...call, digest: digestCall(call) });
}

function readable<T>(callId: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw damaged(callId, messageOf(error), error);
  }
}

function damaged(callId: string, why: string, cause?: unknown): CoppiceError {
  return new CoppiceError("ledger_error", `the record of call ${callId} is damaged: ${why}`, {
    cause,
    detail: { reason: "corrupt_record", call_id: callId },
  });
}
