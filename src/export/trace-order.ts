// The order of a trace's calls: one count of admissions and settles, as a ledger would have counted. Without times the
// order of lines is the order of time; with times, a call committed no later than another's admission counts as before.
import { CoppiceError } from "../errors.ts";
import type { CallLine } from "./trace-format.ts";

export interface Timed {
  readonly line: CallLine;
  readonly admittedOrder: number;
  readonly settledOrder: number;
}

/** The calls by the order in which they settled. Throws where only some calls of the rollout tell their times. */
export function orderCalls(lines: readonly CallLine[], rolloutId: string): Timed[] {
  const timed = lines.filter((line) => hasTime(line.admitted_at) && settledAtOf(line) !== null);
  const odd =
    lines.find((line) =>
      hasTime(line.admitted_at) ? settledAtOf(line) === null : hasTime(line.committed_at),
    ) ?? (timed.length > 0 ? lines.find((line) => !hasTime(line.admitted_at)) : undefined);
  if (odd !== undefined) {
    throw new CoppiceError(
      "invalid_request",
      `call ${odd.call_id} of rollout ${rolloutId} lacks admitted_at or committed_at: give both on all its calls (but those that never settled) or on none`,
      { param: "admitted_at" },
    );
  }
  if (timed.length === 0) {
    return lines.map((line, index) => ({ line, admittedOrder: 2 * index + 1, settledOrder: 2 * index + 2 }));
  }
  return orderByTime(timed, rolloutId);
}

function hasTime(value: number | null | undefined): boolean {
  return value !== null && value !== undefined;
}

/** A call that never settled comes after all that did; null where the time is missing. */
function settledAtOf(line: CallLine): number | null {
  if (hasTime(line.committed_at)) return line.committed_at as number;
  return line.status === "admitted" || line.status === "unknown" ? Number.POSITIVE_INFINITY : null;
}

interface Moment {
  readonly at: number;
  /** At one time: settles of calls under way, then calls that took no time, then admissions. */
  readonly phase: 0 | 1 | 2;
  readonly line: CallLine;
  readonly index: number;
  readonly kind: "admitted" | "settled";
}

function orderByTime(lines: readonly CallLine[], rolloutId: string): Timed[] {
  const moments = lines.flatMap((line, index): Moment[] => {
    const admittedAt = line.admitted_at as number;
    const settledAt = settledAtOf(line) as number;
    if (settledAt < admittedAt) {
      throw new CoppiceError(
        "invalid_request",
        `call ${line.call_id} of rollout ${rolloutId} has committed_at ${settledAt} before its admitted_at ${admittedAt}`,
        { param: "committed_at" },
      );
    }
    const instant = settledAt === admittedAt;
    return [
      { at: admittedAt, phase: instant ? 1 : 2, line, index, kind: "admitted" },
      { at: settledAt, phase: instant ? 1 : 0, line, index, kind: "settled" },
    ];
  });
  // Stable: a call without duration keeps its admission before its settling, and lines their order.
  moments.sort((one, other) => {
    if (one.at !== other.at) return one.at < other.at ? -1 : 1;
    return one.phase - other.phase || one.index - other.index;
  });
  const admitted = new Map<CallLine, number>();
  const ordered: Timed[] = [];
  for (const [order, { kind, line }] of moments.entries()) {
    if (kind === "admitted") admitted.set(line, order + 1);
    else ordered.push({ line, admittedOrder: admitted.get(line) as number, settledOrder: order + 1 });
  }
  return ordered;
}
