// Traces in and out. In: the calls of each rollout are put in order, placed in their forest by the same code as the
// gateway's, and made into rows; since all outcomes are read first, every group is complete. Out: what a ledger holds,
// so that another machine makes the same rows of it.
import { CoppiceError } from "../errors.ts";
import type { Call, CallId, RolloutId, RootReason } from "../lineage/call.ts";
import { callId, standsInForest } from "../lineage/call.ts";
import { buildForest, joinSequence, requestMessages } from "../lineage/forest.ts";
import {
  firstDifference,
  recordCall,
  RolloutIndex,
  type CapturedCall,
  type RootKind,
} from "../lineage/record-call.ts";
import { settleCall } from "../lineage/record-digest.ts";
import { finishGroup, type GroupOptions } from "../rows/group.ts";
import type { RolloutRows } from "../rows/row.ts";
import { rowsOfRollout } from "../rows/rollout-rows.ts";
import type { Outcome, Reference } from "../selection/outcome.ts";
import { formatDouble, formatFloat32s, formatIntegers, object, rowLines } from "./json-lines.ts";
import { parseTraceLine, type CallLine } from "./trace-format.ts";
import { orderCalls, type Timed } from "./trace-order.ts";

interface TraceRollout {
  readonly rolloutId: RolloutId;
  readonly lines: CallLine[];
  outcome: Outcome | null;
}

/** A trace that was read: rollouts with an outcome in the order of the outcomes, then those without one. */
export interface Trace {
  readonly rollouts: readonly TraceRollout[];
}

/**
 * Reads a trace's parsed lines. Throws `invalid_request` for a line that cannot be read, two calls with one id, or two
 * outcomes of one rollout that differ, and `conflict` for two rollouts with one group and index.
 *
 * @param source stands in front of errors, with the line's number
 */
export function readTrace(values: Iterable<unknown>, source = "line"): Trace {
  const byId = new Map<RolloutId, TraceRollout>();
  const withOutcome: TraceRollout[] = [];
  let number = 0;
  for (const value of values) {
    number += 1;
    // An empty line of the file: it counts, so that errors name the right line.
    if (value === undefined) continue;
    const where = `${source}:${number}`;
    const line = parseTraceLine(value, where);
    let rollout = byId.get(line.rolloutId);
    if (rollout === undefined) {
      rollout = { rolloutId: line.rolloutId, lines: [], outcome: null };
      byId.set(line.rolloutId, rollout);
    }
    if (line.type === "call") {
      rollout.lines.push(line.call);
    } else if (rollout.outcome === null) {
      rollout.outcome = line.outcome;
      withOutcome.push(rollout);
    } else if (JSON.stringify(rollout.outcome) !== JSON.stringify(line.outcome)) {
      throw new CoppiceError(
        "invalid_request",
        `${where}: a second outcome of ${line.rolloutId} differs from the first`,
      );
    }
  }
  const without = [...byId.values()].filter((rollout) => rollout.outcome === null);
  checkGroups(withOutcome);
  return { rollouts: [...withOutcome, ...without] };
}

/** Rows and refusals of a trace, in the output's order: `{"type":"row"|"failure", ...}` values. */
export function rowsOfTrace(
  values: Iterable<unknown>,
  options: GroupOptions = {},
): Record<string, unknown>[] {
  return [...rowLines(buildTraceRows(readTrace(values), options))].map(
    (line) => JSON.parse(line) as Record<string, unknown>,
  );
}

/** Each rollout's rows with its group's advantage, in the order of the trace's outcomes. */
export function buildTraceRows(trace: Trace, options: GroupOptions = {}): RolloutRows[] {
  const built = trace.rollouts.map(buildRollout);
  const groups = new Map<string, number[]>();
  for (const [index, rollout] of trace.rollouts.entries()) {
    const group = groupOf(rollout).groupId;
    groups.set(group, [...(groups.get(group) ?? []), index]);
  }
  for (const members of groups.values()) {
    const finished = finishGroup(
      members.map((index) => built[index] as RolloutRows),
      options,
    );
    for (const [at, index] of members.entries()) built[index] = finished[at] as RolloutRows;
  }
  return built;
}

