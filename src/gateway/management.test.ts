import { describe, expect, test } from "vitest";
import type { z } from "zod";
import { answers } from "./management-schemas.ts";
import {
  errorOf,
  eventually,
  messageOfAnswer,
  startUnderTest,
  type Answered,
  type Json,
  type UnderTest,
} from "./testing/gateway-under-test.ts";

function matches(schema: z.ZodType, answered: Answered): void {
  const parsed = schema.safeParse(answered.json);
  expect(parsed.error?.issues ?? []).toEqual([]);
}

/** A conversation of so many turns; gives the response ids. */
async function converse(
  under: UnderTest,
  rollout: string,
  turns: number,
  fields: Json = {},
): Promise<string[]> {
  const messages: Json[] = [{ role: "user", content: `task of ${rollout}` }];
  const ids: string[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const answered = await under.chat(rollout, messages, fields);
    ids.push(String(answered.json["id"]));
    messages.push(messageOfAnswer(answered), { role: "user", content: ` turn ${turn}` });
  }
  return ids;
}

function rowsIn(answered: Answered): Json[] {
  return answered.text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Json);
}

describe("opening", () => {
  test("says what the rollout is, and says the same again", async () => {
    const under = await startUnderTest();
    const fields = {
      group_id: "g",
      group_size: 2,
      generation_index: 1,
      sampling: { temperature: 1 },
      deadline_s: 60,
      tags: { task: "x" },
    };
    const first = await under.send("PUT", "/rollouts/r1", fields);
    expect(first.status).toBe(200);
    matches(answers.openedRollout, first);
    expect(first.json).toMatchObject({
      rollout_id: "r1",
      attempt: 1,
      state: "open",
      ...omit(fields, "deadline_s"),
    });
    expect((first.json["deadline_at"] as number) - (first.json["opened_at"] as number)).toBeCloseTo(60, 3);
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect((await under.send("PUT", "/rollouts/r1", fields)).json).toEqual(first.json);
    expect((await under.send("PUT", "/rollouts/r1", { ...fields, group_size: 3 })).status).toBe(409);
  });

  test("two rollouts with one group and index is a 409 that names the other", async () => {
    const under = await startUnderTest();
    await under.send("PUT", "/rollouts/r1", { group_id: "g", generation_index: 0 });
    const taken = await under.send("PUT", "/rollouts/r2", { group_id: "g", generation_index: 0 });
    expect(taken.status).toBe(409);
    expect(errorOf(taken)["message"]).toContain("r1");
  });

  test("a new attempt begins only by opening", async () => {
    const under = await startUnderTest();
    const [id] = await converse(under, "r1", 1);
    await under.send("POST", "/rollouts/r1/outcome", { reward: 1, final: id });
    expect((await under.send("PUT", "/rollouts/r1", {})).status).toBe(409);
    const next = await under.send("PUT", "/rollouts/r1", { attempt: 2 });
    expect(next.json).toMatchObject({ attempt: 2, state: "open", counts: { admitted: 0 } });
  });

  test.each([
    [{ group_size: 0 }, "group_size"],
    [{ group_size: "4" }, "group_size"],
    [{ generation_index: -1 }, "generation_index"],
    [{ generation_index: 1.5 }, "generation_index"],
    [{ group_id: "a b" }, "group_id"],
    [{ deadline_s: -1 }, "deadline_s"],
    [{ tags: { a: 1 } }, "tags.a"],
    [{ sampling: { model: "other" } }, "sampling.model"],
    [{ group: "g" }, "group"],
    [{ rollout_id: "r2" }, "rollout_id"],
  ])("%j is a 400 that names the field", async (body, param) => {
    const under = await startUnderTest();
    const answered = await under.send("PUT", "/rollouts/r1", body);
    expect(answered.status).toBe(400);
    expect(errorOf(answered)).toMatchObject({ type: "invalid_request_error", param });
    expect((await under.send("GET", "/rollouts/r1")).status).toBe(404);
  });

  test.each(["a b", "x".repeat(201), "ü", "a/b"])("%s is no id", async (id) => {
    const under = await startUnderTest();
    const answered = await under.send("PUT", `/rollouts/${encodeURIComponent(id)}`, {});
    expect(answered.status).toBe(400);
    expect(errorOf(answered)["param"]).toBe("rollout_id");
  });

  test("an id may hold what ids hold, written plainly or encoded", async () => {
    const under = await startUnderTest();
    const id = "run-1:task@7+a.b_c";
    await under.send("PUT", `/rollouts/${encodeURIComponent(id)}`, {});
    await under.chat(id, "hello");
    expect((await under.send("GET", `/rollouts/${id}`)).json).toMatchObject({
      rollout_id: id,
      counts: { committed: 1 },
    });
  });
});

