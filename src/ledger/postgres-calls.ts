// The `coppice_in_flight` and `coppice_call` tables: what sqlite-calls.ts is to an embedded ledger. Settled calls, their
// payload too, are one row each, written once and never changed.
import { CoppiceError, messageOf } from "../errors.ts";
import type { Call, CallClass, CallId, CallSummary } from "../lineage/call.ts";
import { settleCall, type PendingCall } from "../lineage/record-digest.ts";
import type { AttemptRow } from "./attempt-row.ts";
import {
  decodeCall,
  decodeSummary,
  encodeCall,
  encodePayload,
  samplingText,
  type CallColumns,
  type Payload,
  type RowPlace,
  type SummaryColumns,
} from "./call-row.ts";
import type { Admission } from "./ledger.ts";
import { packIdBytes, unpackId } from "./packed-id.ts";
import { unansweredCall } from "./pending-call.ts";
import { countArrays, updateCounts, type AttemptCount } from "./postgres-attempts.ts";
import type { Transaction } from "./postgres-connection.ts";

const SUMMARY = (
  "call_id response_id response_tail status admitted_order settled_order admitted_at settled_at carried_length " +
  "generated_length sequence_length address fingerprint finish_reason weight_version way logprobs_mode agent class " +
  "request_digest history_digest message_count messages_from sampling more"
).split(" ") as (keyof SummaryColumns)[];

const INSERTED = [
  "attempt_key",
  "late",
  "parent_order",
  ...SUMMARY,
  "digest",
  "tokens",
  "messages",
  "answer",
];

const FROM_CALL = `FROM coppice_call c LEFT JOIN coppice_call p
  ON p.attempt_key = c.attempt_key AND NOT p.late AND p.settled_order = c.parent_order`;
const SELECT_SUMMARY = `SELECT ${SUMMARY.map((name) => `c.${name}`).join(", ")}, p.call_id AS parent_call_id ${FROM_CALL}`;
const SELECT_CALL = `SELECT c.*, p.call_id AS parent_call_id ${FROM_CALL}`;

interface WithParent {
  readonly parent_call_id: Uint8Array | null;
}

export interface StoredCall extends CallColumns, Payload, WithParent {
  readonly attempt_key: number;
  readonly late: boolean;
  readonly parent_order: number | null;
}

export interface InFlightRow {
  readonly attempt_key: number;
  readonly late: boolean;
  readonly admitted_order: number;
  readonly call_id: CallId;
  readonly admission: string;
  readonly gateway_key: number;
}

const ADMISSION_COLUMNS = "attempt_key, late, admitted_order, call_id, admission, gateway_key";

export function admissionText(admission: Admission): string {
  const { responseId, admittedAt, agent, class: callClass } = admission;
  return JSON.stringify([responseId, admittedAt, agent, callClass]);
}

/** A call in flight as far as it is known. */
export function pendingOf(
  row: InFlightRow,
  attempt: Pick<AttemptRow, "rollout_id" | "attempt">,
): PendingCall {
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
}

export async function inFlightOfIds(
  tx: Transaction,
  ids: readonly string[],
): Promise<readonly InFlightRow[]> {
  const { rows } = await tx.query<InFlightRow>(
    `SELECT ${ADMISSION_COLUMNS} FROM coppice_in_flight WHERE call_id = ANY($1::text[])`,
    [ids],
  );
  return rows;
}

/** In order of admission. */
export async function inFlightOfAttempt(
  tx: Transaction,
  attemptKey: number,
): Promise<readonly InFlightRow[]> {
  const { rows } = await tx.query<InFlightRow>(
    `SELECT ${ADMISSION_COLUMNS} FROM coppice_in_flight WHERE attempt_key = $1 ORDER BY late, admitted_order`,
    [attemptKey],
  );
  return rows;
}

export interface SettledPlace {
  readonly callId: CallId;
  readonly attemptKey: number;
  readonly late: boolean;
  readonly order: number;
  readonly digest: string;
}

