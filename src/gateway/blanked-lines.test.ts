import { describe, expect, test } from "vitest";
import { wireRequests } from "../dialect/testing/wire-fixtures.ts";
import { VolatileLines } from "./blanked-lines.ts";
import { changingLine } from "./changing-line.ts";
import { startUnderTest, type Json } from "./testing/gateway-under-test.ts";

const BILLING = "^x-anthropic-billing-header:.*$";

describe("volatile lines", () => {
  const lines = new VolatileLines([BILLING, "^Now: .*"]);

  test("are taken out of texts and parts of what the agent says, line by line, and named", () => {
    const messages = [
      { role: "system", content: "x-anthropic-billing-header: cc_version=1.0.e2a;\nYou are kind." },
      { role: "user", content: [{ type: "text", text: "Hello\nNow: 12:01\nthere" }, { type: "image_url" }] },
    ];
    expect(lines.blank(messages)).toEqual({
      messages: [
        { role: "system", content: "\nYou are kind." },
        { role: "user", content: [{ type: "text", text: "Hello\n\nthere" }, { type: "image_url" }] },
      ],
      notes: [`blanked: /${BILLING}/ in messages[0]`, "blanked: /^Now: .*/ in messages[1]"],
    });
    expect(messages[0]?.content).toContain("billing");
  });

  test("stay in what the model or a tool wrote, and where nothing matches nothing is made anew", () => {
    const messages = [
      { role: "assistant", content: "Now: 12:01" },
      { role: "tool", content: "Now: 12:01", tool_call_id: "c" },
      { role: "user", content: "now" },
    ];
    expect(lines.blank(messages).messages).toBe(messages);
  });

  test("match the header that claude-code really sends", () => {
    for (const { body } of wireRequests("claude-code-turns")) {
      const { messages, notes } = lines.blank([{ role: "system", content: body["system"] }]);
      expect(notes).toEqual([`blanked: /${BILLING}/ in messages[0]`]);
      expect(JSON.stringify(messages)).not.toContain("billing");
    }
  });

  test("are refused at the start where a pattern cannot be read, or matches nothing", () => {
    expect(() => new VolatileLines(["("])).toThrow(/blank is "\(": /);
    expect(() => new VolatileLines(["x*"])).toThrow("matches an empty text");
  });
});

describe("a first line that changes with every request (claude-code 68900)", () => {
  const request = (turn: number, history: readonly Json[]): Json[] => [
    {
      role: "system",
      content: `You are kind.\nx-anthropic-billing-header: cc_version=1.0.${turn};\nBe short.`,
    },
    { role: "user", content: "t1 t2" },
    ...history,
  ];

  async function fourTurns(blank: readonly string[]): Promise<Json & { calls: readonly Json[] }> {
    const under = await startUnderTest({ gateway: { blank } });
    const history: Json[] = [];
    for (let turn = 0; turn < 4; turn++) {
      const answered = await under.chat("r1", request(turn, history), { max_tokens: 4 });
      const choices = answered.json["choices"] as readonly { readonly message: Json }[];
      history.push(choices[0]?.message as Json, { role: "user", content: `t${turn}` });
    }
    const asked = under.standIn.requests.filter(({ path }) => path === "/v1/chat/completions");
    expect(JSON.stringify(asked.map(({ body }) => body)).includes("billing")).toBe(blank.length === 0);
    return (await under.send("GET", "/rollouts/r1")).json as Json & { calls: readonly Json[] };
  }

  test("is an alarm that names the line", async () => {
    const rollout = await fourTurns([]);
    expect(rollout["alarms"]).toEqual(["n_calls_n_roots"]);
    expect(rollout["changing_line"]).toEqual({
      message: 0,
      line: 1,
      before: "x-anthropic-billing-header: cc_version=1.0.0;",
      after: "x-anthropic-billing-header: cc_version=1.0.1;",
    });
  });

  test("is no line any more once it is blanked: one tree, and each call says what was taken out", async () => {
    const rollout = await fourTurns([BILLING]);
    expect(rollout["alarms"]).toEqual([]);
    expect(rollout["changing_line"]).toBeNull();
    expect(rollout.calls.filter((call) => call["parent_call_id"] === null)).toHaveLength(1);
    for (const call of rollout.calls) expect(call["notes"]).toEqual([`blanked: /${BILLING}/ in messages[0]`]);
  });

  test("is not looked for between conversations that have nothing in common", () => {
    const one = (content: string): Json[] => [{ role: "user", content }];
    expect(changingLine([one("a"), one("b")])).toBeNull();
    expect(changingLine([one("a\nb\nc\nd"), one("1\n2\n3\nd")])).not.toBeNull();
    expect(changingLine([one("a\nb\nc\nd\ne"), one("1\n2\n3\n4\ne")])).toBeNull();
    expect(changingLine([one("a\nb"), [{ role: "system", content: "a\nc" }]])).toBeNull();
  });
});