describe("reading", () => {
  test("a rollout tells its state, counts and calls", async () => {
    const under = await startUnderTest();
    await converse(under, "r1", 3);
    await under.chat("r1", "@@fault:http500@@");
    const read = await under.send("GET", "/rollouts/r1");
    matches(answers.rolloutWithCalls, read);
    expect(read.json).toMatchObject({
      state: "open",
      counts: { admitted: 4, committed: 3, failed: 1, aborted: 0, unknown: 0, late: 0 },
      alarms: [],
      drifts: 0,
    });
    const calls = read.json["calls"] as Json[];
    expect(calls.map((call) => call["status"])).toEqual(["committed", "committed", "committed", "failed"]);
    expect(calls[1]?.["parent_call_id"]).toBe(calls[0]?.["call_id"]);
    expect(Object.keys(calls[0] as Json)).toEqual(
      expect.arrayContaining([
        "call_id",
        "response_id",
        "parent_call_id",
        "root_reason",
        "status",
        "way",
        "agent",
        "class",
        "carried_tokens",
        "generated_tokens",
        "finish_reason",
        "untrainable",
      ]),
    );
  });

  test("four calls that are four roots are an alarm, and drifts are counted", async () => {
    const under = await startUnderTest({ standIn: { drift: true } });
    await converse(under, "drifting", 4, { max_tokens: 6 });
    const drifting = await under.send("GET", "/rollouts/drifting");
    expect(drifting.json).toMatchObject({ alarms: ["n_calls_n_roots"], drifts: 3 });
    expect((drifting.json["calls"] as Json[])[1]).toMatchObject({
      root_reason: "drift",
      drift: { index: expect.any(Number) as number },
    });
    await converse(under, "short", 3, { max_tokens: 6 });
    expect((await under.send("GET", "/rollouts/short")).json["alarms"]).toEqual([]);
  });

  test("a call is told with its tokens, exactly", async () => {
    const under = await startUnderTest();
    await converse(under, "r1", 2);
    const [first, second] = await under.calls("r1");
    const read = await under.send("GET", `/calls/${second?.callId}`);
    matches(answers.call, read);
    const sequence = await under.ledger.sequence(second?.callId as never);
    expect([
      ...(read.json["prompt_token_ids"] as number[]),
      ...(read.json["generated_token_ids"] as number[]),
    ]).toEqual([...(sequence ?? [])]);
    expect(Float32Array.from(read.json["generated_logprobs"] as number[])).toEqual(second?.generatedLogprobs);
    expect(read.json).toMatchObject({
      parent_call_id: first?.callId,
      digest: second?.digest,
      rollout_id: "r1",
    });
    expect((await under.send("GET", "/calls/call-nobody")).status).toBe(404);
  });

  test("lists filter by group and state", async () => {
    const under = await startUnderTest();
    for (const [id, group] of [
      ["a", "g1"],
      ["b", "g1"],
      ["c", "g2"],
    ] as const) {
      await under.send("PUT", `/rollouts/${id}`, { group_id: group });
    }
    await under.send("POST", "/rollouts/b/outcome", { failed: "gave up" });
    const list = async (query: string): Promise<unknown[]> => {
      const answered = await under.send("GET", `/rollouts${query}`);
      matches(answers.rollouts, answered);
      return (answered.json["rollouts"] as Json[]).map((rollout) => rollout["rollout_id"]);
    };
    expect(await list("")).toEqual(["a", "b", "c"]);
    expect(await list("?group_id=g1")).toEqual(["a", "b"]);
    expect(await list("?group_id=g1&state=open")).toEqual(["a"]);
    expect(await list("?state=sealed")).toEqual(["b"]);
    expect(await list("?limit=1")).toHaveLength(1);
    expect(errorOf(await under.send("GET", "/rollouts?state=ajar"))["param"]).toBe("state");
  });

  test.each(["/rollouts/nobody", "/rollouts/nobody/rows", "/groups/nobody/rows", "/nothing/here"])(
    "%s is a 404 in the OpenAI shape",
    async (path) => {
      const under = await startUnderTest();
      const answered = await under.send("GET", path);
      expect(answered.status).toBe(404);
      expect(errorOf(answered)).toMatchObject({ type: "not_found_error", code: "not_found" });
    },
  );
});

