// All the calls of one rollout attempt and how they hang together: parents, children, roots, leaves, twins, and the
// walk from a leaf up to its root. Built once from the records, read-only after.
import { CoppiceError } from "../errors.ts";
import { standsInForest, type CallId, type CallSummary, type Message, type Call } from "./call.ts";

export interface Forest<C extends CallSummary = CallSummary> {
  /** Every call, standing in the forest or not, by admission. */
  readonly calls: readonly C[];
  readonly byId: ReadonlyMap<CallId, C>;
  /** Calls without a parent, in the order in which they settled. */
  readonly roots: readonly C[];
  /** Children in the order in which they settled; absent for a leaf. */
  readonly children: ReadonlyMap<CallId, readonly C[]>;
  /** Calls whose sequences are the same, in the order in which they settled; only where there are two or more. */
  readonly twins: ReadonlyMap<CallId, readonly C[]>;
}

/** Builds the forest in O(n log n). Throws where a parent is missing, which a checked record cannot have. */
export function buildForest<C extends CallSummary>(calls: readonly C[]): Forest<C> {
  const byAdmission = [...calls].sort((one, other) => one.admittedOrder - other.admittedOrder);
  const byId = new Map(byAdmission.map((call) => [call.callId, call]));
  const standing = calls
    .filter(standsInForest)
    .sort((one, other) => (one.settledOrder as number) - (other.settledOrder as number));
  const roots: C[] = [];
  const children = new Map<CallId, C[]>();
  const bySequence = new Map<string, C[]>();
  for (const call of standing) {
    if (call.parentCallId === null) roots.push(call);
    else {
      if (!byId.has(call.parentCallId)) {
        throw new CoppiceError(
          "ledger_error",
          `call ${call.callId} hangs under ${call.parentCallId}, which is missing`,
        );
      }
      append(children, call.parentCallId, call);
    }
    // A call that generated nothing is nobody's twin.
    if (call.generatedLength > 0) append(bySequence, call.address as string, call);
  }
  const twins = new Map<CallId, readonly C[]>();
  for (const same of bySequence.values()) {
    if (same.length > 1) for (const call of same) twins.set(call.callId, same);
  }
  return { calls: byAdmission, byId, roots, children, twins };
}

function append<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const values = map.get(key);
  if (values === undefined) map.set(key, [value]);
  else values.push(value);
}

export function isLeaf(forest: Forest, call: CallSummary): boolean {
  return standsInForest(call) && !forest.children.has(call.callId);
}

/** All leaves, in the order in which they settled. */
export function leavesOf<C extends CallSummary>(forest: Forest<C>): C[] {
  return forest.calls
    .filter((call) => isLeaf(forest, call))
    .sort((one, other) => (one.settledOrder as number) - (other.settledOrder as number));
}

/**
 * The next call on the way up: the parent, or in its place the latest-settled accepted twin that settled before the
 * child was admitted. Twins are interchangeable, since their sequences are the same. Null at a root.
 */
export function stepUp<C extends CallSummary>(
  forest: Forest<C>,
  child: C,
  accepted: ReadonlySet<CallId>,
): C | null {
  if (child.parentCallId === null) return null;
  const parent = forest.byId.get(child.parentCallId) as C;
  const twin = forest.twins
    .get(parent.callId)
    ?.findLast((call) => accepted.has(call.callId) && (call.settledOrder as number) < child.admittedOrder);
  return twin ?? parent;
}

/** The chain of a leaf: its walk up to its root, reversed, so root first and the leaf last. */
export function chainOf<C extends CallSummary>(
  forest: Forest<C>,
  leaf: C,
  accepted: ReadonlySet<CallId>,
): readonly C[] {
  const walk: C[] = [];
  for (let call: C | null = leaf; call !== null; call = stepUp(forest, call, accepted)) walk.push(call);
  return walk.reverse();
}

/** Prompt and generated ids of a call, joined from its ancestors' new tokens. */
export function joinSequence(byId: ReadonlyMap<CallId, Call>, call: Call): Uint32Array {
  const sequence = new Uint32Array(call.sequenceLength);
  let end = call.sequenceLength;
  for (let at: Call | undefined = call; at !== undefined;) {
    sequence.set(at.generatedTokenIds, end - at.generatedLength);
    end -= at.generatedLength + at.carriedLength;
    sequence.set(at.carriedTokenIds, end);
    at = at.parentCallId === null ? undefined : byId.get(at.parentCallId);
  }
  return sequence;
}

/** The root above a call, by parents alone. */
export function rootOf<C extends CallSummary>(forest: Forest<C>, call: C): C {
  let at = call;
  while (at.parentCallId !== null) at = forest.byId.get(at.parentCallId) as C;
  return at;
}

/** The whole request of a call, put together from its ancestors; null where messages were not kept. */
export function requestMessages(forest: Forest<Call>, call: Call): readonly Message[] | null {
  const tails: Call[] = [];
  for (let at: Call | undefined = call; at !== undefined; at = parentOf(forest, at)) {
    if (at.messages === null) return null;
    tails.push(at);
    if (at.messagesFrom === 0) break;
  }
  let messages: Message[] = [];
  for (const at of tails.reverse()) {
    messages = [...messages.slice(0, at.messagesFrom), ...(at.messages as readonly Message[])];
    if (at !== call && at.answer !== null) messages.push(at.answer);
  }
  return messages;
}

function parentOf(forest: Forest<Call>, call: Call): Call | undefined {
  return call.parentCallId === null ? undefined : forest.byId.get(call.parentCallId);
}
