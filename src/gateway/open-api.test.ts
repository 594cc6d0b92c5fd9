import { describe, expect, test } from "vitest";
import { startUnderTest, type Json } from "./testing/gateway-under-test.ts";

describe("the OpenAPI document", () => {
  test("describes every promised path and method", async () => {
    const under = await startUnderTest();
    const { json } = await under.send("GET", "/openapi.json");
    expect(json["openapi"]).toBe("3.1.0");
    const paths = json["paths"] as Record<string, Json>;
    const all = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(all).toEqual(
      expect.arrayContaining([
        "POST /r/{rollout}/v1/chat/completions",
        "GET /r/{rollout}/v1/models",
        "PUT /rollouts/{rollout}",
        "GET /rollouts",
        "GET /rollouts/{rollout}",
        "POST /rollouts/{rollout}/outcome",
        "GET /rollouts/{rollout}/rows",
        "GET /groups/{group}/rows",
        "GET /calls/{call}",
        "DELETE /rollouts/{rollout}",
        "POST /claims",
        "GET /claims/{claim}",
        "GET /claims/{claim}/rows",
        "POST /claims/{claim}/ack",
        "PUT /weights",
        "GET /events",
        "GET /healthz",
        "GET /readyz",
        "GET /metrics",
      ]),
    );
  });

  test("is made of the schemas that check the requests", async () => {
    const under = await startUnderTest();
    const { json } = await under.send("GET", "/openapi.json");
    const text = JSON.stringify(json);
    expect(text).not.toContain("$schema");
    const put = (json["paths"] as Record<string, { put: Json }>)["/rollouts/{rollout}"]?.put as Json;
    const body = put["requestBody"] as { content: { "application/json": { schema: Json } } };
    const { schema } = body.content["application/json"];
    expect(Object.keys(schema["properties"] as Json)).toEqual(
      expect.arrayContaining([
        "group_id",
        "group_size",
        "generation_index",
        "sampling",
        "deadline_s",
        "tags",
        "attempt",
      ]),
    );
    expect(schema["additionalProperties"]).toBe(false);
    const list = (json["paths"] as Record<string, { get: Json }>)["/rollouts"]?.get as Json;
    expect((list["parameters"] as Json[]).map((parameter) => parameter["name"])).toEqual([
      "group_id",
      "state",
      "limit",
    ]);
    const ids = Object.values(json["paths"] as Record<string, Record<string, Json>>).flatMap((methods) =>
      Object.values(methods).map((operation) => operation["operationId"]),
    );
    expect(new Set(ids).size).toBe(ids.length);
  });
});
