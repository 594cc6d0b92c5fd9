import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatDouble, formatFloat32, rowLine } from "../export/json-lines.ts";
import { rowsOfTrace } from "../export/trace.ts";
import { rolloutId, type Call } from "../lineage/call.ts";
import { digestCall } from "../lineage/record-digest.ts";
import { call, records } from "../lineage/testing/records.ts";
import type { Outcome } from "../selection/outcome.ts";
import { advantagesOf } from "./group.ts";
import { rowsOfRollout } from "./rollout-rows.ts";
import type { Row } from "./row.ts";

const LINES = [
  call("c1", [1, 2], [3, 4]),
  call("c2", [1, 2, 3, 4, 5], [6], { weight_versions: [{ version: "4", start: 0 }] }),
  call("c3", [1, 2, 3, 4, 7], [8]),
];

function build(calls: readonly Call[], accepted: string[] = ["c1", "c2"], refusal?: "deadline") {
  const outcome: Outcome = {
    rolloutId: rolloutId("r0"),
    groupId: "g",
    generationIndex: 0,
    reward: 1,
    accepted,
    final: null,
    failed: null,
    infer: false,
  };
  return rowsOfRollout({
    rolloutId: rolloutId("r0"),
    calls,
    outcome,
    groupId: "g",
    generationIndex: 0,
    ...(refusal === undefined ? {} : { refusal: { reason: refusal, detail: "passed" } }),
  });
}

function rowsOf(calls: readonly Call[], accepted?: string[]): readonly Row[] {
  const built = build(calls, accepted);
  if (built.kind === "failure") throw new Error(built.failure.detail);
  return built.rows;
}

function reasonOf(calls: readonly Call[]): string {
  const built = build(calls);
  return built.kind === "failure" ? `${built.failure.reason}: ${built.failure.detail}` : "rows";
}

/** A record whose field was changed and whose digest was made to match: only the deeper checks can find it. */
function forged(calls: readonly Call[], id: string, change: Partial<Call>): Call[] {
  return calls.map((one) => {
    if (one.callId !== id) return one;
    const changed = { ...one, ...change };
    return { ...changed, digest: digestCall(changed) };
  });
}

describe("checking the records of a rollout", () => {
  test("one changed bit in a rejected call refuses the whole rollout and names the call", () => {
    const calls = records(...LINES);
    const bad = calls.map((one) =>
      one.callId === "c3" ? { ...one, generatedTokenIds: Uint32Array.of(9) } : one,
    );
    expect(reasonOf(bad)).toBe("corrupt_record: call c3: its digest does not match its fields");
  });

  test("tokens that do not join to the address, a missing parent, and a wrong length are found behind a right digest", () => {
    const calls = records(...LINES);
    expect(reasonOf(forged(calls, "c2", { carriedTokenIds: Uint32Array.of(9) }))).toMatch(
      /address does not match/,
    );
    expect(reasonOf(calls.filter((one) => one.callId !== "c1"))).toMatch(
      /corrupt_record: call c2: its parent c1 is missing/,
    );
    expect(reasonOf(forged(calls, "c2", { generatedLength: 2 }))).toMatch(/another length/);
    expect(reasonOf(forged(calls, "c1", { generatedLogprobs: new Float32Array(1) }))).toMatch(
      /1 log-probs for 2 tokens/,
    );
    expect(reasonOf(forged(calls, "c1", { settledOrder: 50 }))).toMatch(/settled after it was admitted/);
  });

  test("a corrupt record comes before a passed deadline and before what the agent said", () => {
    const calls = records(...LINES);
    const bad = calls.map((one) => (one.callId === "c1" ? { ...one, finishReason: "length" } : one));
    const built = build(bad, [], "deadline");
    expect(built.kind === "failure" && built.failure.reason).toBe("corrupt_record");
    const late = build(calls, ["c1"], "deadline");
    expect(late.kind === "failure" && late.failure.reason).toBe("deadline");
  });
});

