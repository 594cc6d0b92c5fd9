// What a rollout's outcome made of its calls: its rows as spans, and the check that each kept token trains once, which
// is run here over the rows' own arrays and the calls' own tokens, not taken from what assembled them.
import type { Call } from "../lineage/call.ts";
import type { RolloutRows, Row } from "../rows/row.ts";
import type { KeptView, RowTokensView, RowView, TrainsOnceView } from "./view.ts";

export function keptView(built: RolloutRows | null, calls: readonly Call[]): KeptView {
  if (built === null) return { kind: "open" };
  if (built.kind === "failure") {
    const { reason, detail } = built.failure;
    return { kind: "refused", refusal: { reason, detail } };
  }
  const orderOf = new Map(calls.map((call) => [call.callId, call.admittedOrder]));
  return {
    kind: "rows",
    rows: built.rows.map((row) => rowView(row, orderOf)),
    rollout_trainable_tokens: built.rows[0]?.rolloutTrainableTokens ?? 0,
    trains_once: checkTrainsOnce(built.rows, calls),
  };
}

function rowView(row: Row, orderOf: ReadonlyMap<string, number>): RowView {
  return {
    row_id: row.rowId,
    segment_index: row.segmentIndex,
    segment_count: row.segmentCount,
    tokens: row.tokenIds.length,
    trained: row.rowTrainableTokens,
    prompt_length: row.promptLength,
    spans: row.spans.map(({ callId, start, carried, generated, trained }) => ({
      order: orderOf.get(callId) as number,
      start,
      carried,
      generated,
      trained,
    })),
    reward: row.reward,
    advantage: row.advantage,
    finish_reason: row.finishReason,
    temperature: row.temperature,
    logprobs_mode: row.logprobsMode,
    weight_versions: row.weightVersions,
    trees_not_walked: row.treesNotWalked,
  };
}

export function rowTokensView(row: Row): RowTokensView {
  return {
    row_id: row.rowId,
    ids: [...row.tokenIds],
    mask: [...row.lossMask],
    logprobs: Array.from(row.logprobs, roundLogprob),
  };
}

/** Six decimals say all that a float32 log-prob holds for a reader, in a third of the bytes. */
export function roundLogprob(value: number): number {
  return Math.round(value * 1e6) / 1e6;
}

const FAULTS_TOLD = 5;

/**
 * Looks each generated token of each kept call up in every row: it must be marked as trained in exactly one, with the
 * call's own id and log-prob there, and no other position may be marked. A kept call is one that trains somewhere.
 */
export function checkTrainsOnce(rows: readonly Row[], calls: readonly Call[]): TrainsOnceView {
  const byId = new Map<string, Call>(calls.map((call) => [call.callId, call]));
  const timesTrained = new Map<string, Uint32Array>();
  const faults: string[] = [];
  for (const row of rows) {
    let marked = 0;
    for (const span of row.spans) {
      const call = byId.get(span.callId);
      if (call === undefined)
        faults.push(`${row.rowId} names call ${span.callId}, which is not in the record`);
      else marked += countSpan(row, span.start + span.carried, call, { timesTrained, faults });
    }
    const all = row.lossMask.reduce((sum, value) => sum + value, 0);
    if (marked !== all) faults.push(`${row.rowId} marks ${all - marked} tokens that no call generated`);
  }
  let tokens = 0;
  for (const [callId, times] of timesTrained) {
    tokens += times.length;
    const index = times.findIndex((count) => count !== 1);
    if (index >= 0) faults.push(`token ${index} of call ${callId} trains ${times[index]} times`);
  }
  return {
    holds: faults.length === 0,
    tokens,
    calls: timesTrained.size,
    rows: rows.length,
    faults: faults.slice(0, FAULTS_TOLD),
  };
}

/** Counts the trained positions of one call in one row, and compares them with the call's own tokens. */
function countSpan(
  row: Row,
  start: number,
  call: Call,
  found: { readonly timesTrained: Map<string, Uint32Array>; readonly faults: string[] },
): number {
  let marked = 0;
  for (let index = 0; index < call.generatedLength; index++) {
    const at = start + index;
    if (row.lossMask[at] !== 1) continue;
    marked += 1;
    let times = found.timesTrained.get(call.callId);
    if (times === undefined) {
      times = new Uint32Array(call.generatedLength);
      found.timesTrained.set(call.callId, times);
    }
    times[index] = (times[index] as number) + 1;
    const same =
      row.tokenIds[at] === call.generatedTokenIds[index] &&
      row.logprobs[at] === call.generatedLogprobs[index];
    if (!same) found.faults.push(`${row.rowId} position ${at} is not token ${index} of call ${call.callId}`);
  }
  return marked;
}
