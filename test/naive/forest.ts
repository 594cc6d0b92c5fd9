// The forest of one rollout by the plainest means: whole token arrays compared id by id, every call against every
// other. No hashes, no indexes, no code of the product. `rows-of-trace.ts` builds on it; tests compare it with src/.

export interface NaiveCall {
  readonly callId: string;
  readonly responseId: string | null;
  readonly prompt: readonly number[];
  readonly generated: readonly number[];
  readonly logprobs: readonly number[];
  readonly media: readonly string[];
  readonly status: string;
  /** False where the answer's tokens are not known. */
  readonly hasTokens: boolean;
  readonly trainable: boolean;
  readonly named: string | null;
  readonly sideClass: boolean;
  readonly line: number;
  /** Null in both where the rollout's lines tell the order. */
  readonly admittedAt: number | null;
  readonly committedAt: number | null;
}

/** The parent of every call that stands in the forest; null for roots. */
export type NaiveForest = ReadonlyMap<NaiveCall, NaiveCall | null>;

export function readCall(line: Readonly<Record<string, unknown>>, lineNumber: number): NaiveCall {
  const prompt = line["prompt_token_ids"];
  const generated = (line["generated_token_ids"] ?? []) as readonly number[];
  const logprobs = (line["generated_logprobs"] ?? []) as readonly number[];
  return {
    callId: line["call_id"] as string,
    responseId: (line["response_id"] ?? null) as string | null,
    prompt: (prompt ?? []) as readonly number[],
    generated,
    logprobs,
    media: (line["media_digests"] ?? []) as readonly string[],
    status: (line["status"] ?? "committed") as string,
    hasTokens: Array.isArray(prompt),
    // "A call is complete when ids, log-probs and `usage` agree, all log-probs are finite (-9999 and below [...] is
    // not)", and otherwise untrainable.
    trainable:
      (line["untrainable"] ?? null) === null &&
      logprobs.length === generated.length &&
      logprobs.every((logprob) => Number.isFinite(logprob) && logprob > -9999),
    named: (line["parent_call_id"] ?? null) as string | null,
    // "calls of a side class (title, auxiliary)"
    sideClass: line["class"] === "title" || line["class"] === "auxiliary",
    line: lineNumber,
    admittedAt: (line["admitted_at"] ?? null) as number | null,
    committedAt: (line["committed_at"] ?? null) as number | null,
  };
}

/** True where the call's prompt and answer are in the record: "An aborted call's sequence [...] stands in the forest". */
export function standsInForest(call: NaiveCall): boolean {
  return (call.status === "committed" || call.status === "aborted") && call.hasTokens;
}

/** "a call's prompt followed by what it generated" */
export function sequenceOf(call: NaiveCall): readonly number[] {
  return [...call.prompt, ...call.generated];
}

/** True where `one` was committed before `other` was admitted. */
export function isBefore(one: NaiveCall, other: NaiveCall): boolean {
  if (one === other) return false;
  // "Order of lines is order of time unless the times are given"
  if (one.committedAt === null || other.admittedAt === null) return one.line < other.line;
  // "with times, a call committed no later than another's admission counts as before it"
  if (one.committedAt !== other.admittedAt) return one.committedAt < other.admittedAt;
  // Two calls that took no time at all, at the same moment, would each be before the other: their lines decide.
  const bothAtOnce = one.admittedAt === one.committedAt && other.committedAt === other.admittedAt;
  return bothAtOnce ? one.line < other.line : true;
}

/** Orders by commit: negative where `one` was committed before `other`. */
export function compareCommits(one: NaiveCall, other: NaiveCall): number {
  if (one === other) return 0;
  if (one.committedAt !== null && other.committedAt !== null && one.committedAt !== other.committedAt) {
    return one.committedAt - other.committedAt;
  }
  if (isBefore(one, other)) return -1;
  if (isBefore(other, one)) return 1;
  return one.line - other.line;
}

export function startsWith<T>(long: readonly T[], short: readonly T[]): boolean {
  if (short.length > long.length) return false;
  for (let index = 0; index < short.length; index += 1) {
    if (short[index] !== long[index]) return false;
  }
  return true;
}

export function equalLists<T>(one: readonly T[], other: readonly T[]): boolean {
  return one.length === other.length && startsWith(one, other);
}

/** True where `parent` may be the parent of `child`. */
export function fits(parent: NaiveCall, child: NaiveCall): boolean {
  return (
    standsInForest(parent) &&
    // "A call that generated nothing is nobody's parent"
    parent.generated.length > 0 &&
    // "A call can only be the parent of one that was admitted after it was committed."
    isBefore(parent, child) &&
    // "the earlier call whose sequence this call's prompt starts with"
    startsWith(child.prompt, sequenceOf(parent)) &&
    // "A parent's media digests must also be the first of the child's"
    startsWith(child.media, parent.media)
  );
}

export function findParent(child: NaiveCall, calls: readonly NaiveCall[]): NaiveCall | null {
  const fitting = calls.filter((call) => fits(call, child));
  // "A parent that the client named outranks length and lateness if its sequence fits." (as call id or response id)
  const named = fitting.filter((call) => child.named !== null && isNamed(call, child.named));
  let best: NaiveCall | null = null;
  for (const call of named.length > 0 ? named : fitting) {
    if (best === null) best = call;
    const longer = sequenceOf(call).length - sequenceOf(best).length;
    // "the longest such sequence"; "Ties (identical sequences: twins) go to the latest committed."
    if (longer > 0 || (longer === 0 && compareCommits(call, best) > 0)) best = call;
  }
  return best;
}

/** "a call id or response id", exactly. */
export function isNamed(call: NaiveCall, id: string): boolean {
  return call.callId === id || call.responseId === id;
}

export function growForest(calls: readonly NaiveCall[]): NaiveForest {
  const parents = new Map<NaiveCall, NaiveCall | null>();
  for (const call of calls) {
    // "A prompt is always legal: it has a parent, or it is a root."
    if (standsInForest(call)) parents.set(call, findParent(call, calls));
  }
  return parents;
}

/** True for two calls of identical sequences. */
export function areTwins(one: NaiveCall, other: NaiveCall): boolean {
  return (
    // "A call that generated nothing is [...] nobody's twin."
    one.generated.length > 0 &&
    other.generated.length > 0 &&
    equalLists(sequenceOf(one), sequenceOf(other)) &&
    // "twins have the same [media]"
    equalLists(one.media, other.media)
  );
}

/** "a leaf's walk up to its root, reversed": the chain, root first. */
export function walkFrom(
  leaf: NaiveCall,
  forest: NaiveForest,
  accepted: ReadonlySet<NaiveCall>,
): readonly NaiveCall[] {
  const chain = [leaf];
  for (;;) {
    const child = chain[0] ?? leaf;
    const parent = forest.get(child) ?? null;
    if (parent === null) return chain;
    let next = parent;
    // "a walk that comes to a sequence takes the latest-committed accepted twin that was committed before the child
    // was admitted; if there is none, the parent itself"
    const twins = [...forest.keys()].filter(
      (call) => accepted.has(call) && (call === parent || areTwins(call, parent)) && isBefore(call, child),
    );
    for (const [index, twin] of twins.entries()) {
      if (index === 0 || compareCommits(twin, next) > 0) next = twin;
    }
    chain.unshift(next);
  }
}
