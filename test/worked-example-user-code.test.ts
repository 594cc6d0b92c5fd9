// The worked example as a user writes it (examples/worked-example.ts), in both ways: the documentation's rows.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { workedExample } from "../examples/worked-example.ts";
import { startUnderTest, type Json } from "../src/gateway/testing/gateway-under-test.ts";

test.each(["text", "token-in"] as const)(
  "the worked example is twenty lines of user code and gives its four rows, %s way",
  async (way) => {
    const under = await startUnderTest({ standIn: { mode: "counters" }, gateway: { way } });
    const conversation = await workedExample(under.url, "r0");
    const { text } = await under.send("GET", "/rollouts/r0/rows?format=jsonl");
    const rows = text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Json);
    const file = new URL("../vectors/seed-compaction-on.json", import.meta.url);
    const { expected } = JSON.parse(readFileSync(file, "utf8")) as { readonly expected: readonly Json[] };
    const mine = expected.filter((row) => row["rollout_id"] === "r0");
    const shape = (row: Json): unknown => [row["row_id"], row["token_ids"], row["loss_mask"], row["reward"]];
    expect(rows.map(shape)).toEqual(mine.map(shape));
    expect(conversation.kept).toHaveLength(7);
    expect(conversation.rejected.map(({ reason }) => reason)).toEqual(["no good", "no good"]);
    expect(conversation.calls.filter(({ parent }) => parent === null)).toHaveLength(4);
  },
);
