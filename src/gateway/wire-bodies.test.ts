// Every request body that public clients really send, as it is, through the gateway.
import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { wireRequests } from "../dialect/testing/wire-fixtures.ts";
import { startUnderTest } from "./testing/gateway-under-test.ts";

const FILES = readdirSync(new URL("../dialect/testing/wire/", import.meta.url)).map((name) =>
  name.replace(".json", ""),
);

test("every recorded request of every client is answered and recorded", async () => {
  const under = await startUnderTest({ standIn: { template: "chatml" } });
  for (const file of FILES) {
    let asked = 0;
    for (const { path, headers, body } of wireRequests(file)) {
      // Items and responses that an earlier answer of this very gateway would have minted.
      if (JSON.stringify(body).match(/item_reference|previous_response_id/)) continue;
      const { authorization: _bearer, "content-type": _type, ...kept } = headers;
      const answered = await under.send("POST", path.replace("ROLLOUT", file), body, kept);
      expect([file, answered.status, answered.text.slice(0, 300)]).toEqual([file, 200, expect.anything()]);
      asked += 1;
    }
    const calls = await under.calls(file);
    expect(calls.map(({ status, untrainable }) => [status, untrainable])).toEqual(
      Array.from({ length: asked }, () => ["committed", null]),
    );
  }
}, 60_000);
