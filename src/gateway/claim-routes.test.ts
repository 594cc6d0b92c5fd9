import { describe, expect, test } from "vitest";
import { startUnderTest, type Json, type UnderTest } from "./testing/gateway-under-test.ts";

async function finish(under: UnderTest, rollout: string, reward: number, group: Json = {}): Promise<void> {
  await under.send("PUT", `/rollouts/${rollout}`, group);
  const answered = await under.chat(rollout, "hello");
  const sealed = await under.send("POST", `/rollouts/${rollout}/outcome`, {
    reward,
    accepted: [answered.json["id"]],
  });
  expect(sealed.status, sealed.text).toBe(200);
}

async function claim(under: UnderTest, lease = 60): Promise<Json | null> {
  const { status, json, text } = await under.send("POST", "/claims", { consumer: "trainer", lease_s: lease });
  expect(status, text).toBe(200);
  return json["claim"] as Json | null;
}

describe("publishing", () => {
  test("a group is claimed, read with its advantages, acknowledged and swept", async () => {
    const under = await startUnderTest();
    const group = { group_id: "g", group_size: 2 };
    await finish(under, "r0", 1, { ...group, generation_index: 0 });
    expect(await claim(under)).toBeNull();
    await finish(under, "r1", 0, { ...group, generation_index: 1 });
    const held = (await claim(under)) as Json;
    expect(held).toMatchObject({ group_id: "g", consumer: "trainer", state: "held" });
    expect(await claim(under)).toBeNull();
    const path = `/claims/${String(held["claim_id"])}`;
    const rows = await under.send("GET", `${path}/rows`);
    const lines = rows.text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Json);
    expect(lines.map((row) => [row["row_id"], row["advantage"], row["claim_id"]])).toEqual([
      ["g_g0_s0", 0.5, held["claim_id"]],
      ["g_g1_s0", -0.5, held["claim_id"]],
    ]);
    expect(rows.headers.get("x-coppice-claim-id")).toBe(held["claim_id"]);
    const arrow = await under.send("GET", `${path}/rows?format=arrow`);
    expect(arrow.text).toContain(String(held["claim_id"]));
    const acknowledged = await under.send("POST", `${path}/ack`);
    expect(acknowledged.json).toMatchObject({ state: "acknowledged" });
    expect((await under.send("POST", `${path}/ack`)).json).toEqual(acknowledged.json);
    expect((await under.send("GET", "/rollouts/r0")).json).toMatchObject({ state: "swept" });
    expect((await under.send("GET", `${path}/rows`)).status).toBe(409);
    expect(await claim(under)).toBeNull();
  });

  test("after its lease a group is delivered again under another claim, and the late acknowledgement is a 409", async () => {
    const under = await startUnderTest();
    await finish(under, "r0", 1);
    const first = (await claim(under, 1)) as Json;
    await new Promise((resolve) => setTimeout(resolve, 1050));
    const second = (await claim(under)) as Json;
    expect(second["group_id"]).toBe("r0");
    expect(second["claim_id"]).not.toBe(first["claim_id"]);
    const late = await under.send("POST", `/claims/${String(first["claim_id"])}/ack`);
    expect(late.status).toBe(409);
    expect(late.text).toContain("lease");
    expect((await under.send("GET", `/claims/${String(first["claim_id"])}/rows`)).status).toBe(409);
    const again = await under.send("GET", `/claims/${String(second["claim_id"])}/rows`);
    expect(again.text).toContain(String(second["claim_id"]));
    expect((await under.send("POST", `/claims/${String(second["claim_id"])}/ack`)).status).toBe(200);
  });

  test("a group past its deadline is given out with the refusal of who had no outcome", async () => {
    const under = await startUnderTest();
    await finish(under, "r0", 1, { group_id: "g", group_size: 4, generation_index: 0, deadline_s: 0.5 });
    await under.send("PUT", "/rollouts/r1", { group_id: "g", generation_index: 1, deadline_s: 0.1 });
    await new Promise((resolve) => setTimeout(resolve, 600));
    const held = (await claim(under)) as Json;
    const { text } = await under.send("GET", `/claims/${String(held["claim_id"])}/rows`);
    const lines = text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Json);
    expect(lines.map((line) => line["reason"] ?? line["row_id"])).toEqual(["g_g0_s0", "deadline"]);
    expect(lines[0]?.["advantage"], "a lone survivor").toBe(0);
  });

  test("claims that are not there, and requests that say nothing right, are told so", async () => {
    const under = await startUnderTest();
    for (const id of [`claim-${"0".repeat(32)}`, "claim-%00", "nothing"]) {
      expect((await under.send("POST", `/claims/${id}/ack`)).status, id).toBe(404);
      expect((await under.send("GET", `/claims/${id}/rows`)).status, id).toBe(404);
    }
    for (const body of [{}, { consumer: "" }, { consumer: "x", lease_s: 0 }, { consumer: "x", more: 1 }]) {
      expect((await under.send("POST", "/claims", body)).status, JSON.stringify(body)).toBe(400);
    }
  });
});