describe("a row", () => {
  test("SkyRL 1492, mlx-lm-lora 80: position i of mask and log-probs belongs to token i, unshifted", () => {
    const [row] = rowsOf(records(...LINES));
    expect([...(row?.tokenIds ?? [])]).toEqual([1, 2, 3, 4, 5, 6]);
    expect([...(row?.lossMask ?? [])]).toEqual([0, 0, 1, 1, 0, 1]);
    expect([...(row?.logprobs ?? [])]).toEqual([0, 0, -0.25, -0.5, 0, -0.25]);
    expect(row?.promptLength).toBe(2);
  });

  test("tells its calls and weight versions as spans from its own start", () => {
    const [row] = rowsOf(records(...LINES));
    expect(
      row?.spans.map(({ callId, start, carried, generated, trained }) => [
        callId,
        start,
        carried,
        generated,
        trained,
      ]),
    ).toEqual([
      ["c1", 0, 2, 2, true],
      ["c2", 4, 1, 1, true],
    ]);
    expect(row?.weightVersions).toEqual([
      { version: "3", start: 2, end: 4 },
      { version: "4", start: 5, end: 6 },
    ]);
  });

  test("vllm 54443, slime 1514: weights that change at token 40 of 100 are two spans; none told is `unknown`", () => {
    const generated = Array.from({ length: 100 }, (_, index) => 1000 + index);
    const changed = call("c1", [1, 2], generated, {
      weight_versions: [
        { version: "7", start: 0 },
        { version: "8", start: 40 },
      ],
    });
    const [row] = rowsOf(records(changed), ["c1"]);
    expect(row?.weightVersions).toEqual([
      { version: "7", start: 2, end: 42 },
      { version: "8", start: 42, end: 102 },
    ]);
    const { weight_version: _none, ...silent } = call("c1", [1], [2]);
    expect(rowsOf(records(silent), ["c1"])[0]?.weightVersions[0]?.version).toBe("unknown");
  });

  test("trl 4159: carries the temperature and the log-probs' convention, null where its calls differ", () => {
    const same = records(call("c1", [1], [2], { temperature: 0.7, logprobs_mode: "raw" }));
    expect(rowsOf(same, ["c1"])[0]).toMatchObject({ temperature: 0.7, logprobsMode: "raw" });
    const mixed = records(
      call("c1", [1], [2], { temperature: 0.7, logprobs_mode: "raw" }),
      call("c2", [1, 2], [3], { temperature: 1, logprobs_mode: "processed" }),
    );
    const [row] = rowsOf(mixed);
    expect(row).toMatchObject({ temperature: null, logprobsMode: null });
    expect(row?.spans.map((span) => span.temperature)).toEqual([0.7, 1]);
  });

  test("agentcore 104: a long prompt is never cut", () => {
    const prompt = Array.from({ length: 50_000 }, (_, index) => index);
    const [row] = rowsOf(records(call("c1", prompt, [7])), ["c1"]);
    expect(row?.tokenIds.length).toBe(50_001);
    expect(row?.promptLength).toBe(50_000);
  });

  test("labs-molt 131: a row goes by ids alone, whether the turn-end id was sampled or not", () => {
    const stopped = rowsOf(records(call("c1", [1], [5, 2])), ["c1"])[0];
    const cut = rowsOf(records(call("c1", [1], [5], { finish_reason: "length" })), ["c1"])[0];
    expect([[...(stopped?.tokenIds ?? [])], [...(cut?.tokenIds ?? [])]]).toEqual([
      [1, 5, 2],
      [1, 5],
    ]);
    expect(cut?.finishReason).toBe("length");
  });

  test("without a trainable token is left out, and a rollout of only such rows is refused", () => {
    const lines = [call("c1", [1], [2]), call("c2", [9], [], { status: "aborted" })];
    expect(rowsOf(records(...lines), ["c1", "c2"])).toHaveLength(1);
    expect(build(records(...lines), ["c2"])).toMatchObject({ failure: { reason: "no_trainable_tokens" } });
  });
});