function buildRollout(rollout: TraceRollout): RolloutRows {
  const { rolloutId, outcome } = rollout;
  return rowsOfRollout({ rolloutId, calls: recordsOf(rollout), outcome, ...groupOf(rollout) });
}

/** Without a group a rollout is one of its own, named like it. */
function groupOf({ rolloutId, outcome }: TraceRollout): { groupId: string; generationIndex: number } {
  return { groupId: outcome?.groupId ?? rolloutId, generationIndex: outcome?.generationIndex ?? 0 };
}

function checkGroups(rollouts: readonly TraceRollout[]): void {
  const taken = new Map<string, RolloutId>();
  for (const rollout of rollouts) {
    const { groupId, generationIndex } = groupOf(rollout);
    const key = JSON.stringify([groupId, generationIndex]);
    const other = taken.get(key);
    if (other !== undefined) {
      throw new CoppiceError(
        "conflict",
        `rollouts ${other} and ${rollout.rolloutId} both have generation_index ${generationIndex} of group ${groupId}`,
        { param: "generation_index" },
      );
    }
    taken.set(key, rollout.rolloutId);
  }
}

/** The records that a gateway would have kept of one rollout's calls. */
export function recordsOf({ rolloutId, lines }: Pick<TraceRollout, "rolloutId" | "lines">): Call[] {
  const index = new RolloutIndex();
  const records = new Map<CallId, Call>();
  for (const timed of orderCalls(lines, rolloutId)) {
    const captured = captureLine(timed, rolloutId);
    if (records.has(captured.callId)) {
      throw new CoppiceError(
        "invalid_request",
        `rollout ${rolloutId} has two calls with call_id ${captured.callId}`,
        {
          param: "call_id",
        },
      );
    }
    const lineage = index.place(captured);
    const prompt = captured.promptTokenIds ?? new Uint32Array();
    const pending = recordCall(captured, lineage, rootReasonOf(lineage.root, prompt, records));
    const call = settleCall(pending, timed.settledOrder);
    records.set(call.callId, call);
    index.add(call);
  }
  return [...records.values()];
}

function rootReasonOf(
  root: RootKind | null,
  prompt: Uint32Array,
  records: ReadonlyMap<CallId, Call>,
): RootReason | null {
  if (root?.kind !== "drift") return root;
  const expected = joinSequence(records, records.get(root.followed.callId) as Call);
  const at = firstDifference(expected, prompt);
  return {
    kind: "drift",
    followedCallId: root.followed.callId,
    index: at,
    expectedId: expected[at] ?? null,
    actualId: prompt[at] ?? null,
    expectedText: null,
    actualText: null,
  };
}

function captureLine({ line, admittedOrder }: Timed, rollout: RolloutId): CapturedCall {
  const status = line.status ?? "committed";
  const generated = Uint32Array.from(line.generated_token_ids ?? []);
  const logprobs = Float32Array.from(line.generated_logprobs ?? [], (value) => value ?? Number.NaN);
  const answered = status === "committed" || status === "aborted";
  const prompt = line.prompt_token_ids;
  const used =
    line.sampling?.used ?? (line.temperature === undefined ? {} : { temperature: line.temperature });
  return {
    rolloutId: rollout,
    attempt: 1,
    callId: callId(line.call_id),
    responseId: line.response_id ?? null,
    status,
    statusDetail: line.status_detail ?? null,
    admittedOrder,
    admittedAt: (line.admitted_at ?? 0) * 1000,
    settledAt:
      line.committed_at === undefined || line.committed_at === null ? null : line.committed_at * 1000,
    namedParent: line.parent_call_id ?? null,
    promptTokenIds: answered && prompt !== null && prompt !== undefined ? Uint32Array.from(prompt) : null,
    generatedTokenIds: generated,
    generatedLogprobs: logprobs,
    mediaDigests: line.media_digests ?? [],
    finishReason: line.finish_reason ?? null,
    untrainable: line.untrainable ?? (answered ? logprobFault(generated, logprobs) : null),
    weightVersions: line.weight_versions ?? [{ version: line.weight_version ?? "unknown", start: 0 }],
    way: line.way ?? "text",
    notes: line.notes ?? [],
    sampling: { asked: line.sampling?.asked ?? used, used },
    logprobsMode: line.logprobs_mode ?? null,
    agent: line.agent ?? null,
    class: line.class ?? null,
    messages: line.messages ?? null,
    answer: line.answer ?? null,
  };
}

