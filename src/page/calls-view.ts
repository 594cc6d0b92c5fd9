// All calls of one rollout as columns, from their summaries alone: no tokens and no messages are read, so that a
// hundred thousand of them open at once. What became of each (kept, rejected) comes later, with the rows.
import { standsInForest, type CallSummary } from "../lineage/call.ts";
import type { HeldCalls } from "./held-calls.ts";
import { IN_FLIGHT, ROOT_CODES, STATUS_CODES, UNTIMED, type CallColumns, type RootCode } from "./view.ts";

/** @param calls a run of what is held, in any order; their parents are held too */
export function callColumns(held: HeldCalls, calls: readonly CallSummary[]): CallColumns {
  const sorted = [...calls].sort((one, other) => one.admittedOrder - other.admittedOrder);
  const parentOf = ({ parentCallId }: CallSummary): number =>
    parentCallId === null ? 0 : (held.orderOf(parentCallId) ?? 0);
  const names = new Names();
  const sparse = { untrainable: {}, detail: {}, follows: {} } as Record<
    "untrainable" | "detail" | "follows",
    Record<string, string>
  >;
  for (const call of sorted) noteSparse(call, sparse);
  return {
    order: sorted.map((call) => call.admittedOrder),
    call_id: sorted.map((call) => call.callId),
    response_id: sorted.map((call) => call.responseId),
    parent: sorted.map(parentOf),
    root: sorted.map((call) => ROOT_CODES.indexOf(rootCode(call))),
    status: sorted.map((call) => STATUS_CODES.indexOf(call.status)),
    settled: sorted.map((call) => call.settledOrder ?? 0),
    carried: sorted.map((call) => call.carriedLength),
    generated: sorted.map((call) => call.generatedLength),
    admitted_at: sorted.map((call) => call.admittedAt),
    took_ms: sorted.map(tookMs),
    finish: sorted.map((call) => names.index(call.finishReason)),
    agent: sorted.map((call) => names.index(call.agent)),
    class: sorted.map((call) => names.index(call.class)),
    names: names.all,
    ...sparse,
    twins: held.twins(),
  };
}

function tookMs({ admittedAt, settledAt, settledOrder }: CallSummary): number {
  if (settledOrder === null) return IN_FLIGHT;
  return settledAt === null ? UNTIMED : Math.max(0, Math.round(settledAt - admittedAt));
}

/** Why a call stands where it stands, as one word. */
export function rootCode(call: CallSummary): RootCode {
  if (!standsInForest(call)) return "no_place";
  if (call.parentCallId !== null) return "child";
  return call.rootReason === null ? "first" : call.rootReason.kind;
}

/** The call that a drifted root should have followed, or that a repeated one repeats. */
export function rootFollows({ rootReason }: CallSummary): string | null {
  switch (rootReason?.kind) {
    case "drift":
      return rootReason.followedCallId;
    case "asked_again":
      return rootReason.rootCallId;
    case undefined:
    case "rewrite":
    case "other_agent":
    case "unknown":
      return null;
  }
}

function noteSparse(
  call: CallSummary,
  sparse: Record<"untrainable" | "detail" | "follows", Record<string, string>>,
): void {
  const follows = rootFollows(call);
  if (call.untrainable !== null) sparse.untrainable[call.admittedOrder] = call.untrainable;
  if (call.statusDetail !== null) sparse.detail[call.admittedOrder] = call.statusDetail;
  if (follows !== null) sparse.follows[call.admittedOrder] = follows;
}

/** Texts that repeat, each once. */
class Names {
  readonly all: string[] = [];
  readonly #index = new Map<string, number>();

  index(name: string | null): number {
    if (name === null) return -1;
    const known = this.#index.get(name);
    if (known !== undefined) return known;
    this.#index.set(name, this.all.length);
    return this.all.push(name) - 1;
  }
}
