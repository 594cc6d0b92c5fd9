import { describe, expect, test } from "vitest";
import { rolloutId } from "../lineage/call.ts";
import { buildForest } from "../lineage/forest.ts";
import { call, records } from "../lineage/testing/records.ts";
import type { CallLine } from "../export/trace-format.ts";
import type { Outcome } from "./outcome.ts";
import { select } from "./select.ts";

function outcome(more: Partial<Outcome>): Outcome {
  return {
    rolloutId: rolloutId("r0"),
    groupId: null,
    generationIndex: null,
    reward: 1,
    accepted: null,
    final: null,
    failed: null,
    infer: false,
    ...more,
  };
}

function chains(lines: CallLine[], said: Partial<Outcome>): string[] | string {
  const selection = select(buildForest(records(...lines)), outcome(said));
  if (selection.kind === "refused") return `${selection.refusal.reason}: ${selection.refusal.detail}`;
  return selection.chains.map(({ calls, trained }) =>
    calls.map(({ callId }) => (trained.has(callId) ? callId : `(${callId})`)).join(" "),
  );
}

const user = (content: string) => ({ role: "user", content });
const assistant = (content: string) => ({ role: "assistant", content });

const LINE = [call("c1", [1], [2]), call("c2", [1, 2, 3], [4]), call("c3", [1, 2, 3, 4, 5], [6])];

describe("an accepted list", () => {
  test("is cut at each leaf, rows in the order in which leaves settled", () => {
    const fork = [...LINE, call("c4", [1, 2, 9], [8])];
    expect(chains(fork, { accepted: ["c1", "c4", "c2", "c3"] })).toEqual(["c1 c2 c3", "(c1) c4"]);
  });

  test("an accepted call in the middle without its ancestors trains alone", () => {
    expect(chains(LINE, { accepted: ["c2"] })).toEqual(["(c1) c2"]);
  });

  test("response ids and call ids mean the same", () => {
    expect(chains(LINE, { accepted: ["resp-c1", "c2"] })).toEqual(["c1 c2"]);
  });

  test("is refused at its first fault in list order, naming the index", () => {
    expect(chains(LINE, { accepted: ["c1", "x", "c1"] })).toMatch(
      /^unknown_reference: accepted\[1\] names x/,
    );
    expect(chains(LINE, { accepted: ["c1", "c1", "x"] })).toMatch(/^duplicate_reference: accepted\[1\]/);
    expect(chains(LINE, { accepted: ["resp-c1", "c1"] })).toMatch(
      /^duplicate_reference: accepted\[1\] names call c1/,
    );
  });

  test("an id that two calls carry is ambiguous", () => {
    const lines = [
      call("c1", [1], [2], { response_id: "same" }),
      call("c2", [9], [2], { response_id: "same" }),
    ];
    expect(chains(lines, { accepted: ["same"] })).toMatch(/^ambiguous_reference: accepted\[0\].*c1, c2/);
  });

  test("that is empty is nothing_accepted, whatever else is said", () => {
    expect(chains(LINE, { accepted: [], final: "nobody", infer: true })).toMatch(/^nothing_accepted/);
  });

  test("proves itself: an answer that was not recorded elsewhere does not refuse it", () => {
    const lines = [...LINE, call("c4", [], [], { status: "unknown" })];
    expect(chains(lines, { accepted: ["c1"] })).toEqual(["c1"]);
    expect(chains(lines, { final: "c1" })).toMatch(/^capture_incomplete: the answer of call c4/);
  });

  test("with an untrainable, failed or unknown call is capture_incomplete and names it", () => {
    const untrainable = [call("c1", [1], [2], { untrainable: "3 ids, 2 log-probs" })];
    expect(chains(untrainable, { accepted: ["c1"] })).toBe(
      "capture_incomplete: call c1 must train and is untrainable: 3 ids, 2 log-probs",
    );
    const failed = [call("c1", [], [], { status: "failed", status_detail: "engine 500" })];
    expect(chains(failed, { accepted: ["c1"] })).toBe(
      "capture_incomplete: call c1 must train and is failed (engine 500)",
    );
  });

  test("an aborted call trains where it is named", () => {
    const lines = [call("c1", [1], [2, 3], { status: "aborted" }), call("c2", [1, 2, 3, 4], [5])];
    expect(chains(lines, { accepted: ["c1", "c2"] })).toEqual(["c1 c2"]);
    expect(chains(lines, { final: "c2" })).toEqual(["(c1) c2"]);
    expect(chains(lines, { final: "c1" })).toEqual(["c1"]);
  });
});

