// What the demo's agent works on. A task says what the agent sees before each call and which answers it throws away;
// it never sees the gateway. `workedExample` is the documentation's: made-up words, so that each row can be read off
// token by token. `runningTotal` is for a real model: add seven numbers, one at a time.
import type { EveryActionsOptions, RequestFields } from "../agent/index.ts";

export const ACTIONS = 7;

/** Actions whose first answer is thrown away. */
const REJECTED_ONCE: ReadonlySet<number> = new Set([4, 6]);

export interface DemoTask {
  readonly system: string | null;
  readonly task: string;
  readonly request: RequestFields;
  /** How the view looks right after a compaction. */
  readonly compaction: EveryActionsOptions;
  /** What the agent sees before its `call`-th call (from 1), which is for its `action`-th action; null for nothing. */
  observe(action: number, call: number): string | null;
  /** Hears each accepted answer. */
  act(action: number, text: string): void;
  reward(): number;
}

export function isRejected(action: number, attempt: number): boolean {
  return attempt === 1 && REJECTED_ONCE.has(action);
}

/** Call i carries the words of tokens 10i and 10i+1; the stand-in counts its answers by user and seed. */
export function workedExample(user: string, seed: number): DemoTask {
  return {
    system: null,
    task: "t10 t11",
    request: { user, seed },
    compaction: {},
    observe: (_action, call) => (call === 1 ? null : `t${10 * call} t${10 * call + 1}`),
    act: () => undefined,
    reward: () => 1,
  };
}

const NUMBERS: readonly number[] = [7, 5, 12, 9, 4, 16, 8];

/** The reward is the share of totals that were right; the environment puts a wrong total right and goes on. */
export function runningTotal(): DemoTask {
  const totalAfter = (actions: number): number =>
    NUMBERS.slice(0, actions).reduce((sum, number) => sum + number, 0);
  let right = 0;
  let verdict = "";
  let done = 0;
  return {
    system: "You keep a running total. Answer each message with the new total and nothing else.",
    task: `The total is 0. Add ${NUMBERS[0]}.`,
    request: { temperature: 1, max_tokens: 32 },
    compaction: {
      keep: "observation",
      summary: () => `The total after ${done} numbers is ${totalAfter(done)}.`,
    },
    observe: (action) => (action === 1 ? null : `${verdict} Add ${NUMBERS[action - 1]}.`.trim()),
    act(action, text) {
      const total = totalAfter(action);
      const said = /-?\d+(?!.*\d)/s.exec(text)?.[0];
      const isRight = Number(said) === total;
      if (isRight) right += 1;
      verdict = isRight ? "Right." : `No, the total is ${total}.`;
      done = action;
    },
    reward: () => right / ACTIONS,
  };
}
