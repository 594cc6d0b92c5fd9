// Token ids and log-probs as engines tell them in JSON, read into typed arrays. What cannot be read is said in words
// and never mended: an id that is no unsigned 32-bit number, a list that is none.
import { isRecord } from "../lineage/message.ts";

export interface ToldIds {
  /** Null where none were told or they cannot be read. */
  readonly ids: Uint32Array | null;
  /** What could not be read. */
  readonly fault: string | null;
}

/** Ids of a JSON list; `name` is where it stood. Absent and null mean that none were told. */
export function readTokenIds(told: unknown, name: string): ToldIds {
  if (told === undefined || told === null) return { ids: null, fault: null };
  if (!Array.isArray(told)) return { ids: null, fault: `${name} is no list of token ids` };
  const ids = new Uint32Array(told as number[]);
  for (let index = 0; index < ids.length; index++) {
    // Storing wraps and coerces, so anything but an unsigned 32-bit number comes back as something else.
    if (ids[index] !== told[index]) {
      return {
        ids: null,
        fault: `${name}[${index}] is ${JSON.stringify(told[index])}, which is no token id`,
      };
    }
  }
  return { ids, fault: null };
}

/** The entries of `logprobs.content`, or null where there are none. */
export function logprobEntries(logprobs: unknown): readonly unknown[] | null {
  if (!isRecord(logprobs)) return null;
  const content = logprobs["content"];
  return Array.isArray(content) ? content : null;
}

/** The log-prob of one entry; NaN where it is no number. */
export function logprobOf(entry: unknown): number {
  const logprob = isRecord(entry) ? entry["logprob"] : null;
  return typeof logprob === "number" ? logprob : Number.NaN;
}

export function readLogprobs(logprobs: unknown): Float32Array | null {
  const entries = logprobEntries(logprobs);
  if (entries === null) return null;
  const told = new Float32Array(entries.length);
  for (let index = 0; index < told.length; index++) told[index] = logprobOf(entries[index]);
  return told;
}
