// Imports: logs of other recorders make the same rows as the trace of the same calls, and what lacks ids is refused with
// the reason, its rollout left out whole.
import { describe, expect, test } from "vitest";
import { importedLines, importLog, refusalError, type ImportSource } from "./import-log.ts";
import { rowsOfTrace } from "./trace.ts";

type Json = Record<string, unknown>;

/** Two turns of one conversation, in which the second prompt starts with all of the first. */
const TURNS = [
  { prompt: [10, 11], generated: [1001, 1002], logprobs: [-0.25, -0.5] },
  { prompt: [10, 11, 1001, 1002, 20], generated: [1003], logprobs: [-0.1] },
] as const;

const MESSAGES: Json[] = [
  { role: "user", content: "task" },
  { role: "assistant", content: "one" },
  { role: "user", content: "go on" },
];

function answer(turn: number, change: Json = {}): Json {
  const { prompt, generated, logprobs } = TURNS[turn] as (typeof TURNS)[number];
  const content = logprobs.map((logprob, index) => ({ token: `token_id:${generated[index]}`, logprob }));
  const message = { role: "assistant", content: turn === 0 ? "one" : "two" };
  return {
    id: `resp-${turn}`,
    prompt_token_ids: prompt,
    choices: [
      { index: 0, token_ids: generated, logprobs: { content }, finish_reason: "stop", message, ...change },
    ],
  };
}

function request(turn: number): Json {
  return { temperature: 0.7, messages: MESSAGES.slice(0, 2 * turn + 1) };
}

function rowsOf(source: ImportSource): Json[] {
  const lines = [...importedLines(importLog(source))].map((line) => JSON.parse(line) as unknown);
  return rowsOfTrace(lines);
}

const WHOLE = {
  type: "row",
  token_ids: [10, 11, 1001, 1002, 20, 1003],
  loss_mask: [0, 0, 1, 1, 0, 1],
  logprobs: [0, 0, -0.25, -0.5, 0, -0.1],
  reward: 1,
};

describe("the same two calls", () => {
  test("as an OpenAI-style log of requests and answers", () => {
    const values = [0, 1].map((turn) => ({
      rollout_id: "r",
      request: request(turn),
      response: answer(turn),
    }));
    const outcomes = [{ type: "outcome", rollout_id: "r", reward: 1, accepted: ["resp-0", "resp-1"] }];
    const [row] = rowsOf({ kind: "openai", values, outcomes, logprobsMode: "raw" });
    expect(row).toMatchObject({
      ...WHOLE,
      temperature: 0.7,
      logprobs_mode: "raw",
      call_ids: ["resp-0", "resp-1"],
    });
  });

  test("as an OpenAI batch file, whose custom_id is the rollout", () => {
    const values = [0, 1].map((turn) => ({
      custom_id: "r",
      response: { status_code: 200, body: answer(turn, { token_ids: null }) },
    }));
    const outcomes = [{ type: "outcome", rollout_id: "r", reward: 1, final: "resp-1" }];
    expect(rowsOf({ kind: "openai", values, outcomes })).toMatchObject([WHOLE]);
  });

  test("as agent-lightning events, whole and trimmed to triplets", () => {
    const whole = [0, 1].map((turn) => ({
      event_type: "model_request",
      rollout_id: "r",
      attempt_id: "0",
      timestamp: turn,
      data: { model: "m", model_version: 3, request: request(turn), response: answer(turn), status: "ok" },
    }));
    const triplets = TURNS.map(({ prompt, generated, logprobs }, turn) => ({
      event_type: "model_request",
      rollout_id: "r",
      attempt_id: "0",
      timestamp: turn,
      data: {
        prompt_token_ids: prompt,
        response_token_ids: generated,
        response_log_probs: logprobs,
        server: { model: "m", version: 3 },
      },
    }));
    const reward = {
      event_type: "reward",
      rollout_id: "r",
      attempt_id: "0",
      timestamp: 2,
      data: { value: 1 },
    };
    for (const values of [[...whole, reward], [[...triplets, reward]]]) {
      const rows = rowsOf({ kind: "agent-lightning", values });
      expect(rows).toMatchObject([{ ...WHOLE, weight_versions: [{ version: "3" }, { version: "3" }] }]);
    }
  });

  test("as NeMo Gym's captured calls, with the parent that Gym resolved", () => {
    const values = TURNS.map(({ prompt, generated, logprobs }, turn) => ({
      schema_version: 3,
      rollout_id: "r",
      model_call_id: `call-${turn}`,
      prompt_token_ids: prompt,
      generation_token_ids: generated,
      generation_log_probs: logprobs,
      response_id: `resp-${turn}`,
      parent_call_id: turn === 0 ? null : "call-0",
      parent_resolution: turn === 0 ? "root" : "resolved",
      output_items: [],
    }));
    const outcomes = [{ type: "outcome", rollout_id: "r", reward: 1, accepted: ["resp-0", "call-1"] }];
    expect(rowsOf({ kind: "nemo-gym", values, outcomes })).toMatchObject([WHOLE]);
  });

  test("as a trace of ours come out as a ledger would write them", () => {
    const values = TURNS.map(({ prompt, generated, logprobs }, turn) => ({
      type: "call",
      rollout_id: "r",
      call_id: `c${turn}`,
      prompt_token_ids: prompt,
      generated_token_ids: generated,
      generated_logprobs: logprobs,
    }));
    const outcome = { type: "outcome", rollout_id: "r", reward: 1, accepted: ["c0", "c1"] };
    expect(rowsOf({ kind: "coppice", values: [...values, outcome] })).toMatchObject([WHOLE]);
    const again = [...importedLines(importLog({ kind: "coppice", values: [...values, outcome] }))];
    const twice = importLog({ kind: "coppice", values: again.map((line) => JSON.parse(line) as unknown) });
    expect([...importedLines(twice)]).toEqual(again);
  });
});