/** Where the settled ones among the calls stand. */
export async function placesOfIds(tx: Transaction, ids: readonly string[]): Promise<readonly SettledPlace[]> {
  const { rows } = await tx.query<
    Pick<StoredCall, "call_id" | "attempt_key" | "late" | "settled_order" | "digest">
  >(
    "SELECT call_id, attempt_key, late, settled_order, digest FROM coppice_call WHERE call_id = ANY($1::bytea[])",
    [ids.map(packIdBytes)],
  );
  return rows.map((row) => ({
    callId: unpackId(row.call_id),
    attemptKey: row.attempt_key,
    late: row.late,
    order: row.settled_order,
    digest: Buffer.from(row.digest).toString("hex"),
  }));
}

interface NewPlace {
  readonly late: boolean;
  readonly order: number;
  readonly parentOrder: number | null;
  readonly wasInFlight: boolean;
}

/** What a transaction writes of calls, all in one statement. */
export class CallWrites {
  readonly #counts = new Set<AttemptCount>();
  readonly #admitted: InFlightRow[] = [];
  readonly #settled: (readonly unknown[])[] = [];
  readonly #gone: string[] = [];

  count(count: AttemptCount): void {
    this.#counts.add(count);
  }

  admit(count: AttemptCount, row: InFlightRow): void {
    this.#counts.add(count);
    this.#admitted.push(row);
  }

  /** `parentOrder`: the parent's place in the attempt, where it has one. */
  settle(count: AttemptCount, pending: PendingCall, place: NewPlace): Call {
    const call = settleCall(pending, place.order);
    const text = samplingText(call.sampling);
    // The first sampling that an attempt sees is its usual one, and is kept once.
    if (count.usualSampling === null && text !== "") count.usualSampling = text;
    const columns: Readonly<Record<string, unknown>> = {
      ...encodeCall(call, {
        parentCallId: place.parentOrder === null ? null : call.parentCallId,
        usualSampling: count.usualSampling,
      }),
      ...encodePayload(call),
      call_id: packIdBytes(call.callId),
      attempt_key: count.attempt.attempt_key,
      late: place.late,
      parent_order: place.parentOrder,
    };
    this.#counts.add(count);
    this.#settled.push(INSERTED.map((name) => asParameter(columns[name])));
    if (place.wasInFlight) this.#gone.push(call.callId);
    return call;
  }