describe("a final response", () => {
  test("must be the last of the list where both are given", () => {
    expect(chains(LINE, { accepted: ["c1", "c2"], final: "c2" })).toEqual(["c1 c2"]);
    expect(chains(LINE, { accepted: ["c1", "c2"], final: "c1" })).toMatch(/^witness_disagreement/);
    expect(chains(LINE, { accepted: ["c1"], final: "x" })).toMatch(/^unknown_reference: final/);
    expect(chains(LINE, { accepted: ["y"], final: "x" })).toMatch(/^unknown_reference: accepted\[0\]/);
  });

  test("with an untrainable call on its walk is refused", () => {
    const lines = [call("c1", [1], [2], { untrainable: "why" }), call("c2", [1, 2, 3], [4])];
    expect(chains(lines, { final: "c2" })).toMatch(/^capture_incomplete: call c1/);
  });
});

describe("nothing said", () => {
  test("is no_outcome, a failed agent says so itself, and no calls are no_calls", () => {
    expect(chains(LINE, {})).toMatch(/^no_outcome/);
    expect(chains(LINE, { failed: "gave up" })).toBe("failed_by_agent: gave up");
    expect(chains([], { accepted: ["c1"] })).toMatch(/^no_calls/);
  });
});

describe("inferring", () => {
  test("a single line is kept whole", () => {
    expect(chains(LINE, { infer: true })).toEqual(["c1 c2 c3"]);
  });

  test("drops a childless sibling only if it settled before the other was admitted", () => {
    const retried = [call("c1", [1], [2]), call("c2", [1, 2, 3], [4]), call("c3", [1, 2, 3], [5])];
    expect(chains(retried, { infer: true })).toEqual(["c1 c3"]);
    const overlapping = [
      call("c1", [1], [2], { admitted_at: 0, committed_at: 1 }),
      call("c2", [1, 2, 3], [4], { admitted_at: 2, committed_at: 5 }),
      call("c3", [1, 2, 3], [5], { admitted_at: 3, committed_at: 4 }),
    ];
    expect(chains(overlapping, { infer: true })).toMatch(/^ambiguous: 1 trees with 2 leaves/);
  });

  test("rllm 795: a title call is recorded and never inferred as kept", () => {
    const lines = [...LINE, call("c4", [70], [71], { class: "title" })];
    expect(chains(lines, { infer: true })).toEqual(["c1 c2 c3"]);
    expect(chains([...LINE, call("c4", [70], [71])], { infer: true })).toMatch(/^ambiguous: 2 trees/);
  });

  test("miles 1826: a dropped first request asked again leaves the second, and what follows it", () => {
    const messages = [user("p")];
    const lines = [
      call("c1", [1], [2], { status: "aborted", messages, answer: assistant("half") }),
      call("c2", [1], [3], { messages, answer: assistant("whole") }),
      call("c3", [1, 3, 4], [5], { messages: [...messages, assistant("whole"), user("u2")] }),
    ];
    expect(chains(lines, { infer: true })).toEqual(["c2 c3"]);
  });

  test("a rewrite leaves two trees: ambiguous, not guessed", () => {
    expect(chains([...LINE, call("c4", [1, 99], [6])], { infer: true })).toMatch(/^ambiguous/);
  });

  test("one leaf that was aborted is refused, since nobody named it", () => {
    expect(chains([call("c1", [1], [2], { status: "aborted" })], { infer: true })).toMatch(
      /^ambiguous: .*aborted/,
    );
  });
});

