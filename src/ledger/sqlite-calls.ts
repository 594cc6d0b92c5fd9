// The `in_flight` and `call` tables of an embedded ledger. Admitted calls wait in the first and move to the second when
// they settle; a late bin's calls have `late` = 1 and the late bin's own count. A parent in the same attempt is kept as
// its place there. Which call goes where is decided in sqlite-verbs.ts; how a row looks is call-row.ts.
import type Database from "better-sqlite3";
import { CoppiceError, messageOf } from "../errors.ts";
import type { Call, CallClass, CallId, CallSummary } from "../lineage/call.ts";
import { digestCall, settleCall, type PendingCall } from "../lineage/record-digest.ts";
import {
  decodeCall,
  decodeSummary,
  decodeTokens,
  encodeCall,
  encodePayload,
  samplingText,
  type CallColumns,
  type RowPlace,
  type SummaryColumns,
} from "./call-row.ts";
import type { Admission } from "./ledger.ts";
import { packId, unpackId } from "./packed-id.ts";
import { unansweredCall } from "./pending-call.ts";
import type { AttemptRow } from "./attempt-row.ts";
import type { AttemptTable } from "./sqlite-attempts.ts";
import { PayloadTable } from "./sqlite-payload.ts";

const SUMMARY = (
  "call_id response_id response_tail status admitted_order settled_order admitted_at settled_at carried_length " +
  "generated_length sequence_length address fingerprint finish_reason weight_version way logprobs_mode agent class " +
  "request_digest history_digest message_count messages_from sampling more"
).split(" ");
const INSERTED = ["attempt_key", "late", "parent_order", ...SUMMARY, "digest"];

/** The parent's id, looked up by its place in the attempt. */
const PARENT = `(SELECT parent.call_id FROM call AS parent WHERE parent.attempt_key = call.attempt_key
  AND parent.late = 0 AND parent.settled_order = call.parent_order) AS parent_call_id`;

interface WithParent {
  readonly parent_call_id: string | Uint8Array | null;
}

interface StoredRow extends CallColumns, WithParent {
  readonly call_key: number;
  readonly attempt_key: number;
}

type PackedId = string | Uint8Array;

/** Which of an attempt's two counts a call is in, and its place there. */
export interface CallPlace {
  readonly late: boolean;
  readonly order: number;
}

export interface InFlightRow {
  readonly attempt_key: number;
  readonly late: number;
  readonly admitted_order: number;
  readonly call_id: CallId;
  readonly admission: string;
}

/** To SQLite, a negative limit is none. */
const NO_LIMIT = -1;

export class CallTable {
  readonly #attempts: AttemptTable;
  readonly #payloads: PayloadTable;
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
  readonly #keys;
  readonly #deleteCalls;
  readonly #deleteAllInFlight;