  async write(tx: Transaction): Promise<void> {
    if (this.#counts.size === 0) return;
    const values: unknown[] = [...countArrays([...this.#counts])];
    const parts: string[] = [];
    if (this.#gone.length > 0) {
      parts.push(
        `gone AS (DELETE FROM coppice_in_flight WHERE call_id = ANY($${values.push(this.#gone)}::text[]))`,
      );
    }
    if (this.#admitted.length > 0) parts.push(this.#insertInFlight(values));
    if (this.#settled.length > 0) parts.push(this.#insertCalls(values));
    const others = parts.length === 0 ? "" : `WITH ${parts.join(", ")} `;
    await tx.query(others + updateCounts(1), values);
  }

  #insertInFlight(values: unknown[]): string {
    const columns = ADMISSION_COLUMNS.split(", ") as (keyof InFlightRow)[];
    const types = ["bigint", "boolean", "bigint", "text", "text", "bigint"];
    const arrays = columns.map(
      (name, index) => `$${values.push(this.#admitted.map((row) => row[name]))}::${types[index]}[]`,
    );
    return `admitted AS (INSERT INTO coppice_in_flight (${ADMISSION_COLUMNS}) SELECT * FROM unnest(${arrays.join(", ")}))`;
  }

  #insertCalls(values: unknown[]): string {
    const rows = this.#settled.map((row) => `(${row.map((value) => `$${values.push(value)}`).join(", ")})`);
    return `settled AS (INSERT INTO coppice_call (${INSERTED.join(", ")}) VALUES ${rows.join(", ")})`;
  }
}

function asParameter(value: unknown): unknown {
  return value instanceof Uint8Array && !Buffer.isBuffer(value)
    ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    : value;
}

export async function summariesOf(
  tx: Transaction,
  attempt: AttemptRow,
  { sinceOrder, most }: { readonly sinceOrder: number; readonly most: number | null },
): Promise<readonly CallSummary[]> {
  const { rows } = await tx.query<SummaryColumns & WithParent>(
    `${SELECT_SUMMARY} WHERE c.attempt_key = $1 AND NOT c.late AND c.settled_order > $2
     ORDER BY c.settled_order LIMIT $3`,
    [attempt.attempt_key, sinceOrder, most],
  );
  return rows.map((row) => readable(row, () => decodeSummary(row, placeIn(attempt, row))));
}

export async function callsOf(tx: Transaction, attempt: AttemptRow, late: boolean): Promise<readonly Call[]> {
  const { rows } = await tx.query<StoredCall>(
    `${SELECT_CALL} WHERE c.attempt_key = $1 AND c.late = $2 ORDER BY c.settled_order`,
    [attempt.attempt_key, late],
  );
  return rows.map((row) => decodeStored(row, attempt));
}

/** A late answer to a call that was settled stands in the late bin under the same id: the settled one is the call. */
export async function storedCall(tx: Transaction, callId: CallId): Promise<StoredCall | undefined> {
  const { rows } = await tx.query<StoredCall>(
    `${SELECT_CALL} WHERE c.call_id = $1 ORDER BY c.late, c.settled_order DESC LIMIT 1`,
    [packIdBytes(callId)],
  );
  return rows[0];
}

/** The call and its ancestors, as far as they are known by their places in the attempt. */
export async function storedWalk(tx: Transaction, callId: CallId): Promise<readonly StoredCall[]> {
  const { rows } = await tx.query<StoredCall>(
    `WITH RECURSIVE walk AS (
       (SELECT c.*, 0 AS step FROM coppice_call c WHERE c.call_id = $1
        ORDER BY c.late, c.settled_order DESC LIMIT 1)
       UNION ALL
       SELECT p.*, walk.step + 1 FROM walk JOIN coppice_call p
         ON p.attempt_key = walk.attempt_key AND NOT p.late AND p.settled_order = walk.parent_order
     ) SELECT c.*, p.call_id AS parent_call_id FROM walk c LEFT JOIN coppice_call p
       ON p.attempt_key = c.attempt_key AND NOT p.late AND p.settled_order = c.parent_order ORDER BY c.step`,
    [packIdBytes(callId)],
  );
  return rows;
}

export async function deleteCalls(tx: Transaction, attemptKey: number): Promise<void> {
  await tx.query("DELETE FROM coppice_call WHERE attempt_key = $1", [attemptKey]);
  await tx.query("DELETE FROM coppice_in_flight WHERE attempt_key = $1", [attemptKey]);
}

export function decodeStored(row: StoredCall, attempt: AttemptPart): Call {
  return readable(row, () => decodeCall(row, row, placeIn(attempt, row)));
}

type AttemptPart = Pick<AttemptRow, "rollout_id" | "attempt" | "usual_sampling">;

/** For readers to whom attempt and sampling do not matter. */
export const NO_ATTEMPT: AttemptPart = {
  rollout_id: "" as Call["rolloutId"],
  attempt: 0,
  usual_sampling: "",
};

function placeIn(attempt: AttemptPart, row: WithParent): RowPlace {
  return {
    rolloutId: attempt.rollout_id,
    attempt: attempt.attempt,
    parentCallId: row.parent_call_id === null ? null : unpackId(row.parent_call_id),
    usualSampling: attempt.usual_sampling,
  };
}

function readable<T>(row: Pick<SummaryColumns, "call_id">, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw damaged(unpackId(row.call_id), messageOf(error), error);
  }
}

export function damaged(callId: string, why: string, cause?: unknown): CoppiceError {
  return new CoppiceError("ledger_error", `the record of call ${callId} is damaged: ${why}`, {
    cause,
    detail: { reason: "corrupt_record", call_id: callId },
  });
}
