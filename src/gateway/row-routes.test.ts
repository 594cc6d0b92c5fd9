// Rows over HTTP in the formats and shapes that trainers load: what arrives is what the JSON Lines say, and what is
// refused is refused before the first byte.
import { expect, test } from "vitest";
import { readArrow, readParquetBytes } from "../export/testing/read-back.ts";
import {
  errorOf,
  messageOfAnswer,
  startUnderTest,
  type Json,
  type UnderTest,
} from "./testing/gateway-under-test.ts";

/** Two sealed rollouts of a group, one call each, and one that failed. */
async function sealedGroup(temperatures: readonly number[] = [1, 1]): Promise<UnderTest> {
  const under = await startUnderTest();
  for (const [index, temperature] of [...temperatures, 1].entries()) {
    const rollout = `r${index}`;
    await under.send("PUT", `/rollouts/${rollout}`, {
      group_id: "g",
      group_size: 3,
      generation_index: index,
    });
    const answered = await under.chat(rollout, "a task", { temperature, max_tokens: 5 });
    messageOfAnswer(answered);
    const outcome =
      index < temperatures.length ? { final: answered.json["id"] } : { failed: "the agent fell over" };
    await under.send("POST", `/rollouts/${rollout}/outcome`, { reward: index, ...outcome });
  }
  return under;
}

async function bytesOf(under: UnderTest, query: string): Promise<{ type: string | null; bytes: Uint8Array }> {
  const answered = await fetch(`${under.url}/groups/g/rows?${query}`);
  expect(answered.status).toBe(200);
  return { type: answered.headers.get("content-type"), bytes: new Uint8Array(await answered.arrayBuffer()) };
}

async function lines(under: UnderTest): Promise<Json[]> {
  const { bytes } = await bytesOf(under, "format=jsonl");
  const text = Buffer.from(bytes).toString("utf8").trim();
  return text.split("\n").map((line) => JSON.parse(line) as Json);
}

test("a group's rows as an Arrow stream and as Parquet are those of the JSON Lines; failures stand in the metadata", async () => {
  const under = await sealedGroup();
  const all = await lines(under);
  const known = all
    .filter(({ type }) => type === "row")
    .map(({ row_id, token_ids, loss_mask, advantage }) => ({ row_id, token_ids, loss_mask, advantage }));
  expect(known).toHaveLength(2);
  for (const [format, type, read] of [
    ["arrow", "application/vnd.apache.arrow.stream", readArrow],
    ["parquet", "application/vnd.apache.parquet", readParquetBytes],
  ] as const) {
    const answered = await bytesOf(under, `format=${format}`);
    expect(answered.type).toBe(type);
    const { records, metadata } = read(answered.bytes);
    expect(records).toMatchObject(known);
    expect(JSON.parse(metadata.get("coppice.failures") ?? "")).toMatchObject([
      { rollout_id: "r2", reason: "failed_by_agent" },
    ]);
  }
});

test("a group's rows come in a trainer's shape", async () => {
  const under = await sealedGroup();
  const { bytes } = await bytesOf(under, "format=parquet&shape=verl");
  expect(readParquetBytes(bytes).records).toMatchObject([
    { uid: "g", key: "g_0_0", reward_score: 0, advantage: -0.5 },
    { uid: "g", key: "g_1_0", reward_score: 1, advantage: 0.5 },
  ]);
});

test("rows that the shape or the convention refuses are a 400 that names them, not a stream that is cut", async () => {
  const under = await sealedGroup([1, 0.5]);
  for (const [query, param] of [
    ["format=parquet", "temperature"],
    ["format=arrow&shape=trl&advantage=none&force_mixed=true", "advantage"],
    ["format=parquet&shape=verls", "shape"],
    ["format=csv", "format"],
  ]) {
    const answered = await under.send("GET", `/groups/g/rows?${query}`);
    expect(answered.status).toBe(400);
    expect(errorOf(answered)["param"]).toBe(param);
  }
  const { bytes } = await bytesOf(under, "format=parquet&force_mixed=true");
  expect(readParquetBytes(bytes).records).toHaveLength(2);
});
