// What goes between an embedded ledger and its thread. A structured clone keeps neither an error's class nor its fields,
// so errors travel as plain values and are made again on the other side.
import { CoppiceError, messageOf, type ErrorCode } from "../errors.ts";
import type { Verb } from "./ledger-verbs.ts";
import type { TransactionFacts } from "./sqlite-engine.ts";

export interface PlainError {
  /** Null for a bug. */
  readonly code: ErrorCode | null;
  readonly message: string;
  readonly param: string | null;
  readonly detail: Readonly<Record<string, unknown>> | null;
  readonly stack: string | null;
}

export type PlainOutcome =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: PlainError };

export interface WorkerRequest {
  readonly verbs: readonly Verb[];
  /** Once these are done, let go of the file. */
  readonly close: boolean;
}

export type WorkerReply =
  | { readonly kind: "open" }
  | { readonly kind: "refused"; readonly error: PlainError }
  | { readonly kind: "done"; readonly outcomes: readonly PlainOutcome[]; readonly facts: TransactionFacts }
  | { readonly kind: "closed"; readonly error: PlainError | null };

export function toPlainError(error: unknown): PlainError {
  const stack = error instanceof Error ? (error.stack ?? null) : null;
  if (!(error instanceof CoppiceError))
    return { code: null, message: messageOf(error), param: null, detail: null, stack };
  const { code, message, param, detail } = error;
  return { code, message, param, detail, stack };
}

export function fromPlainError({ code, message, param, detail, stack }: PlainError): Error {
  const error =
    code === null
      ? new Error(message)
      : new CoppiceError(code, message, {
          ...(param === null ? {} : { param }),
          ...(detail === null ? {} : { detail }),
        });
  if (stack !== null) error.stack = stack;
  return error;
}