describe("the outcome", () => {
  test("seals, tells that there is no refusal, and is the same again", async () => {
    const under = await startUnderTest();
    const ids = await converse(under, "r1", 3);
    const outcome = { reward: 1, accepted: ids, group_id: "g", generation_index: 0 };
    const sealed = await under.send("POST", "/rollouts/r1/outcome", outcome);
    matches(answers.sealedRollout, sealed);
    expect(sealed).toMatchObject({
      status: 200,
      json: { state: "sealed", refusal: null, group_id: "g", outcome: { reward: 1, accepted: ids } },
    });
    expect((await under.send("POST", "/rollouts/r1/outcome", outcome)).json).toEqual(sealed.json);
    const other = await under.send("POST", "/rollouts/r1/outcome", { ...outcome, accepted: ids.slice(1) });
    expect(other.status).toBe(409);
    expect((await under.send("POST", "/rollouts/r1/outcome", { ...outcome, reward: 0 })).status).toBe(409);
  });

  test("may be an outcome line of a trace, as it is", async () => {
    const under = await startUnderTest();
    const [id] = await converse(under, "r1", 1);
    const line = {
      type: "outcome",
      rollout_id: "r1",
      group_id: "g",
      generation_index: 0,
      reward: 0.5,
      final: id,
    };
    expect((await under.send("POST", "/rollouts/r1/outcome", line)).status).toBe(200);
    expect((await under.send("POST", "/rollouts/r1/outcome", { ...line, rollout_id: "r2" })).status).toBe(
      400,
    );
  });

  test("a missing reward may be added once", async () => {
    const under = await startUnderTest();
    const ids = await converse(under, "r1", 1);
    await under.send("POST", "/rollouts/r1/outcome", { accepted: ids });
    expect((await under.send("POST", "/rollouts/r1/outcome", { accepted: ids, reward: 2 })).status).toBe(200);
    expect((await under.send("POST", "/rollouts/r1/outcome", { accepted: ids, reward: 3 })).status).toBe(409);
  });

  test("whose references fail is a 422 with reason and index, and the rollout stays open to be corrected", async () => {
    const under = await startUnderTest();
    const [one, two] = (await converse(under, "r1", 2)) as [string, string];
    const faults: readonly (readonly [Json, string, number | null, string])[] = [
      [{ accepted: [one, "nobody"] }, "unknown_reference", 1, "accepted[1]"],
      [{ accepted: [one, two, one] }, "duplicate_reference", 2, "accepted[2]"],
      [{ final: "nobody" }, "unknown_reference", null, "final"],
      [{ accepted: [one, two], final: one }, "witness_disagreement", null, "final"],
      [
        { accepted: [{ role: "assistant", content: "nothing of this kind" }] },
        "unknown_reference",
        0,
        "accepted[0]",
      ],
    ];
    for (const [outcome, reason, index, param] of faults) {
      const answered = await under.send("POST", "/rollouts/r1/outcome", { reward: 1, ...outcome });
      expect(answered.status).toBe(422);
      expect(errorOf(answered)).toMatchObject({ code: reason, param, detail: { reason, index } });
    }
    expect((await under.send("GET", "/rollouts/r1")).json["state"]).toBe("open");
    const corrected = await under.send("POST", "/rollouts/r1/outcome", { reward: 1, accepted: [one, two] });
    expect(corrected).toMatchObject({ status: 200, json: { state: "sealed", refusal: null } });
  });

  test("two answers of one content that are no twins are ambiguous by content, and stay so until they are named (Gym 2676)", async () => {
    const answer = { content: "same" };
    const under = await startUnderTest({ standIn: { script: () => ({ kind: "answer", answer }) } });
    await under.chat("r1", "one");
    const second = await under.chat("r1", "two");
    const byContent = await under.send("POST", "/rollouts/r1/outcome", {
      final: { role: "assistant", content: "same" },
    });
    expect(errorOf(byContent)).toMatchObject({ code: "ambiguous_reference" });
    expect((await under.send("POST", "/rollouts/r1/outcome", { final: second.json["id"] })).status).toBe(200);
  });

  test.each([
    [{ accepted: [] }, "nothing_accepted"],
    [{ failed: "the sandbox died" }, "failed_by_agent"],
  ])("%j seals all the same, and the answer tells the refusal", async (outcome, reason) => {
    const under = await startUnderTest();
    await converse(under, "r1", 1);
    const answered = await under.send("POST", "/rollouts/r1/outcome", outcome);
    expect(answered).toMatchObject({ status: 200, json: { state: "sealed", refusal: { reason } } });
    expect((await under.send("GET", "/metrics")).text).toContain(
      `coppice_refusals_total{reason="${reason}"} 1\n`,
    );
  });

  test.each([{}, { reward: 1 }, { infer: false, accepted: null }])(
    "%j says nothing of what was kept: 422 no_outcome, and the rollout stays open to be told",
    async (outcome) => {
      const under = await startUnderTest();
      const ids = await converse(under, "r1", 1);
      const refused = await under.send("POST", "/rollouts/r1/outcome", outcome);
      expect(refused.status).toBe(422);
      expect(errorOf(refused)).toMatchObject({ code: "no_outcome" });
      expect((await under.send("POST", "/rollouts/r1/outcome", { accepted: ids, reward: 1 })).status).toBe(
        200,
      );
    },
  );

  test("a reward that comes alone, later, is added to what was told", async () => {
    const under = await startUnderTest();
    const ids = await converse(under, "r1", 1);
    await under.send("POST", "/rollouts/r1/outcome", { accepted: ids });
    const later = await under.send("POST", "/rollouts/r1/outcome", { reward: 0.5 });
    expect(later).toMatchObject({ status: 200, json: { outcome: { reward: 0.5, accepted: ids } } });
    expect((await under.send("POST", "/rollouts/r1/outcome", { reward: 0.6 })).status).toBe(409);
  });

  test("a group that has all its rollouts takes no more, and no index beyond its size", async () => {
    const under = await startUnderTest();
    for (const [index, rollout] of ["r0", "r1"].entries()) {
      const accepted = await converse(under, rollout, 1);
      const outcome = { accepted, reward: index, group_id: "g", group_size: 2, generation_index: index };
      expect((await under.send("POST", `/rollouts/${rollout}/outcome`, outcome)).status).toBe(200);
    }
    const before = rowsIn(await under.send("GET", "/groups/g/rows"));
    const accepted = await converse(under, "r2", 1);
    for (const place of [{ generation_index: 2 }, {}]) {
      const outcome = { accepted, reward: 1, group_id: "g", ...place };
      expect((await under.send("POST", "/rollouts/r2/outcome", outcome)).status).toBe(409);
    }
    const opened = await under.send("PUT", "/rollouts/r3", {
      group_id: "g",
      group_size: 2,
      generation_index: 5,
    });
    expect(opened.status).toBe(409);
    expect(rowsIn(await under.send("GET", "/groups/g/rows"))).toEqual(before);
  });

  test("a body nested beyond reason is refused before the engine is asked, and the rollout can still be sealed", async () => {
    const under = await startUnderTest();
    const deep = `{"model":"p","messages":[{"role":"user","content":"x","z":${"[".repeat(9000)}${"]".repeat(9000)}}]}`;
    const refused = await under.send("POST", "/r/r1/v1/chat/completions", deep);
    expect(refused.status).toBe(400);
    expect(refused.text).toContain("nested deeper than 200 levels");
    const ids = await converse(under, "r1", 1);
    expect((await under.send("POST", "/rollouts/r1/outcome", { accepted: ids, reward: 1 })).status).toBe(200);
  });

  test("infer finds the one leaf, and refuses where there are two", async () => {
    const under = await startUnderTest();
    await converse(under, "one", 2);
    expect((await under.send("POST", "/rollouts/one/outcome", { infer: true })).json["refusal"]).toBeNull();
    await converse(under, "two", 1);
    await under.chat("two", "quite another tree");
    expect(
      (await under.send("POST", "/rollouts/two/outcome", { infer: true })).json["refusal"],
    ).toMatchObject({
      reason: "ambiguous",
    });
  });

  test("a title call is recorded and never inferred as kept (rllm 795)", async () => {
    const under = await startUnderTest();
    await converse(under, "r1", 3);
    await under.send(
      "POST",
      "/r/r1/v1/chat/completions",
      { messages: [{ role: "user", content: "a title, please" }] },
      { "x-coppice-class": "title" },
    );
    expect((await under.calls("r1")).at(-1)?.class).toBe("title");
    const sealed = await under.send("POST", "/rollouts/r1/outcome", { reward: 1, infer: true });
    expect(sealed.json["refusal"]).toBeNull();
    expect(rowsIn(await under.send("GET", "/rollouts/r1/rows"))).toMatchObject([{ call_ids: { length: 3 } }]);
  });

  test("of a rollout that nobody opened is a 404; of one that is swept a 409", async () => {
    const under = await startUnderTest();
    expect((await under.send("POST", "/rollouts/nobody/outcome", { reward: 1 })).status).toBe(404);
    const [id] = await converse(under, "r1", 1);
    await under.send("DELETE", "/rollouts/r1");
    expect((await under.send("POST", "/rollouts/r1/outcome", { final: id })).status).toBe(409);
  });

  test.each([
    ['{"reward": NaN, "infer": true}', "reward", "NaN"],
    ['{"reward":-Infinity}', "reward", "-Infinity"],
    ['{"reward":1e999}', "reward", "Infinity"],
    ['{"reward":"1.0"}', "reward", '"1.0"'],
    ['{"reward":true}', "reward", "true"],
    ['{"accepted":"x"}', "accepted", '"x"'],
    ['{"accepted":[1]}', "accepted[0]", "1"],
    ['{"infer":"yes"}', "infer", '"yes"'],
    ['{"accept":[]}', "accept", ""],
  ])("%s is a 400 that names %s", async (body, param, value) => {
    const under = await startUnderTest();
    await converse(under, "r1", 1);
    const answered = await under.send("POST", "/rollouts/r1/outcome", body);
    expect(answered.status).toBe(400);
    expect(errorOf(answered)["param"]).toBe(param);
    expect(errorOf(answered)["message"]).toContain(value);
    expect((await under.send("GET", "/rollouts/r1")).json["state"]).toBe("open");
  });

  test.each(["{", "[]", '"x"', "null", "12"])("%s is no outcome", async (body) => {
    const under = await startUnderTest();
    await converse(under, "r1", 1);
    const answered = await under.send("POST", "/rollouts/r1/outcome", body);
    expect(answered.status).toBe(400);
    expect((await under.send("GET", "/rollouts/r1")).json["state"]).toBe("open");
  });

  test("fences: a call in flight is aborted, its answer still goes out, and later ones go to the late bin", async () => {
    const under = await startUnderTest();
    const [id] = await converse(under, "r1", 1);
    const inFlight = under.chat("r1", "@@fault:slow=100@@", { max_tokens: 4 });
    await eventually("it is in flight", async () => (await under.calls("r1")).length === 2);
    await under.send("POST", "/rollouts/r1/outcome", { reward: 1, final: id });
    expect((await inFlight).status).toBe(200);
    expect((await under.chat("r1", "late")).status).toBe(200);
    const read = await under.send("GET", "/rollouts/r1");
    expect((read.json["calls"] as Json[]).map((call) => [call["status"], call["status_detail"]])).toEqual([
      ["committed", null],
      ["aborted", "sealed"],
    ]);
    expect(read.json["counts"]).toMatchObject({ late: 2 });
  });
});