  constructor(db: Database.Database, attempts: AttemptTable) {
    this.#attempts = attempts;
    this.#payloads = new PayloadTable(db);
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
      .prepare<[PackedId, PackedId], number>(
        `SELECT attempt_key FROM call WHERE late = 0 AND call_id = ?
         UNION ALL SELECT attempt_key FROM call WHERE late = 1 AND call_id = ? LIMIT 1`,
      )
      .pluck();
    this.#insert = db.prepare<[CallColumns & Readonly<Record<string, unknown>>]>(
      `INSERT INTO call (${INSERTED.join(", ")}) VALUES (${INSERTED.map((column) => `@${column}`).join(", ")})`,
    );
    this.#parentOrder = db
      .prepare<[number, PackedId], number>(
        "SELECT settled_order FROM call WHERE attempt_key = ? AND late = 0 AND call_id = ?",
      )
      .pluck();
    this.#summaries = db.prepare<[number, number, number], SummaryColumns & WithParent>(
      `SELECT ${SUMMARY.join(", ")}, ${PARENT} FROM call
       WHERE attempt_key = ? AND late = 0 AND settled_order > ? ORDER BY settled_order LIMIT ?`,
    );
    const whole = `SELECT call_key, attempt_key, ${SUMMARY.join(", ")}, digest, ${PARENT} FROM call`;
    this.#calls = db.prepare<[number, number], StoredRow>(
      `${whole} WHERE attempt_key = ? AND late = ? ORDER BY settled_order`,
    );
    this.#callOfId = db.prepare<[PackedId], StoredRow>(`${whole} WHERE call_id = ? AND late = 0`);
    this.#lateCallOfId = db.prepare<[PackedId], StoredRow>(
      `${whole} WHERE call_id = ? AND late = 1 ORDER BY call_key DESC LIMIT 1`,
    );
    this.#keys = db.prepare<[number], number>("SELECT call_key FROM call WHERE attempt_key = ?").pluck();
    this.#deleteCalls = db.prepare<[number]>("DELETE FROM call WHERE attempt_key = ?");
    this.#deleteAllInFlight = db.prepare<[number]>("DELETE FROM in_flight WHERE attempt_key = ?");
  }

  /** True for an id that was admitted, settled or late before, and not swept. */
  isKnown(callId: string): boolean {
    return this.#inFlightOfId.get(callId) !== undefined || this.isSettled(callId);
  }

  isSettled(callId: string): boolean {
    const packed = packId(callId);
    return this.#settledId.get(packed, packed) !== undefined;
  }

  inFlight(callId: string): InFlightRow | undefined {
    return this.#inFlightOfId.get(callId);
  }

  allInFlight(): readonly InFlightRow[] {
    return this.#allInFlight.all();
  }

  admit(admission: Admission, attemptKey: number, place: CallPlace): void {
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
  settle(pending: PendingCall, attempt: AttemptRow, place: CallPlace): Call {
    const call = settleCall(pending, place.order);
    const { parentCallId } = call;
    const parentOrder =
      parentCallId === null ? undefined : this.#parentOrder.get(attempt.attempt_key, packId(parentCallId));
    const columns = encodeCall(call, {
      parentCallId: parentOrder === undefined ? null : parentCallId,
      usualSampling: this.#usualSampling(call, attempt),
    });
    const { lastInsertRowid } = this.#insert.run({
      ...columns,
      attempt_key: attempt.attempt_key,
      late: place.late ? 1 : 0,
      parent_order: parentOrder ?? null,
    });
    const { tokens, ...texts } = encodePayload(call);
    this.#payloads.write(Number(lastInsertRowid), tokens, texts);
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

  summaries(attempt: AttemptRow, sinceOrder: number, most: number = NO_LIMIT): readonly CallSummary[] {
    return this.#summaries
      .all(attempt.attempt_key, sinceOrder, most)
      .map((row) => readable(row, () => decodeSummary(row, placeOf(attempt, row))));
  }

  calls(attempt: AttemptRow, late: boolean): readonly Call[] {
    return this.#calls.all(attempt.attempt_key, late ? 1 : 0).map((row) => this.#decode(row, attempt));
  }

  call(callId: string): Call | null {
    const row = this.#callOfId.get(packId(callId)) ?? this.#lateCallOfId.get(packId(callId));
    return row === undefined ? null : this.#decode(row, this.#attempts.byKey(row.attempt_key));
  }

  #decode(row: StoredRow, attempt: AttemptRow): Call {
    const payload = { tokens: this.#payloads.tokens(row.call_key), ...this.#payloads.texts(row.call_key) };
    return readable(row, () => decodeCall(row, payload, placeOf(attempt, row)));
  }

  /** Reads the tokens of the call and of each ancestor once. */
  sequence(callId: string): Uint32Array | null {
    const settled = this.#callOfId.get(packId(callId));
    let row = settled ?? this.#lateCallOfId.get(packId(callId));
    if (row === undefined) return null;
    const length = row.sequence_length;
    const tokens = new Uint32Array(length);
    let end = length;
    for (;;) {
      const { carried, generated, parentCallId, address } = this.#step(row);
      if (address === null) return null;
      if (row.sequence_length !== end || carried.length + generated.length > end) {
        throw damaged(callId, `its tokens and those of its ancestors are not ${length} in number`);
      }
      end -= generated.length;
      tokens.set(generated, end);
      end -= carried.length;
      tokens.set(carried, end);
      if (parentCallId === null) break;
      const parent = this.#callOfId.get(packId(parentCallId));
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

  #step(row: StoredRow): Step {
    const bytes = this.#payloads.tokens(row.call_key);
    return readable(row, () => {
      // Whose attempt and sampling it was does not matter here.
      const { parentCallId, address } = decodeSummary(row, placeOf(NO_ATTEMPT, row));
      const { carriedTokenIds, generatedTokenIds } = decodeTokens(row, bytes);
      return { carried: carriedTokenIds, generated: generatedTokenIds, parentCallId, address };
    });
  }

  deleteAll(attemptKey: number): void {
    for (const key of this.#keys.all(attemptKey)) this.#payloads.delete(key);
    this.#deleteCalls.run(attemptKey);
    this.#deleteAllInFlight.run(attemptKey);
  }
}

interface Step extends Pick<Call, "parentCallId" | "address"> {
  readonly carried: Uint32Array;
  readonly generated: Uint32Array;
}

type AttemptPart = Pick<AttemptRow, "rollout_id" | "attempt" | "usual_sampling">;

const NO_ATTEMPT: AttemptPart = { rollout_id: "" as Call["rolloutId"], attempt: 0, usual_sampling: "" };

function placeOf(attempt: AttemptPart, row: WithParent): RowPlace {
  return {
    rolloutId: attempt.rollout_id,
    attempt: attempt.attempt,
    parentCallId: row.parent_call_id === null ? null : unpackId(row.parent_call_id),
    usualSampling: attempt.usual_sampling,
  };
}

/** A call in flight as it is read: its digest is over what is known of it so far. */
export function inFlightCall(pending: PendingCall): Call {
  const call = { ...pending, settledOrder: null };
  return Object.freeze({ ...call, digest: digestCall(call) });
}

function readable<T>(row: Pick<SummaryColumns, "call_id">, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw damaged(unpackId(row.call_id), messageOf(error), error);
  }
}

function damaged(callId: string, why: string, cause?: unknown): CoppiceError {
  return new CoppiceError("ledger_error", `the record of call ${callId} is damaged: ${why}`, {
    cause,
    detail: { reason: "corrupt_record", call_id: callId },
  });
}
