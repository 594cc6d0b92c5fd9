import { expect, test } from "vitest";
import { rolloutId } from "../lineage/call.ts";
import { byId, call, records } from "../lineage/testing/records.ts";
import { readTrace, recordsOf, rowsOfTrace, traceLines } from "./trace.ts";

test("a rollout with a call still in flight can be exported and read back, and the call stays unanswered", () => {
  const calls = records(
    call("c1", [1], [2], { admitted_at: 1, committed_at: 2 }),
    call("c2", [1, 2, 3], [], { admitted_at: 3, committed_at: null, status: "admitted" }),
  );
  const inFlight = calls.map((one) => (one.callId === "c2" ? { ...one, settledOrder: null } : one));
  const lines = [...traceLines({ rolloutId: rolloutId("r0"), calls: inFlight, outcome: null })];
  const trace = readTrace(lines.map((line) => JSON.parse(line) as unknown));
  const [rollout] = trace.rollouts;
  expect(byId(recordsOf(rollout as NonNullable<typeof rollout>), "c2").status).toBe("admitted");
});

test("errors name the line, the field, the value and what would be right", () => {
  const good = { type: "outcome", rollout_id: "r0", reward: 1, accepted: ["c1"] };
  expect(() => rowsOfTrace([{ ...good, reward: "1" }])).toThrow(/^line:1: reward is "1"; .*expected number/);
  expect(() => rowsOfTrace([good, { type: "note" }])).toThrow(
    /^line:2: type is "note"; it must be "call" or "outcome"/,
  );
  expect(() => rowsOfTrace([call("c1", [1.5], [2])])).toThrow(/^line:1: prompt_token_ids\.0 is 1\.5/);
  expect(() => rowsOfTrace([call("c1", [-1], [2])])).toThrow(/prompt_token_ids\.0 is -1/);
  expect(() => rowsOfTrace([call("c1", [1], [2], { admitted_at: 1 })])).toThrow(/call c1 .*committed_at/);
  expect(() => rowsOfTrace([good, { ...good, reward: 0 }])).toThrow(
    /^line:2: a second outcome of r0 differs/,
  );
  expect(() => rowsOfTrace([call("c1", [1], [2]), call("c1", [1], [2]), good])).toThrow(
    /two calls with call_id c1/,
  );
});

test("the same outcome twice is fine, and a rollout without one is refused at the end", () => {
  const outcome = { type: "outcome", rollout_id: "r0", reward: 1, accepted: ["c1"] };
  const lines = rowsOfTrace([
    { ...call("x", [1], [2]), rollout_id: "r1" },
    call("c1", [1], [2]),
    outcome,
    outcome,
  ]);
  expect(lines.map((line) => [line["type"], line["rollout_id"], line["reason"]])).toEqual([
    ["row", "r0", undefined],
    ["failure", "r1", "no_outcome"],
  ]);
});