describe("what cannot be imported", () => {
  const good = { rollout_id: "good", response: answer(0) };
  const cases: readonly (readonly [string, Json, string])[] = [
    [
      "no prompt ids",
      { rollout_id: "bad", response: { ...answer(1), prompt_token_ids: null } },
      "the answer has no prompt_token_ids",
    ],
    [
      "no generated ids",
      { rollout_id: "bad", response: answer(1, { token_ids: null, logprobs: null }) },
      "the answer has no token_ids",
    ],
    ["an answer without choices", { rollout_id: "bad", response: { error: "500" } }, "the answer's choices"],
  ];
  for (const [what, bad, reason] of cases) {
    test(`${what}: the rollout is left out whole, with line and reason`, () => {
      const values = [good, { rollout_id: "bad", response: answer(0) }, bad];
      const imported = importLog({ kind: "openai", values });
      expect(imported.refused).toMatchObject([{ rolloutId: "bad", line: 3 }]);
      expect(imported.refused[0]?.reason).toContain(reason);
      expect(imported.trace.rollouts.map(({ rolloutId }) => rolloutId)).toEqual(["good"]);
      expect(refusalError(imported, "log.jsonl").message).toContain(
        `log.jsonl:3: rollout bad can't be imported: ${reason}`,
      );
    });
  }

  test("a line without a rollout is named, and --rollout gives it one", () => {
    const values = [{ response: answer(0) }];
    expect(importLog({ kind: "openai", values }).refused).toMatchObject([{ line: 1, rolloutId: "unknown" }]);
    expect(importLog({ kind: "openai", values, rolloutId: "mine" }).trace.rollouts[0]?.rolloutId).toBe(
      "mine",
    );
  });

  test("a NeMo Gym record of a newer schema is refused: its fields may mean something else", () => {
    const entry = {
      schema_version: 4,
      rollout_id: "r",
      model_call_id: "c",
      prompt_token_ids: [1],
      generation_token_ids: [2],
      generation_log_probs: [-0.1],
    };
    expect(importLog({ kind: "nemo-gym", values: [entry] }).refused[0]?.reason).toContain(
      "schema_version is 4",
    );
  });

  test("an agent-lightning request without ids refuses its rollout; a failed one is no fault", () => {
    const event = (data: Json): Json => ({
      event_type: "model_request",
      rollout_id: "r",
      attempt_id: "0",
      data,
    });
    const blind = event({ response: { id: "x", choices: [{ message: { content: "hi" } }] } });
    expect(importLog({ kind: "agent-lightning", values: [blind] }).refused).toHaveLength(1);
    const failed = event({ status: "error", http_status: 500 });
    const first = event({ response: answer(0) });
    const imported = importLog({ kind: "agent-lightning", values: [failed, first] });
    expect(imported.refused).toEqual([]);
    expect(imported.trace.rollouts[0]?.lines).toMatchObject([{ status: "failed" }, { call_id: "resp-0" }]);
  });
});

test("answers of several choices are calls of their own", () => {
  const two = answer(0);
  const [choice] = two["choices"] as Json[];
  const response = { ...two, choices: [choice, { ...choice, index: 1, token_ids: [1005, 1006] }] };
  const imported = importLog({ kind: "openai", values: [{ rollout_id: "r", response }] });
  expect(imported.trace.rollouts[0]?.lines.map(({ call_id }) => call_id)).toEqual(["resp-0:0", "resp-0:1"]);
});

test("an earlier attempt of agent-lightning gives nothing", () => {
  const event = (attempt: string, turn: number): Json => ({
    event_type: "model_request",
    rollout_id: "r",
    attempt_id: attempt,
    data: { response: answer(turn) },
  });
  const imported = importLog({ kind: "agent-lightning", values: [event("0", 1), event("1", 0)] });
  expect(imported.trace.rollouts[0]?.lines.map(({ call_id }) => call_id)).toEqual(["resp-0"]);
});

test("without outcomes the rollouts are named, and `infer` gives them one", () => {
  const values = [{ rollout_id: "r", response: answer(0) }];
  expect(importLog({ kind: "openai", values }).withoutOutcome).toEqual(["r"]);
  expect(rowsOf({ kind: "openai", values })).toMatchObject([{ type: "failure", reason: "no_outcome" }]);
  expect(importLog({ kind: "openai", values, infer: true }).withoutOutcome).toEqual([]);
  expect(rowsOf({ kind: "openai", values, infer: true })).toMatchObject([
    { type: "row", token_ids: [10, 11, 1001, 1002] },
  ]);
});

test("an answer without log-probs stays a call that may be context and never trains", () => {
  const values = [
    { rollout_id: "r", response: answer(0, { logprobs: null }) },
    { rollout_id: "r", response: answer(1) },
  ];
  const accepted = (...ids: string[]): Json[] => [
    { type: "outcome", rollout_id: "r", reward: 1, accepted: ids },
  ];
  expect(rowsOf({ kind: "openai", values, outcomes: accepted("resp-1") })).toMatchObject([
    { type: "row", loss_mask: [0, 0, 0, 0, 0, 1] },
  ]);
  expect(rowsOf({ kind: "openai", values, outcomes: accepted("resp-0", "resp-1") })).toMatchObject([
    { type: "failure", reason: "capture_incomplete" },
  ]);
});
