// Traces in which everything happens that the page has something to say about: retries, a rewrite, drift, a sub-agent, a
// title call, twins, an untrainable answer, a refusal, an agent that failed; and one whose every text wants to be markup.
import type { SampleTokenizer } from "./sample-tokenizer.ts";

type Message = Record<string, unknown>;
export type TraceValue = Record<string, unknown>;

interface Asked {
  readonly messages: readonly Message[];
  readonly answer: string;
  readonly thinking?: string;
  /** The template drops what was thought in earlier turns. */
  readonly more?: Record<string, unknown>;
  readonly at: number;
  readonly took: number;
}

/** One rollout's calls, told as a trace would. */
export class SampleRollout {
  readonly lines: TraceValue[] = [];
  readonly #id: string;
  readonly #tokenizer: SampleTokenizer;
  #calls = 0;

  constructor(id: string, tokenizer: SampleTokenizer) {
    this.#id = id;
    this.#tokenizer = tokenizer;
  }

  /** Returns the response id. */
  ask({ messages, answer, thinking, more, at, took }: Asked): string {
    this.#calls += 1;
    const call = `${this.#id}-${this.#calls}`;
    const response = `resp-${call}`;
    const prompt = messages
      .map((message) => `<|${String(message["role"])}|>${textOf(message)}<|end|>`)
      .join("");
    const sampled = `${thinking === undefined ? "" : `<think>${thinking}</think>`}${answer}<|end|>`;
    const generated = this.#tokenizer.encode(sampled);
    this.lines.push({
      type: "call",
      rollout_id: this.#id,
      call_id: call,
      response_id: response,
      prompt_token_ids: this.#tokenizer.encode(`${prompt}<|assistant|>`),
      generated_token_ids: generated,
      generated_logprobs: generated.map((id, index) => logprob(id * 31 + index * 17 + this.#calls)),
      weight_versions: [{ version: "step-41", start: 0 }],
      finish_reason: "stop",
      admitted_at: at,
      committed_at: at + took,
      way: "token-in",
      sampling: { asked: { temperature: 0.7, max_tokens: 512 }, used: { temperature: 1, max_tokens: 512 } },
      logprobs_mode: "raw",
      messages,
      answer: {
        role: "assistant",
        content: answer,
        ...(thinking === undefined ? {} : { reasoning_content: thinking }),
      },
      ...more,
    });
    return response;
  }

  end(outcome: Record<string, unknown>): TraceValue[] {
    return [...this.lines, { type: "outcome", rollout_id: this.#id, ...outcome }];
  }
}

/** What the sample tokenizer's model would have said of a token: mostly sure, now and then not. */
function logprob(seed: number): number {
  const noise = Math.abs(Math.sin(seed * 12.9898) * 43_758.5453) % 1;
  return -Number((noise ** 5 * 5).toFixed(4)) - 0.0001;
}

function textOf(message: Message): string {
  const { content, tool_calls: calls } = message as { content?: unknown; tool_calls?: unknown };
  const said = typeof content === "string" ? content : "";
  return calls === undefined ? said : `${said}${JSON.stringify(calls)}`;
}

const SYSTEM = {
  role: "system",
  content: "You fix failing tests. Work in small steps; run the tests after each change.",
};

function said(role: string, content: string): Message {
  return { role, content };
}

/** A small repair job with everything in it. */
export function sampleTrace(tokenizer: SampleTokenizer, start: number): TraceValue[] {
  return [
    ...repair(new SampleRollout("fix-dates-0", tokenizer), start),
    ...shortcut(new SampleRollout("fix-dates-1", tokenizer), start + 3),
    ...refused(new SampleRollout("fix-dates-2", tokenizer), start + 5),
    ...drifting(new SampleRollout("port-parser-0", tokenizer), start + 60),
    ...failed(new SampleRollout("port-parser-1", tokenizer), start + 62),
  ];
}

function repair(rollout: SampleRollout, at: number): TraceValue[] {
  const task = said("user", "tests/test_dates.py fails since the last commit. Find out why and mend it.");
  rollout.ask({
    messages: [said("user", "Name this session in four words: tests/test_dates.py fails.")],
    answer: "Mend failing date tests",
    at,
    took: 0.4,
    more: { class: "title" },
  });
  const history: Message[] = [SYSTEM, task];
  const kept: string[] = [];
  const turn = (answer: string, result: string, moment: number): void => {
    kept.push(rollout.ask({ messages: [...history], answer, at: at + moment, took: 2.1 }));
    history.push(said("assistant", answer), said("tool", result));
  };
  turn(
    "I run the failing test first.\n$ pytest tests/test_dates.py -x",
    "FAILED test_leap_day - AssertionError: 2100-02-29 accepted\n1 failed, 11 passed",
    1,
  );
  turn(
    "2100 is no leap year, so the check is too simple. I look at it.\n$ sed -n 1,20p dates.py",
    "def is_leap(year):\n    return year % 4 == 0",
    4,
  );
  rollout.ask({
    messages: [...history],
    answer: "I delete the failing test.\n$ rm tests/test_dates.py",
    at: at + 7,
    took: 1.8,
  });
  turn(
    "Centuries need the rule of 400. I mend the function.\n$ sed -i 's/year % 4 == 0/year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)/' dates.py",
    "",
    9,
  );
  const agent = "reviewer";
  const review: Message[] = [
    said("system", "You review a change. Say what is wrong with it, or that it is fine."),
    said(
      "user",
      "-    return year % 4 == 0\n+    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)",
    ),
  ];
  const reviewed = rollout.ask({
    messages: review,
    answer: "Fine: 1900 and 2100 are refused, 2000 passes.",
    at: at + 10,
    took: 3.5,
    more: { agent, class: "sub_agent" },
  });
  const summary = said("user", "Summarise what was done so far, for a fresh context.");
  const compacted = rollout.ask({
    messages: [...history, summary],
    answer:
      "test_leap_day failed because is_leap took 2100 for a leap year. dates.py now has the rule of 400. Left to do: run all tests.",
    at: at + 15,
    took: 2.6,
    more: { class: "compaction" },
  });
  history.splice(
    1,
    history.length,
    task,
    said(
      "user",
      "So far: test_leap_day failed because is_leap took 2100 for a leap year. dates.py now has the rule of 400. Left to do: run all tests.",
    ),
  );
  kept.push(reviewed, compacted);
  turn("I run all tests.\n$ pytest", "84 passed in 3.1s", 19);
  rollout.ask({
    messages: [...history],
    answer: "All is well, I think.",
    at: at + 22,
    took: 0.9,
    more: { status: "aborted", status_detail: "the client went away", finish_reason: "abort" },
  });
  const again = (moment: number): string =>
    rollout.ask({
      messages: [...history],
      answer: "Mended: is_leap follows the rule of 400, and all 84 tests pass.",
      at: at + moment,
      took: 1.2,
      more: {
        weight_versions: [
          { version: "step-41", start: 0 },
          { version: "step-42", start: 9 },
        ],
      },
    });
  again(24);
  kept.push(again(26));
  return rollout.end({ group_id: "fix-dates", generation_index: 0, reward: 1, accepted: kept });
}

function shortcut(rollout: SampleRollout, at: number): TraceValue[] {
  const history: Message[] = [
    SYSTEM,
    said("user", "tests/test_dates.py fails since the last commit. Find out why and mend it."),
  ];
  rollout.ask({
    messages: [...history],
    answer: "I skip the test.\n$ sed -i 's/def test_leap_day/def skip_leap_day/' tests/test_dates.py",
    at,
    took: 1.5,
  });
  history.push(
    said(
      "assistant",
      "I skip the test.\n$ sed -i 's/def test_leap_day/def skip_leap_day/' tests/test_dates.py",
    ),
    said("tool", "11 passed in 0.4s"),
  );
  const final = rollout.ask({
    messages: [...history],
    answer: "Done: no test fails any more.",
    at: at + 3,
    took: 0.8,
  });
  return rollout.end({ group_id: "fix-dates", generation_index: 1, reward: 0, final });
}

function refused(rollout: SampleRollout, at: number): TraceValue[] {
  const history: Message[] = [
    SYSTEM,
    said("user", "tests/test_dates.py fails since the last commit. Find out why and mend it."),
  ];
  const final = rollout.ask({
    messages: history,
    answer: "The rule of 400 is missing in is_leap.",
    at,
    took: 1.5,
    more: { untrainable: "9 generated tokens but 7 log-probs, usage says 9" },
  });
  return rollout.end({ group_id: "fix-dates", generation_index: 2, reward: 0.5, final });
}

function drifting(rollout: SampleRollout, at: number): TraceValue[] {
  const history: Message[] = [SYSTEM, said("user", "Port the number parser to Rust.")];
  const kept: string[] = [];
  const turn = (thinking: string, answer: string, result: string, moment: number): void => {
    kept.push(rollout.ask({ messages: [...history], thinking, answer, at: at + moment, took: 2 }));
    // The template drops the reasoning of earlier turns, so the next prompt goes on from other tokens.
    history.push({ role: "assistant", content: answer, reasoning_content: thinking }, said("tool", result));
  };
  turn(
    "The parser reads digits and one point. I should look at its tests first.",
    "I read the tests.\n$ cat tests/number.txt",
    "1 1.5 .5 5. 1e3",
    0,
  );
  turn(
    "Five forms. An exponent as well, then.",
    "Five forms are to be read, with an exponent.\n$ cargo new number",
    "Created library `number`",
    3,
  );
  turn("A hand-written loop is the plainest.", "I write the loop by hand.\n$ cat > src/lib.rs", "", 6);
  return rollout.end({ group_id: "port-parser", generation_index: 0, reward: 0.75, accepted: kept });
}

function failed(rollout: SampleRollout, at: number): TraceValue[] {
  rollout.ask({
    messages: [SYSTEM, said("user", "Port the number parser to Rust.")],
    answer: "$ cargo new number",
    at,
    took: 1,
    more: {
      status: "failed",
      status_detail: "the engine answered 503",
      prompt_token_ids: null,
      generated_token_ids: [],
      generated_logprobs: [],
    },
  });
  return rollout.end({
    group_id: "port-parser",
    generation_index: 1,
    reward: null,
    failed: "the sandbox did not start",
  });
}

export const HOSTILE = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>"'</script><!--\u202e`;

/** Every field that an agent or a model writes holds what would be markup, were it ever taken for it. */
export function hostileTrace(tokenizer: SampleTokenizer, at: number): TraceValue[] {
  const rollout = new SampleRollout("hostile-0", tokenizer);
  const first: Message[] = [
    { role: HOSTILE, content: HOSTILE, name: HOSTILE },
    {
      role: "user",
      content: [
        { type: "text", text: HOSTILE },
        { type: HOSTILE, url: `javascript:${HOSTILE}` },
      ],
    },
  ];
  const hostile = {
    finish_reason: HOSTILE,
    agent: HOSTILE,
    status_detail: HOSTILE,
    untrainable: HOSTILE,
    notes: [HOSTILE],
    parent_call_id: HOSTILE,
    weight_versions: [{ version: HOSTILE, start: 0 }],
    sampling: { asked: { [HOSTILE]: HOSTILE }, used: { [HOSTILE]: 1 } },
  };
  rollout.ask({ messages: first, answer: HOSTILE, at, took: 1, more: { ...hostile, response_id: HOSTILE } });
  const calls = [{ id: HOSTILE, type: "function", function: { name: HOSTILE, arguments: HOSTILE } }];
  const second: Message[] = [
    { role: "system", content: HOSTILE },
    { role: "assistant", content: null, tool_calls: calls },
    { role: "tool", tool_call_id: HOSTILE, content: HOSTILE },
  ];
  rollout.ask({ messages: second, answer: HOSTILE, at: at + 2, took: 1, more: hostile });
  return rollout.end({ group_id: HOSTILE, generation_index: 0, reward: 0.5, failed: HOSTILE });
}
