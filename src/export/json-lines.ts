// Rows, failures and calls as JSON Lines, snake_case. Floats always have a point or an exponent: a reader that infers
// types from the first lines would otherwise take 0.5 for 0. Log-probs are the shortest decimals that read back to the
// same float32; rewards and advantages the shortest that read back to the same double.
import type { Failure, Row, RolloutRows } from "../rows/row.ts";

/** A finite double as JSON with a point or an exponent; `null` for null. */
export function formatDouble(value: number | null): string {
  if (value === null) return "null";
  return withPoint(Object.is(value, -0) ? "-0" : String(value));
}

const SMALLEST_NORMAL = 2 ** -126;

/** The shortest decimal that rounds to the same float32. Values that JSON cannot hold become `null`. */
export function formatFloat32(value: number): string {
  if (!Number.isFinite(value)) return "null";
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e6) return withPoint(String(Math.sign(value) * shortestOf(size)));
  // Six digits always survive a normal float32, so a shorter form shows itself here as trailing zeros.
  for (let digits = size < SMALLEST_NORMAL ? 1 : 6; digits < 9; digits++) {
    const decimal = Number(value.toPrecision(digits));
    if (Math.fround(decimal) === value) return withPoint(String(decimal));
  }
  return withPoint(String(Number(value.toPrecision(9))));
}

const POWERS: readonly number[] = Array.from({ length: 13 }, (_, exponent) => 10 ** exponent);
const DECADES: readonly number[] = [1e-3, 1e-2, 1e-1, 1, 1e1, 1e2, 1e3, 1e4, 1e5];

/**
 * The same without text, four times as fast, for float32 from 1e-4 to 1e6: a float32 (24 bits) times a power of ten up to
 * 10^12 (28 bits without its twos) is exact in a double, and the quotient is the double nearest to the decimal.
 */
function shortestOf(size: number): number {
  let places = 12;
  for (let decade = 0; decade < 9 && size >= (DECADES[decade] as number); decade++) places -= 1;
  let shortest = rounded(size, places);
  // Nine digits always read back; the first count of fewer that does not ends it.
  for (let fewer = 1; fewer <= 3; fewer++) {
    const decimal = rounded(size, places - fewer);
    if (Math.fround(decimal) !== size) break;
    shortest = decimal;
  }
  return shortest;
}

function rounded(size: number, places: number): number {
  const power = POWERS[places] as number;
  return Math.round(size * power) / power;
}

function withPoint(text: string): string {
  return /[.e]/.test(text) ? text : `${text}.0`;
}

export function formatFloat32s(values: Float32Array): string {
  let text = "";
  for (const value of values) {
    if (text !== "") text += ",";
    // Context positions are exactly zero: no need to look at each.
    text += value === 0 ? "0.0" : formatFloat32(value);
  }
  return `[${text}]`;
}

export function formatIntegers(values: Uint32Array | Uint8Array): string {
  return `[${values.join(",")}]`;
}

/** A row as one line, without the line end. Field order is part of the format's readability, not of its meaning. */
export function rowLine(row: Row): string {
  return object([
    ["type", '"row"'],
    ["row_id", text(row.rowId)],
    ["rollout_id", text(row.rolloutId)],
    ["group_id", text(row.groupId)],
    ["generation_index", String(row.generationIndex)],
    ["segment_index", String(row.segmentIndex)],
    ["segment_count", String(row.segmentCount)],
    ["reward", formatDouble(row.reward)],
    ["advantage", formatDouble(row.advantage)],
    ["row_trainable_tokens", String(row.rowTrainableTokens)],
    ["rollout_trainable_tokens", String(row.rolloutTrainableTokens)],
    ["trees_not_walked", String(row.treesNotWalked)],
    ["prompt_length", String(row.promptLength)],
    ["finish_reason", text(row.finishReason)],
    ["temperature", formatDouble(row.temperature)],
    ["logprobs_mode", text(row.logprobsMode)],
    ...(row.tokenWeight === null ? [] : [["token_weight", formatDouble(row.tokenWeight)] as const]),
    ["call_ids", JSON.stringify(row.callIds)],
    ["spans", `[${row.spans.map(spanJson).join(",")}]`],
    ["weight_versions", JSON.stringify(row.weightVersions)],
    ["token_ids", formatIntegers(row.tokenIds)],
    ["loss_mask", formatIntegers(row.lossMask)],
    ["logprobs", formatFloat32s(row.logprobs)],
  ]);
}

function spanJson(span: Row["spans"][number]): string {
  return object([
    ["call_id", text(span.callId)],
    ["start", String(span.start)],
    ["carried", String(span.carried)],
    ["generated", String(span.generated)],
    ["trained", String(span.trained)],
    ["temperature", formatDouble(span.temperature)],
  ]);
}

export function failureLine(failure: Failure): string {
  return object([
    ["type", '"failure"'],
    ["rollout_id", text(failure.rolloutId)],
    ["group_id", text(failure.groupId)],
    ["generation_index", String(failure.generationIndex)],
    ["reason", text(failure.reason)],
    ["detail", text(failure.detail)],
  ]);
}

/** All rows in the order of the rollouts, then all failures in that order. */
export function* rowLines(rollouts: Iterable<RolloutRows>): Generator<string> {
  const failures: Failure[] = [];
  for (const rollout of rollouts) {
    if (rollout.kind === "failure") failures.push(rollout.failure);
    else for (const row of rollout.rows) yield rowLine(row);
  }
  for (const failure of failures) yield failureLine(failure);
}

function text(value: string | null): string {
  return JSON.stringify(value);
}

export function object(fields: readonly (readonly [string, string])[]): string {
  return `{${fields.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(",")}}`;
}
