// Which of the things that can go wrong do occur in a trace, told by the naive implementation: a property over traces
// in which twins never meet an accepted list proves nothing about twins.
import { choose, readOutcome } from "./choose.ts";
import {
  areTwins,
  equalLists,
  findParent,
  fits,
  growForest,
  isBefore,
  isNamed,
  readCall,
  sequenceOf,
  standsInForest,
  startsWith,
  type NaiveCall,
  type NaiveForest,
} from "./forest.ts";
import { naiveRowsOfTrace } from "./rows-of-trace.ts";

type Line = Readonly<Record<string, unknown>>;

/** The names of the features of one trace; refusals by their reasons. */
export function featuresOf(lines: readonly Line[]): ReadonlySet<string> {
  const rollouts = new Map<string, NaiveCall[]>();
  for (const [index, line] of lines.entries()) {
    if (line["type"] !== "call") continue;
    const id = line["rollout_id"] as string;
    rollouts.set(id, [...(rollouts.get(id) ?? []), readCall(line, index)]);
  }
  const found = new Set<string>();
  for (const calls of rollouts.values()) {
    for (const feature of featuresOfForest(calls)) found.add(feature);
  }
  for (const line of lines) {
    if (line["type"] !== "outcome") continue;
    const calls = rollouts.get(line["rollout_id"] as string) ?? [];
    for (const feature of featuresOfChoice(calls, line)) found.add(feature);
  }
  for (const feature of featuresOfRows(lines)) found.add(feature);
  return found;
}

function fitsTokens(one: NaiveCall, other: NaiveCall): boolean {
  return one.generated.length > 0 && startsWith(other.prompt, sequenceOf(one));
}

function holding(tests: Readonly<Record<string, boolean>>): readonly string[] {
  return Object.keys(tests).filter((name) => tests[name] === true);
}

function featuresOfForest(calls: readonly NaiveCall[]): readonly string[] {
  const forest = growForest(calls);
  const standing = [...forest.keys()];
  const anyPair = (holds: (one: NaiveCall, other: NaiveCall) => boolean): boolean =>
    standing.some((one) => standing.some((other) => one !== other && holds(one, other)));
  return holding({
    twins: anyPair(areTwins),
    "twins cut differently": anyPair(
      (one, other) => areTwins(one, other) && !equalLists(one.prompt, other.prompt),
    ),
    "prefix of a prefix": standing.some((child) => {
      const fitting = standing.filter((call) => fits(call, child));
      return new Set(fitting.map((call) => sequenceOf(call).length)).size > 1;
    }),
    "tie for the parent": anyPair((call, child) => {
      const parent = forest.get(child) ?? null;
      return parent !== null && call !== parent && fits(call, child) && areTwins(call, parent);
    }),
    "the same prompt again": anyPair((one, other) => equalLists(one.prompt, other.prompt)),
    fork: anyPair((one, other) => forest.get(one) !== null && forest.get(one) === forest.get(other)),
    "in flight together": anyPair((one, other) => !isBefore(one, other) && !isBefore(other, one)),
    "fits but was in flight": anyPair((one, other) => fitsTokens(one, other) && !isBefore(one, other)),
    "committed at the moment of admission": anyPair(
      (one, other) => one.committedAt !== null && one.committedAt === other.admittedAt && fits(one, other),
    ),
    "several roots": standing.filter((call) => forest.get(call) === null).length > 1,
    "fits but for its media": anyPair(
      (one, other) => fitsTokens(one, other) && !startsWith(other.media, one.media),
    ),
    ...Object.fromEntries(featuresOfNames(calls, forest).map((name) => [name, true])),
    ...Object.fromEntries(featuresOfStatus(calls).map((name) => [name, true])),
  });
}

function featuresOfNames(calls: readonly NaiveCall[], forest: NaiveForest): readonly string[] {
  const naming = [...forest.keys()].filter((call) => call.named !== null);
  const called = (child: NaiveCall): readonly NaiveCall[] =>
    calls.filter((call) => isNamed(call, child.named ?? ""));
  return holding({
    "a named parent outranks": naming.some(
      (child) => forest.get(child) !== findParent({ ...child, named: null }, calls),
    ),
    "a named parent does not fit": naming.some((child) => called(child).some((call) => !fits(call, child))),
    "a named parent is unheard of": naming.some((child) => called(child).length === 0),
  });
}

function featuresOfStatus(calls: readonly NaiveCall[]): readonly string[] {
  const standing = calls.filter(standsInForest);
  return holding({
    aborted: standing.some((call) => call.status === "aborted"),
    "nothing generated": standing.some((call) => call.generated.length === 0),
    untrainable: standing.some((call) => !call.trainable),
    "status failed": calls.some((call) => call.status === "failed"),
    "status unknown": calls.some((call) => call.status === "unknown"),
    "answered without tokens": calls.some((call) => call.status === "committed" && !call.hasTokens),
    "side class": standing.some((call) => call.sideClass),
  });
}

function featuresOfChoice(calls: readonly NaiveCall[], line: Line): readonly string[] {
  const choice = choose(calls, readOutcome(line));
  if ("reason" in choice) return [];
  const form = line["accepted"] ? (line["final"] ? "both" : "accepted") : line["final"] ? "final" : "infer";
  const inner = choice.chains.flatMap((chain) => chain.slice(0, -1));
  return holding({
    [`rows from ${form}`]: true,
    "a walk takes an accepted twin": choice.chains.some((chain) =>
      chain.some((call, index) => index > 0 && choice.forest.get(call) !== chain[index - 1]),
    ),
    "aborted and trained": [...choice.trained].some((call) => call.status === "aborted"),
    "aborted as context": inner.some((call) => call.status === "aborted" && !choice.trained.has(call)),
    "rejected as context": form === "accepted" && inner.some((call) => !choice.trained.has(call)),
    "untrainable as context": inner.some((call) => !call.trainable),
    "side class as context": inner.some((call) => call.sideClass && !choice.trained.has(call)),
    "shared by several rows": new Set(inner).size < inner.length,
  });
}

function featuresOfRows(lines: readonly Line[]): readonly string[] {
  const { rows, failures } = naiveRowsOfTrace(lines);
  const outcomes = lines.filter((line) => line["type"] === "outcome");
  const found = holding({
    "a group of its own": outcomes.some((line) => line["group_id"] === undefined),
    "several rows of one rollout": rows.some((row) => row.segment_count > 1),
    "trees not walked": rows.some((row) => row.trees_not_walked > 0),
    "advantage unlike 0": rows.some((row) => row.advantage !== null && row.advantage !== 0),
    "advantage unknown": rows.some((row) => row.advantage === null),
  });
  return [...found, ...failures.map((failure) => `refused: ${failure.reason}`)];
}

/** How many of the traces have each feature, the rarest first. */
export function countFeatures(traces: readonly (readonly Line[])[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const lines of traces) {
    for (const feature of featuresOf(lines)) counts.set(feature, (counts.get(feature) ?? 0) + 1);
  }
  return new Map([...counts].sort(([, one], [, other]) => one - other));
}
