import { describe, expect, test } from "vitest";
import { startGateway } from "./server.ts";
import { errorOf, eventually, startUnderTest, type UnderTest } from "./testing/gateway-under-test.ts";

const BODY = { model: "m", messages: [{ role: "user", content: "hello" }] };
const CLIENT = "client-key-1";
const OPERATOR = "operator-key-1";

function withKeys(): Promise<UnderTest> {
  return startUnderTest({ gateway: { clientKeys: ["client-key-0", CLIENT], operatorKeys: [OPERATOR] } });
}

function bearer(key: string): Record<string, string> {
  return { authorization: `Bearer ${key}` };
}

describe("keys", () => {
  test("that are not set are not needed, whatever key is sent", async () => {
    const under = await startUnderTest();
    expect((await under.send("POST", "/r/r1/v1/chat/completions", BODY, bearer("EMPTY"))).status).toBe(200);
    expect((await under.send("GET", "/rollouts", undefined, { "x-api-key": "dummy" })).status).toBe(200);
  });

  test("that are set are needed: none or an unknown one is a 401", async () => {
    const under = await withKeys();
    const wrong: Record<string, string>[] = [
      {},
      bearer("client-key-2"),
      bearer(""),
      { authorization: "Basic x" },
    ];
    for (const headers of wrong) {
      const answered = await under.send("POST", "/r/r1/v1/chat/completions", BODY, headers);
      expect(answered.status).toBe(401);
      expect(errorOf(answered)["type"]).toBe("authentication_error");
    }
    expect((await under.send("POST", "/r/r1/v1/chat/completions", BODY, bearer(CLIENT))).status).toBe(200);
    expect(
      (await under.send("POST", "/r/r1/v1/chat/completions", BODY, { "x-api-key": CLIENT })).status,
    ).toBe(200);
  });

  test("of clients call, open and post outcomes; what belongs to operators is a 403", async () => {
    const under = await withKeys();
    const answered = await under.send("POST", "/r/r1/v1/chat/completions", BODY, bearer(CLIENT));
    const callId = answered.headers.get("x-coppice-call-id");
    expect((await under.send("PUT", "/rollouts/r1", {}, bearer(CLIENT))).status).toBe(200);
    expect((await under.send("GET", "/rollouts/r1", undefined, bearer(CLIENT))).status).toBe(200);
    for (const [method, path] of [
      ["GET", "/rollouts"],
      ["GET", `/calls/${callId}`],
      ["GET", "/rollouts/r1/rows"],
      ["GET", "/groups/r1/rows"],
      ["GET", "/events"],
      ["GET", "/metrics"],
      ["PUT", "/weights"],
      ["DELETE", "/rollouts/r1"],
    ] as const) {
      const refused = await under.send(method, path, undefined, bearer(CLIENT));
      expect([path, refused.status]).toEqual([path, 403]);
    }
    expect((await under.send("GET", "/rollouts", undefined, bearer(OPERATOR))).status).toBe(200);
    expect((await under.send("POST", "/r/r1/v1/chat/completions", BODY, bearer(OPERATOR))).status).toBe(200);
    for (const path of ["/healthz", "/readyz", "/openapi.json"]) {
      expect((await under.send("GET", path)).status).toBe(200);
    }
  });

  test("bound to a rollout say whose call it is, and another rollout is a 403", async () => {
    const under = await withKeys();
    const opened = await under.send("PUT", "/rollouts/r1", {}, bearer(OPERATOR));
    const key = String(opened.json["client_key"]);
    expect((await under.send("POST", "/v1/chat/completions", BODY, bearer(key))).status).toBe(200);
    expect(await under.calls("r1")).toHaveLength(1);
    expect((await under.send("POST", "/r/r1/v1/chat/completions", BODY, bearer(key))).status).toBe(200);
    expect((await under.send("POST", "/r/r2/v1/chat/completions", BODY, bearer(key))).status).toBe(403);
    const header = { ...bearer(key), "x-coppice-rollout": "r2" };
    expect((await under.send("POST", "/v1/chat/completions", BODY, header)).status).toBe(403);
    expect((await under.send("GET", "/rollouts/r2", undefined, bearer(key))).status).toBe(403);
    expect((await under.send("POST", "/rollouts/r2/outcome", {}, bearer(key))).status).toBe(403);
    expect((await under.send("POST", "/rollouts/r1/outcome", { failed: "x" }, bearer(key))).status).toBe(200);
    const forged = key.replace("r1", "r2");
    expect((await under.send("POST", "/v1/chat/completions", BODY, bearer(forged))).status).toBe(401);
  });

  test("without a rollout, a key that is bound to none gets a 401", async () => {
    const under = await withKeys();
    expect((await under.send("POST", "/v1/chat/completions", BODY, bearer(CLIENT))).status).toBe(401);
  });

  test("stand in no log line and no answer", async () => {
    const under = await withKeys();
    await under.standIn.close();
    const answers = [
      await under.send("POST", "/r/r1/v1/chat/completions", BODY, bearer(CLIENT)),
      await under.send("POST", "/r/r1/v1/chat/completions", BODY, bearer("wrong-key-xyz")),
    ];
    await eventually("it is logged", () => under.logged.some(({ event }) => event === "request_failed"));
    const all = JSON.stringify(under.logged) + answers.map(({ text }) => text).join("");
    expect(all).not.toMatch(/client-key|operator-key|wrong-key/);
  });
});

describe("listening", () => {
  test.each(["0.0.0.0", "::", "192.168.1.1", "example.org"])(
    "on %s is refused without a key",
    async (host) => {
      const under = await startUnderTest();
      const options = { engine: under.engine, ledger: under.ledger, port: 0, log: () => undefined };
      await expect(startGateway({ ...options, host })).rejects.toThrow(/others can reach/);
    },
  );

  test("on every address works with a key, and a key that is too short is refused", async () => {
    const under = await startUnderTest();
    const options = { engine: under.engine, ledger: under.ledger, port: 0, log: () => undefined };
    const gateway = await startGateway({ ...options, host: "0.0.0.0", operatorKeys: [OPERATOR] });
    await gateway.close();
    await expect(startGateway({ ...options, host: "127.0.0.1", clientKeys: ["short"] })).rejects.toThrow(
      /too short/,
    );
  });
});