/** A trace may come from anywhere: what the gateway would have refused to train is not trained here either. */
function logprobFault(generated: Uint32Array, logprobs: Float32Array): string | null {
  if (generated.length !== logprobs.length) {
    return `${generated.length} generated tokens but ${logprobs.length} log-probs`;
  }
  const index = logprobs.findIndex((value) => !Number.isFinite(value) || value <= -9999);
  return index < 0 ? null : `the log-prob of generated token ${index} is not finite`;
}

/** A rollout as a ledger holds it, to be written as a trace. */
export interface RolloutToExport {
  readonly rolloutId: RolloutId;
  readonly calls: readonly Call[];
  readonly outcome: Outcome | null;
}

/**
 * Trace lines of one rollout, without line ends: its calls by admission, then its outcome. Orders are written as the
 * times (exact small integers), since they, not the clock, decide who can be whose parent.
 */
export function* traceLines({ rolloutId, calls, outcome }: RolloutToExport): Generator<string> {
  const forest = buildForest(calls);
  for (const call of forest.calls) {
    const promptLength = call.sequenceLength - call.generatedLength;
    const prompt = standsInForest(call) ? joinSequence(forest.byId, call).subarray(0, promptLength) : null;
    yield callTraceLine(call, prompt, requestMessages(forest, call));
  }
  if (outcome !== null) yield outcomeTraceLine(rolloutId, outcome);
}

function callTraceLine(call: Call, prompt: Uint32Array | null, messages: Call["messages"]): string {
  return object([
    ["type", '"call"'],
    ["rollout_id", JSON.stringify(call.rolloutId)],
    ["call_id", JSON.stringify(call.callId)],
    ...optional("response_id", call.responseId),
    ["prompt_token_ids", prompt === null ? "null" : formatIntegers(prompt)],
    ["generated_token_ids", formatIntegers(call.generatedTokenIds)],
    ["generated_logprobs", formatFloat32s(call.generatedLogprobs)],
    ["weight_versions", JSON.stringify(call.weightVersions)],
    ["finish_reason", JSON.stringify(call.finishReason)],
    ["admitted_at", formatDouble(call.admittedOrder)],
    ["committed_at", formatDouble(call.settledOrder)],
    ["status", JSON.stringify(call.status)],
    ...optional("status_detail", call.statusDetail),
    ...optional("untrainable", call.untrainable),
    ...optional("parent_call_id", call.namedParent),
    ...optional("media_digests", call.mediaDigests),
    ...optional("agent", call.agent),
    ...optional("class", call.class),
    ["way", JSON.stringify(call.way)],
    ...optional("notes", call.notes),
    ["sampling", JSON.stringify(call.sampling)],
    ...optional("logprobs_mode", call.logprobsMode),
    ...optional("messages", messages),
    ...optional("answer", call.answer),
  ]);
}

/** A field that is left out where there is nothing to say. */
function optional(name: string, value: unknown): (readonly [string, string])[] {
  return value === null || (Array.isArray(value) && value.length === 0)
    ? []
    : [[name, JSON.stringify(value)]];
}

function plain(reference: Reference): unknown {
  return typeof reference === "string" ? reference : reference.item;
}

function outcomeTraceLine(rolloutId: RolloutId, outcome: Outcome): string {
  return object([
    ["type", '"outcome"'],
    ["rollout_id", JSON.stringify(rolloutId)],
    ["group_id", JSON.stringify(outcome.groupId)],
    ["generation_index", JSON.stringify(outcome.generationIndex)],
    ["reward", formatDouble(outcome.reward)],
    ...(outcome.accepted === null
      ? []
      : [["accepted", JSON.stringify(outcome.accepted.map(plain))] as const]),
    ...(outcome.final === null ? [] : [["final", JSON.stringify(plain(outcome.final))] as const]),
    ...(outcome.failed === null ? [] : [["failed", JSON.stringify(outcome.failed)] as const]),
    ...(outcome.infer ? [["infer", "true"] as const] : []),
  ]);
}
