// Seeded mutations of JSON values, bytes and headers: what a broken or hostile client or engine might write. The same
// seed gives the same mutations, so that a failure can be played again.

/** mulberry32: https://gist.github.com/tommyettinger/46a874533244883189143505d203312c */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to and without 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  below(end: number): number {
    return Math.floor(this.next() * end);
  }

  oneIn(chances: number): boolean {
    return this.below(chances) === 0;
  }

  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)] as T;
  }
}

const ODD_VALUES: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1e308,
  0.1,
  2 ** 53,
  "",
  " ",
  "\u0000",
  "\uD800",
  "\uFFFD\u{1F600}",
  "__proto__",
  "constructor",
  "-Infinity",
  "x".repeat(3_000),
  [],
  {},
  [[]],
  [null],
  { type: "text" },
  { role: "assistant" },
  { __proto__: null, toString: 1 },
];

const ODD_KEYS = [
  "__proto__",
  "constructor",
  "",
  "role",
  "content",
  "type",
  "tool_calls",
  "id",
  "index",
  "n",
  "stop",
];

/** A copy with one to four places changed. */
export function mutateJson(value: unknown, dice: Dice): unknown {
  let mutated = value;
  for (let times = 1 + dice.below(4); times > 0; times--) mutated = mutateOnce(mutated, dice, 0);
  return mutated;
}

function mutateOnce(value: unknown, dice: Dice, depth: number): unknown {
  if (Array.isArray(value)) return mutateList(value, dice, depth);
  if (typeof value === "object" && value !== null) return mutateRecord(value, dice, depth);
  if (typeof value === "string" && dice.oneIn(2)) return mutateText(value, dice);
  if (typeof value === "number" && dice.oneIn(2))
    return dice.pick([-value, value + 0.5, value * 1e9, String(value)]);
  return dice.pick(ODD_VALUES);
}

function mutateList(list: readonly unknown[], dice: Dice, depth: number): unknown {
  if (list.length === 0 || (depth > 0 && dice.oneIn(8))) return dice.pick(ODD_VALUES);
  const at = dice.below(list.length);
  switch (dice.below(6)) {
    case 0:
      return list.toSpliced(at, 1);
    case 1:
      return list.toSpliced(at, 0, list[at]);
    case 2:
      return list.toSpliced(at, 0, dice.pick(ODD_VALUES));
    case 3:
      return [...list].reverse();
    default:
      return list.with(at, mutateOnce(list[at], dice, depth + 1));
  }
}

function mutateRecord(record: object, dice: Dice, depth: number): unknown {
  const entries = Object.entries(record);
  if (entries.length === 0 || (depth > 0 && dice.oneIn(10))) return dice.pick(ODD_VALUES);
  const at = dice.below(entries.length);
  const [key, value] = entries[at] as [string, unknown];
  switch (dice.below(8)) {
    case 0:
      return Object.fromEntries(entries.toSpliced(at, 1));
    case 1:
      return Object.fromEntries([...entries, [dice.pick(ODD_KEYS), dice.pick(ODD_VALUES)]]);
    case 2:
      return Object.fromEntries(entries.with(at, [dice.pick(ODD_KEYS), value]));
    case 3:
      return Object.fromEntries(entries.with(at, [key, dice.pick(ODD_VALUES)]));
    default:
      return Object.fromEntries(entries.with(at, [key, mutateOnce(value, dice, depth + 1)]));
  }
}

function mutateText(text: string, dice: Dice): string {
  const at = dice.below(text.length + 1);
  return dice.pick([
    text.slice(0, at),
    text.slice(at),
    text + text,
    `${text.slice(0, at)}${dice.pick(["\u0000", "\uD83D", "\n\n", "data: ", '"', "}", "世"])}${text.slice(at)}`,
  ]);
}

/** A copy with a few bytes changed, taken out, put in or doubled; sometimes cut. */
export function mutateBytes(bytes: Buffer, dice: Dice): Buffer {
  let mutated = bytes;
  for (let times = 1 + dice.below(3); times > 0; times--) {
    const at = dice.below(mutated.length + 1);
    const length = dice.below(40);
    const [before, after] = [mutated.subarray(0, at), mutated.subarray(at)];
    switch (dice.below(6)) {
      case 0:
        mutated = before;
        break;
      case 1:
        mutated = Buffer.concat([before, after.subarray(length)]);
        break;
      case 2:
        mutated = Buffer.concat([before, after.subarray(0, length), after]);
        break;
      case 3:
        mutated = Buffer.concat([before, Buffer.from(dice.pick(ODD_PIECES)), after]);
        break;
      default:
        mutated = Buffer.from(mutated);
        for (let index = at; index < Math.min(at + 3, mutated.length); index++)
          mutated[index] = dice.below(256);
    }
  }
  return mutated;
}

const ODD_PIECES = [
  "\n\n",
  "\r\n\r\n",
  "data: ",
  "data: [DONE]\n\n",
  "data: {}\n\n",
  'data: {"choices":[]}\n\n',
  'data: {"error":{"message":"x"}}\n\n',
  ": comment\n\n",
  "event: error\n",
  "\uFEFF",
  "NaN",
  "-Infinity",
  "1e999",
  "null",
  "[[[[",
  '"token_ids":[4294967296]',
  '"finish_reason":"stop",',
];
