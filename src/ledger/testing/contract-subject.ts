// What the parts of the ledger contract have in common: the ledger of the running test, and what is expected of it over
// and over.
import { expect } from "vitest";
import { CoppiceError, type ErrorCode } from "../../errors.ts";
import type { Call } from "../../lineage/call.ts";
import { digestCall } from "../../lineage/record-digest.ts";
import type { Admission, Admitted, Ledger } from "../ledger.ts";

/** An empty ledger. */
export interface LedgerHarness {
  readonly ledger: Ledger;
  /** As after the death of the process that held the ledger: the same store, held by the next one. */
  restart(): Promise<Ledger>;
  /** Closes what is open and deletes the store. */
  dispose(): Promise<void>;
}

/** The ledger of the running test. */
export interface Subject {
  readonly ledger: Ledger;
  restart(): Promise<void>;
}

/** Admits one call. */
export async function admitOne(ledger: Ledger, admission: Admission): Promise<Admitted> {
  const [admitted] = await ledger.admit([admission]);
  return admitted as Admitted;
}

export async function expectRefusal(
  verb: Promise<unknown>,
  code: ErrorCode,
  detail: Readonly<Record<string, unknown>> = {},
): Promise<CoppiceError> {
  const error = await verb.then(
    (value) => expect.fail(`resolved with ${JSON.stringify(value)}`),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof CoppiceError)) throw error;
  expect({ code: error.code, detail: error.detail ?? {} }).toMatchObject({ code, detail });
  return error;
}

export function expectDigests(calls: readonly Call[]): void {
  for (const call of calls) expect(call.digest, `digest of ${call.callId}`).toBe(digestCall(call));
}
