// Where each call of a forest stands in the drawing: its tree, its line within it, and the lanes to its left. A call's
// walked child goes on in the call's own lane; other children hang off beside it, before it. Without recursion, since
// a tree can be thousands of calls deep; lanes to the left are bounded, so a line's length is too.
import type { CallSummary } from "../lineage/call.ts";

export interface Placed {
  readonly callId: string;
  readonly parentCallId: string | null;
  readonly status: CallSummary["status"];
  readonly carriedLength: number;
}

/**
 * - `pass`: the parent's lane goes on below
 * - `fork`: the call hangs off it, and it goes on below; `kept-fork`: the call is on a walk too
 * - `last`: the call hangs off its end
 * - `blank`: a lane that has ended
 * - `deep`: lanes that are left out
 */
export interface LanePart {
  readonly shape: "pass" | "fork" | "kept-fork" | "last" | "blank" | "deep";
  /** On a walk from a leaf that is kept. */
  readonly solid: boolean;
}

export type Lane = readonly LanePart[];

export interface LaidOut<C extends Placed> {
  readonly call: C;
  readonly lanes: Lane;
  /** False too for calls that have no place in the forest. */
  readonly isRoot: boolean;
  readonly isLeaf: boolean;
}

/** Lanes drawn to the left of a call; forks within forks beyond that are rare and are drawn on the last one. */
const MOST_LANES = 12;

/**
 * Trees in the order in which their roots were admitted, each as its calls from top to bottom; a call without a place
 * in the forest is a tree of its own. Walked calls keep to one lane where they can.
 */
export function layOut<C extends Placed>(calls: readonly C[], walked: ReadonlySet<string>): LaidOut<C>[][] {
  const children = new Map<string, C[]>();
  const known = new Set(calls.map(({ callId }) => callId));
  const tops: C[] = [];
  for (const call of calls) {
    const parent = call.parentCallId;
    if (parent === null || !known.has(parent)) tops.push(call);
    else {
      const siblings = children.get(parent);
      if (siblings === undefined) children.set(parent, [call]);
      else siblings.push(call);
    }
  }
  return tops.map((top) =>
    standsAsRoot(top)
      ? layOutTree(top, children, walked)
      : [{ call: top, lanes: [], isRoot: false, isLeaf: false }],
  );
}

/** A prompt has tokens: a committed call that carries none told no prompt ids, and stands nowhere. */
function standsAsRoot(call: Placed): boolean {
  return (call.status === "committed" || call.status === "aborted") && call.carriedLength > 0;
}

interface Waiting<C> {
  readonly call: C;
  readonly lanes: Lane;
  /** Lanes of what comes below the call in its own lane. */
  readonly below: Lane;
}

function layOutTree<C extends Placed>(
  root: C,
  children: ReadonlyMap<string, readonly C[]>,
  walked: ReadonlySet<string>,
): LaidOut<C>[] {
  const laid: LaidOut<C>[] = [];
  const stack: Waiting<C>[] = [{ call: root, lanes: [], below: [] }];
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const { call, lanes, below } = next;
    const under = children.get(call.callId) ?? [];
    laid.push({ call, lanes, isRoot: call === root, isLeaf: under.length === 0 });
    const main = mainChild(call, under, walked);
    const solid = main !== null && walked.has(main.callId);
    if (main !== null) stack.push({ call: main, lanes: below, below });
    const sides = under.filter((child) => child !== main);
    // The stack gives back what was pushed last: sides from last to first, so that they are drawn in their order.
    for (let index = sides.length - 1; index >= 0; index--) {
      const side = sides[index] as C;
      const end = main === null && index === sides.length - 1;
      const fork = walked.has(side.callId) ? "kept-fork" : "fork";
      stack.push({
        call: side,
        lanes: withLane(below, { shape: end ? "last" : fork, solid: solid || main === null }),
        below: withLane(below, { shape: end ? "blank" : "pass", solid: solid || main === null }),
      });
    }
  }
  return laid;
}

/** The latest walked child, else the latest; none where a walk ends here, so that what was thrown away hangs beside. */
function mainChild<C extends Placed>(call: C, under: readonly C[], walked: ReadonlySet<string>): C | null {
  const kept = under.findLast((child) => walked.has(child.callId));
  if (kept !== undefined) return kept;
  return walked.has(call.callId) ? null : (under.at(-1) ?? null);
}

function withLane(lanes: Lane, part: LanePart): Lane {
  if (lanes.length < MOST_LANES) return [...lanes, part];
  return [...lanes.slice(0, MOST_LANES - 1), { shape: "deep", solid: false }];
}
