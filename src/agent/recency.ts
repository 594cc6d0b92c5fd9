// The policy that keeps the first and the newest of what was done and leaves out the middle; images are counted apart.
import type { ChatMessage } from "./chat-client.ts";
import { imageCount, withoutImages } from "./images.ts";
import { wholeFromOne, wholeFromZero } from "./numbers.ts";
import type { Policy } from "./policy.ts";
import { always, type Schedule } from "./schedule.ts";
import { unitsOf } from "./units.ts";

export interface RecencyOptions {
  /** Actions kept from the start, with what was seen after them; 0 by default. */
  readonly first?: number;
  /** Actions kept from the end. The newest observation belongs to the last of them. */
  readonly last: number;
  /** The newest images that are kept; in place of older ones stands a note. By default all. */
  readonly images?: number;
  /** By default always: the window slides with each action, and each action is a tree of its own once it is full. */
  readonly when?: Schedule;
}

/**
 * Keeps system message, task, the first k and the last n actions, each with its tool calls' results.
 * Throws `invalid_argument` unless `last` is a whole number from 1 up and the others are from 0 up.
 */
export function recency(options: number | RecencyOptions): Policy {
  const {
    first = 0,
    last,
    images,
    when = always(),
  } = typeof options === "number" ? { last: options } : options;
  wholeFromZero("recency.first", first);
  wholeFromOne("recency.last", last);
  if (images !== undefined) wholeFromZero("recency.images", images);
  return async (input) => {
    const { continued, head } = input;
    if (!(await when(input))) return continued;
    const { head: kept, units } = unitsOf(continued, head);
    const cut = units.length > first + last;
    const view = cut ? [...kept, ...units.slice(0, first).flat(), ...units.slice(-last).flat()] : continued;
    return images === undefined ? view : keepImages(view, images);
  };
}

/** The newest n images stay. A message stands or falls whole: its images are of one moment. */
export function keepImages(view: readonly ChatMessage[], n: number): readonly ChatMessage[] {
  if (view.reduce((sum, message) => sum + imageCount(message), 0) <= n) return view;
  let left = n;
  const kept: ChatMessage[] = [];
  for (const message of view.toReversed()) {
    const count = imageCount(message);
    const fits = count <= left;
    kept.push(fits ? message : withoutImages(message));
    left = fits ? left - count : 0;
  }
  return kept.reverse();
}