describe("groups", () => {
  const rollout = (id: string, index: number, reward: number, accepted: string[] | null) => [
    { ...call(`${id}-1`, [1], [2]), rollout_id: id },
    { ...call(`${id}-2`, [9], [2]), rollout_id: id },
    { ...call(`${id}-3`, [8], [2]), rollout_id: id },
    { type: "outcome", rollout_id: id, group_id: "g", generation_index: index, reward, accepted },
  ];

  test("agent-lightning 593: with weights for `rollout` each rollout weighs the same, however many rows it has", () => {
    const trace = [...rollout("a", 0, 1, ["a-1", "a-2", "a-3"]), ...rollout("b", 1, 0, ["b-1"])];
    const rows = rowsOfTrace(trace, { weights: "rollout" });
    const weights = new Map<unknown, number>();
    for (const row of rows) {
      const trained = (row["loss_mask"] as number[]).filter((mask) => mask === 1).length;
      weights.set(
        row["rollout_id"],
        (weights.get(row["rollout_id"]) ?? 0) + trained * (row["token_weight"] as number),
      );
    }
    expect(rows).toHaveLength(4);
    expect([...weights.values()]).toEqual([1, 1]);
    expect(rows.map((row) => row["advantage"])).toEqual([0.5, 0.5, 0.5, -0.5]);
    expect(rowsOfTrace(trace, { weights: "token" }).every((row) => row["token_weight"] === 1)).toBe(true);
  });

  test("NeMo RL 3589: a failed rollout is one failure record and stays out of the mean", () => {
    const trace = [
      ...rollout("a", 0, 1, ["a-1"]),
      ...rollout("b", 1, 0, ["b-1"]),
      ...rollout("c", 2, 0, ["nobody"]),
      ...rollout("d", 3, 0.5, ["d-1"]),
    ];
    const lines = rowsOfTrace(trace);
    expect(lines.filter((line) => line["type"] === "row").map((line) => line["advantage"])).toEqual([
      0.5, -0.5, 0,
    ]);
    expect(lines.filter((line) => line["type"] === "failure")).toMatchObject([
      { rollout_id: "c", group_id: "g", generation_index: 2, reason: "unknown_reference" },
    ]);
  });

  test("AReaL 1419: equal rewards give advantage 0 in every kind, and nothing is divided by zero", () => {
    for (const kind of ["mean", "mean_std", "leave_one_out"] as const) {
      expect(advantagesOf([0.1, 0.1, 0.1], kind)).toEqual([0, 0, 0]);
      expect(advantagesOf([7], kind)).toEqual([0]);
      expect(advantagesOf([], kind)).toEqual([]);
    }
  });

  test("the four advantages", () => {
    expect(advantagesOf([1, 0, 0.5], "mean")).toEqual([0.5, -0.5, 0]);
    expect(advantagesOf([1, 0, 0.5], "leave_one_out")).toEqual([0.75, -0.75, 0]);
    expect(advantagesOf([1, 0], "mean_std")[0]).toBeCloseTo(0.5 / (Math.SQRT1_2 + 1e-6), 12);
    expect(advantagesOf([1, 0], "none")).toEqual([null, null]);
    expect(advantagesOf([1, null], "mean")).toEqual([null, null]);
  });

  test("two rollouts with one group and index are refused as input", () => {
    const trace = [...rollout("a", 0, 1, ["a-1"]), ...rollout("b", 0, 0, ["b-1"])];
    expect(() => rowsOfTrace(trace)).toThrow(/rollouts a and b both have generation_index 0 of group g/);
  });
});

describe("rows as text", () => {
  test("floats always have a point or an exponent", () => {
    expect([1, 0, -0, 0.5, 1e21, -1e-7, 123456789].map(formatDouble)).toEqual([
      "1.0",
      "0.0",
      "-0.0",
      "0.5",
      "1e+21",
      "-1e-7",
      "123456789.0",
    ]);
    const row = rowsOf(records(...LINES))[0] as Row;
    expect(rowLine({ ...row, reward: 1, advantage: 0 })).toMatch(/"reward":1\.0,"advantage":0\.0,/);
    expect(rowLine(row)).toMatch(/"logprobs":\[0\.0,0\.0,-0\.25,-0\.5,0\.0,-0\.25\]/);
  });

  test("a log-prob is the shortest decimal that reads back to the same float32", () => {
    fc.assert(
      fc.property(fc.float({ noNaN: true, noDefaultInfinity: true }), (value) => {
        const text = formatFloat32(value);
        expect(Math.fround(Number(text))).toBe(value);
        const digits = text
          .replace(/e.*/, "")
          .replaceAll(/[-.]/g, "")
          .replace(/^0+/, "")
          .replace(/0+$/, "").length;
        for (let fewer = 1; fewer < digits; fewer++) {
          expect(Math.fround(Number(value.toPrecision(fewer)))).not.toBe(value);
        }
      }),
    );
    expect(formatFloat32(Math.fround(0.1))).toBe("0.1");
  });
});