describe("rows", () => {
  test("of a rollout are lines; a lone survivor has advantage 0", async () => {
    const under = await startUnderTest();
    const ids = await converse(under, "r1", 3);
    expect((await under.send("GET", "/rollouts/r1/rows")).status).toBe(409);
    await under.send("POST", "/rollouts/r1/outcome", { reward: 1, accepted: ids });
    const answered = await under.send("GET", "/rollouts/r1/rows");
    expect(answered.headers.get("content-type")).toContain("application/x-ndjson");
    const [row] = rowsIn(answered);
    expect(row).toMatchObject({ type: "row", row_id: "r1_g0_s0", reward: 1, advantage: 0 });
    const calls = await under.calls("r1");
    expect(((row as Json)["loss_mask"] as number[]).filter((bit) => bit === 1)).toHaveLength(
      calls.reduce((sum, call) => sum + call.generatedLength, 0),
    );
    expect(answered.text).toContain('"reward":1.0');
  });

  test("of a group have no advantage until so many rollouts are sealed as its size says", async () => {
    const under = await startUnderTest();
    const group = { group_id: "g", group_size: 3 };
    for (const [index, reward] of [1, 0].entries()) {
      await under.send("PUT", `/rollouts/r${index}`, { ...group, generation_index: index });
      const ids = await converse(under, `r${index}`, 2);
      await under.send("POST", `/rollouts/r${index}/outcome`, { reward, accepted: ids });
    }
    const early = rowsIn(await under.send("GET", "/groups/g/rows"));
    expect(early.map((row) => [row["row_id"], row["advantage"]])).toEqual([
      ["g_g0_s0", null],
      ["g_g1_s0", null],
    ]);
    await under.send("PUT", "/rollouts/r2", { ...group, generation_index: 2 });
    await under.send("POST", "/rollouts/r2/outcome", { failed: "lost" });
    const whole = rowsIn(await under.send("GET", "/groups/g/rows?format=jsonl&weights=rollout"));
    expect(whole.map((row) => [row["type"], row["advantage"], row["reason"]])).toEqual([
      ["row", 0.5, undefined],
      ["row", -0.5, undefined],
      ["failure", undefined, "failed_by_agent"],
    ]);
    expect(whole[0]?.["token_weight"]).toBeCloseTo(
      1 / (whole[0]?.["rollout_trainable_tokens"] as number),
      12,
    );
    const none = rowsIn(await under.send("GET", "/groups/g/rows?advantage=none"));
    expect(none[0]?.["advantage"]).toBeNull();
    const one = rowsIn(await under.send("GET", "/rollouts/r1/rows"));
    expect(one).toMatchObject([{ row_id: "g_g1_s0", advantage: -0.5 }]);
  });

  test("of a group without a size are complete once all known rollouts are sealed; free indices are filled in", async () => {
    const under = await startUnderTest();
    await under.send("PUT", "/rollouts/a", { group_id: "g" });
    await under.send("PUT", "/rollouts/b", { group_id: "g", generation_index: 0 });
    const idsA = await converse(under, "a", 1);
    await under.send("POST", "/rollouts/a/outcome", { reward: 4, accepted: idsA });
    expect(rowsIn(await under.send("GET", "/groups/g/rows"))).toMatchObject([
      { row_id: "g_g1_s0", advantage: null },
    ]);
    const idsB = await converse(under, "b", 1);
    await under.send("POST", "/rollouts/b/outcome", { reward: 2, accepted: idsB });
    expect(rowsIn(await under.send("GET", "/groups/g/rows?advantage=leave_one_out"))).toMatchObject([
      { row_id: "g_g0_s0", advantage: -2 },
      { row_id: "g_g1_s0", advantage: 2 },
    ]);
  });

  test("a deadline that passes refuses the rollout when its group is read, and the group is complete (NeMo RL 3238)", async () => {
    const under = await startUnderTest();
    await under.send("PUT", "/rollouts/never", {
      group_id: "g",
      group_size: 2,
      generation_index: 0,
      deadline_s: 0.05,
    });
    await under.send("PUT", "/rollouts/ends", { group_id: "g", generation_index: 1 });
    await converse(under, "never", 1);
    const ids = await converse(under, "ends", 1);
    await under.send("POST", "/rollouts/ends/outcome", { reward: 1, accepted: ids });
    await new Promise((resolve) => setTimeout(resolve, 60));
    const rows = rowsIn(await under.send("GET", "/groups/g/rows"));
    expect(rows).toMatchObject([
      { type: "row", rollout_id: "ends", advantage: 0 },
      { type: "failure", rollout_id: "never", reason: "deadline" },
    ]);
    expect((await under.send("GET", "/rollouts/never")).json["state"]).toBe("sealed");
  });

  test("an outcome that comes after the deadline is kept, and refused with it", async () => {
    const under = await startUnderTest();
    await under.send("PUT", "/rollouts/r1", { deadline_s: 0.02 });
    const ids = await converse(under, "r1", 1);
    await new Promise((resolve) => setTimeout(resolve, 40));
    const answered = await under.send("POST", "/rollouts/r1/outcome", { reward: 1, accepted: ids });
    expect(answered).toMatchObject({
      status: 200,
      json: { refusal: { reason: "deadline" }, outcome: { reward: 1 } },
    });
  });

  test("in a format that is not there, or with settings that are none, are a 400", async () => {
    const under = await startUnderTest();
    await under.send("PUT", "/rollouts/r1", {});
    for (const [query, param] of [
      ["format=csv", "format"],
      ["advantage=best", "advantage"],
      ["weights=heavy", "weights"],
    ]) {
      const answered = await under.send("GET", `/groups/r1/rows?${query}`);
      expect(answered.status).toBe(400);
      expect(errorOf(answered)["param"]).toBe(param);
    }
  });
});