describe("matching by content", () => {
  const conversation = [
    call("c1", [1], [2], { messages: [user("a")], answer: assistant("yes") }),
    call("c2", [1, 2, 3], [2], {
      messages: [user("a"), assistant("yes"), user("b")],
      answer: assistant("yes"),
    }),
  ];

  test("an item together with the items before it names one call", () => {
    const item = {
      item: { type: "message", role: "assistant", content: [{ type: "output_text", text: "yes" }] },
    };
    expect(chains(conversation, { accepted: [item, item] })).toEqual(["c1 c2"]);
    expect(chains(conversation, { accepted: [item] })).toEqual(["c1"]);
  });

  test("Gym 2676: the same text in two calls that differ is ambiguous; twins are not", () => {
    const item = { item: assistant("yes") };
    const differ = [
      call("c1", [1], [2], { messages: [user("a")], answer: assistant("yes") }),
      call("c2", [1], [7, 8], { messages: [user("a")], answer: assistant("yes") }),
    ];
    expect(chains(differ, { accepted: [item] })).toMatch(/^ambiguous_reference: accepted\[0\].*c1, c2/);
    const twins = [
      differ[0] as CallLine,
      { ...(differ[0] as CallLine), call_id: "c2", response_id: "resp-c2" },
    ];
    expect(chains(twins, { accepted: [item] })).toEqual(["c2"]);
  });

  test("a final response alone is matched by its content, wherever it stands, if that is unique", () => {
    const talk = [
      call("c1", [1], [2], { messages: [user("a")], answer: assistant("yes") }),
      call("c2", [1, 2, 3], [4], {
        messages: [user("a"), assistant("yes"), user("b")],
        answer: assistant("no"),
      }),
    ];
    expect(chains(talk, { final: { item: assistant("no") } })).toEqual(["c1 c2"]);
    expect(chains(conversation, { final: { item: assistant("yes") } })).toMatch(
      /^ambiguous_reference: final/,
    );
  });

  test("an id never yields to content", () => {
    expect(chains(conversation, { accepted: [{ item: { ...assistant("yes"), id: "other" } }] })).toMatch(
      /^unknown_reference/,
    );
  });

  test("tool calls are compared by their parsed arguments", () => {
    const toolCall = (text: string) => ({
      role: "assistant",
      content: null,
      tool_calls: [{ id: "t1", type: "function", function: { name: "read", arguments: text } }],
    });
    const lines = [
      call("c1", [1], [2], { messages: [user("a")], answer: toolCall('{"path":  "x", "n": 1.0}') }),
    ];
    expect(chains(lines, { accepted: [{ item: toolCall('{"n":1,"path":"x"}') }] })).toEqual(["c1"]);
    const item = { type: "function_call", call_id: "t1", name: "read", arguments: '{"n":1,"path":"x"}' };
    expect(chains(lines, { accepted: [{ item }] })).toEqual(["c1"]);
    expect(chains(lines, { accepted: [{ item: { ...item, arguments: '{"n":2,"path":"x"}' } }] })).toMatch(
      /^unknown_reference/,
    );
  });

  test("where only tokens are kept, content is refused rather than guessed", () => {
    expect(chains(LINE, { accepted: [{ item: assistant("yes") }] })).toMatch(/answers were not kept/);
  });
});

test("prime-rl 2975: an answer shared by two kept leaves trains in the first row only", () => {
  const lines = [...LINE.slice(0, 2), call("c3", [1, 2, 3, 4, 5], [6]), call("c4", [1, 2, 3, 4, 7], [8])];
  expect(chains(lines, { accepted: ["c2", "c3", "c4"] })).toEqual(["(c1) c2 c3", "(c1) (c2) c4"]);
});

test("verl 5375: a chain, its summary call and a chain that starts from the summary are three rows", () => {
  const lines = [
    ...LINE,
    call("c4", [50, 51], [60]),
    call("c5", [1, 60], [61]),
    call("c6", [1, 60, 61, 5], [62]),
  ];
  expect(chains(lines, { accepted: ["c1", "c2", "c3", "c4", "c5", "c6"] })).toEqual([
    "c1 c2 c3",
    "c4",
    "c5 c6",
  ]);
});
