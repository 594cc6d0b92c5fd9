// What trainers need of a row and a row may lack: an advantage, a reward, integer weight versions, a temperature, a
// response. Each need is met or refused with the row's id, the field, its value and what would be right.
import { createHash } from "node:crypto";
import { CoppiceError } from "../../errors.ts";
import type { Row } from "../../rows/row.ts";

const LARGEST_INT32 = 0x7fff_ffff;

function refuse(row: Row, shape: string, field: string, problem: string): never {
  throw new CoppiceError("invalid_request", `row ${row.rowId}: ${problem} (shape ${shape})`, {
    param: field,
    detail: { row_id: row.rowId, shape },
  });
}

export function neededAdvantage(row: Row, shape: string): number {
  return (
    row.advantage ??
    refuse(
      row,
      shape,
      "advantage",
      "advantage is null; its group must be complete with a reward on each rollout, and --advantage not none",
    )
  );
}

export function neededReward(row: Row, shape: string): number {
  return (
    row.reward ??
    refuse(row, shape, "reward", "reward is null; post it with the outcome, the trainer computes with it")
  );
}

/** Weight versions of the trained tokens as integers, smallest and largest; null where one is not an integer. */
export function versionRange(row: Row): { readonly oldest: number; readonly newest: number } | null {
  const versions = row.weightVersions
    .filter(({ start, end }) => row.lossMask.subarray(start, end).includes(1))
    .map(({ version }) => (/^\d{1,15}$/.test(version) ? Number(version) : Number.NaN));
  if (versions.length === 0 || versions.some((version) => Number.isNaN(version))) return null;
  return { oldest: Math.min(...versions), newest: Math.max(...versions) };
}

export function neededVersions(
  row: Row,
  shape: string,
): { readonly oldest: number; readonly newest: number } {
  const range = versionRange(row);
  if (range !== null) return range;
  // A padding row trains nothing, so nothing of it can be stale.
  if (row.rowTrainableTokens === 0) return { oldest: LARGEST_INT32, newest: LARGEST_INT32 };
  const told = [...new Set(row.weightVersions.map(({ version }) => version))];
  return refuse(
    row,
    shape,
    "weight_versions",
    `weight versions are ${JSON.stringify(told)}; the trainer needs integers such as "12"`,
  );
}

/** Where the response begins: all after the root's carried tokens. Trainers need a token on both sides. */
export function responseStart(row: Row, shape: string): number {
  const { promptLength, tokenIds } = row;
  if (promptLength < 1 || promptLength >= tokenIds.length) {
    refuse(
      row,
      shape,
      "prompt_length",
      `prompt_length is ${promptLength} of ${tokenIds.length} tokens; the trainer needs at least one token on both sides`,
    );
  }
  return promptLength;
}

/** Throws for a token id that a signed 32-bit integer cannot hold: wrapped round, it would be another token. */
export function int32Tokens(row: Row, shape: string): Uint32Array {
  const at = row.tokenIds.findIndex((id) => id > LARGEST_INT32);
  if (at >= 0) {
    refuse(
      row,
      shape,
      "token_ids",
      `token id ${row.tokenIds[at]} at position ${at} is above ${LARGEST_INT32}, the largest of the trainer's 32-bit integers`,
    );
  }
  return row.tokenIds;
}

/**
 * By position: the temperature at which the next token is predicted, as a trainer divides logits by it. Context has its
 * call's, or a trained call's where its own is unknown; a padding row has 1.
 */
export function temperatures(row: Row, shape: string): Float64Array {
  const trained = row.spans.filter((span) => span.trained);
  const context = trained.find(({ temperature }) => temperature !== null)?.temperature ?? Number.NaN;
  const values = new Float64Array(row.tokenIds.length).fill(trained.length === 0 ? 1 : context);
  for (const { start, carried, generated, trained: trains, temperature } of row.spans) {
    const value = temperature ?? (trains ? Number.NaN : context);
    // From the token before it: without carried tokens that one belongs to the call before.
    values.fill(value, Math.max(carried === 0 ? start - 1 : start, 0), start + carried + generated);
  }
  const at = values.findIndex((value) => Number.isNaN(value));
  if (at >= 0) {
    refuse(
      row,
      shape,
      "temperature",
      `the temperature at position ${at} is unknown; the trainer divides logits by it, so the calls must say it`,
    );
  }
  return values;
}

/** A name as a non-negative integer below 2^48, the same in every run: for trainers whose ids are integers. */
export function integerOf(name: string): number {
  return createHash("sha256").update(name).digest().readUIntBE(0, 6);
}

/** One number, at trained positions only, as `advantage * mask`. */
export function onTrained(row: Row, value: number, start: number): Float32Array {
  return Float32Array.from(row.lossMask.subarray(start), (mask) => value * mask);
}