describe("deleting", () => {
  test("leaves the rollout known as swept; a late answer changes nothing, and a new attempt works (rllm 797)", async () => {
    const under = await startUnderTest();
    const [id] = await converse(under, "r1", 2);
    const late = under.chat("r1", "@@fault:slow=100@@", { max_tokens: 4 });
    await eventually("it is in flight", async () => (await under.calls("r1")).length === 3);
    const swept = await under.send("DELETE", "/rollouts/r1");
    matches(answers.swept, swept);
    expect((await late).status).toBe(200);
    expect((await under.send("GET", "/rollouts/r1")).json).toMatchObject({ state: "swept", calls: [] });
    expect((await under.send("GET", "/rollouts/r1/rows")).status).toBe(409);
    expect((await under.send("GET", "/groups/r1/rows")).status).toBe(409);
    expect((await under.chat("r1", "later still")).status).toBe(200);
    expect((await under.send("GET", "/rollouts/r1")).json).toMatchObject({ state: "swept", calls: [] });

    expect((await under.send("PUT", "/rollouts/r1", { attempt: 2 })).status).toBe(200);
    const ids = await converse(under, "r1", 2);
    expect(ids).not.toContain(id);
    const sealed = await under.send("POST", "/rollouts/r1/outcome", { reward: 1, accepted: ids });
    expect(sealed.json).toMatchObject({ attempt: 2, refusal: null, counts: { committed: 2 } });
    expect((await under.send("DELETE", "/rollouts/nobody")).status).toBe(404);
  });
});

describe("weights", () => {
  test("are told by the trainer and stand on what is generated from then on", async () => {
    const under = await startUnderTest();
    expect((await under.send("GET", "/weights")).json).toEqual({ version: null });
    await under.chat("r1", "before");
    matches(answers.weights, await under.send("PUT", "/weights", { version: "step-1" }));
    await under.chat("r1", "after");
    expect((await under.calls("r1")).map((call) => call.weightVersions[0]?.version)).toEqual([
      "unknown",
      "step-1",
    ]);
    expect(errorOf(await under.send("PUT", "/weights", {}))["param"]).toBe("version");
    expect((await under.send("PUT", "/weights", { version: "" })).status).toBe(400);
  });
});

function omit(fields: Json, name: string): Json {
  const { [name]: _omitted, ...rest } = fields;
  return rest;
}
