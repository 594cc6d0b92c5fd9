// Pairs of calls whose commits could as well have come the other way round: each was admitted before the other was
// committed, and between the two commits nothing of the rollout was admitted or committed.
import { isBefore, readCall, sequenceOf, equalLists, type NaiveCall } from "./forest.ts";

type Line = Readonly<Record<string, unknown>>;

/** The same traces with one such pair's commits swapped; none for a trace without times. */
export function swapIndependentCommits(lines: readonly Line[]): readonly (readonly Line[])[] {
  const calls = lines.flatMap((line, index) =>
    line["type"] === "call" ? [{ rollout: line["rollout_id"], index, call: readCall(line, index) }] : [],
  );
  const swapped: (readonly Line[])[] = [];
  for (const one of calls) {
    for (const other of calls) {
      const rest = calls.filter((entry) => entry.rollout === one.rollout && entry !== one && entry !== other);
      if (one.rollout !== other.rollout) continue;
      if (
        !isIndependent(
          one.call,
          other.call,
          rest.map(({ call }) => call),
        )
      )
        continue;
      swapped.push(
        lines.map((line, index) => {
          if (index === one.index) return { ...line, committed_at: other.call.committedAt };
          return index === other.index ? { ...line, committed_at: one.call.committedAt } : line;
        }),
      );
    }
  }
  return swapped;
}

/** True for `one` committed just before `other` where neither can see the other, nor anything the order of the two. */
function isIndependent(one: NaiveCall, other: NaiveCall, rest: readonly NaiveCall[]): boolean {
  const from = one.committedAt;
  const to = other.committedAt;
  if (from === null || to === null || one.admittedAt === null || other.admittedAt === null) return false;
  // Of identical sequences the later is the parent, so their order does matter.
  if (isBefore(one, other) || isBefore(other, one) || equalLists(sequenceOf(one), sequenceOf(other)))
    return false;
  if (!(from < to && one.admittedAt < from && other.admittedAt < from)) return false;
  return rest.every(({ admittedAt, committedAt }) => {
    if (admittedAt === null || committedAt === null) return false;
    return (admittedAt < from || admittedAt > to) && (committedAt < from || committedAt > to);
  });
}
