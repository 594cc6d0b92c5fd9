// A ledger's verbs as values, so that they can wait in a queue and go to another thread: the name and the arguments of
// the method of `Ledger`. Derived from the interface, so the two cannot differ.
import type { Ledger, Settled } from "./ledger.ts";

export type VerbName = Exclude<keyof Ledger, "location" | "wire" | "close">;

export type Verb = {
  readonly [N in VerbName]: { readonly name: N; readonly args: Parameters<Ledger[N]> };
}[VerbName];

/** What settling adds to a call; the caller has the rest. */
export interface SettledPlace {
  readonly settledOrder: number;
  readonly digest: Settled["call"]["digest"];
  readonly late: boolean;
}

export type VerbResult<N extends VerbName> = N extends "settle"
  ? SettledPlace
  : Awaited<ReturnType<Ledger[N]>>;

/** The same verbs, done at once. */
export type ImmediateVerbs = {
  [N in VerbName]: (...args: Parameters<Ledger[N]>) => VerbResult<N>;
};

/**
 * - `read`: writes nothing
 * - `admit`: must outlive the process
 * - `durable`: must be on disk when it resolves
 */
export type VerbKind = "read" | "admit" | "durable";

const KINDS: Readonly<Record<VerbName, VerbKind>> = {
  open: "durable",
  admit: "admit",
  settle: "durable",
  seal: "durable",
  sweep: "durable",
  claim: "durable",
  acknowledge: "durable",
  sweepOld: "durable",
  claimOf: "read",
  setWeightVersion: "durable",
  rollout: "read",
  rollouts: "read",
  summaries: "read",
  calls: "read",
  call: "read",
  lateCalls: "read",
  sequence: "read",
  weightVersion: "read",
};

export function kindOf(verb: Verb): VerbKind {
  return KINDS[verb.name];
}
