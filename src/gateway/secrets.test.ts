// Each secret that a gateway is given has a mark in it; afterwards the mark must stand in nothing that the gateway said or
// kept: answers, log lines, metrics, events, the description of the service, the ledger.
import { createServer } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { vllmEngine } from "../engine/vllm.ts";
import { rolloutId } from "../lineage/call.ts";
import { errorOf, startUnderTest } from "./testing/gateway-under-test.ts";

const MARK = "canary7f3a";
const CLIENT = `${MARK}-client-key`;
const OPERATOR = `${MARK}-operator-key`;
const ENGINE_KEY = `${MARK}-engine-key`;

/** An engine that refuses every call with the key that it was sent, as some do. */
async function tellTale(): Promise<string> {
  const server = createServer((request, response) => {
    response.writeHead(401, { "content-type": "application/json" });
    const message = `Incorrect API key provided: ${String(request.headers.authorization)}`;
    response.end(JSON.stringify({ error: { message } }));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  onTestFinished(() => void server.close());
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("it listens on no port");
  return `http://127.0.0.1:${address.port}`;
}

test("No secret stands in an answer, a log line, a metric, an event or the ledger", async () => {
  const url = await tellTale();
  const under = await startUnderTest({
    gateway: { clientKeys: [CLIENT], operatorKeys: [OPERATOR], model: "m" },
    engine: () =>
      vllmEngine({ url: url.replace("//", `//user:${MARK}-password@`), apiKey: ENGINE_KEY, kind: "vllm" }),
  });
  const operator = { authorization: `Bearer ${OPERATOR}` };
  const said: string[] = [];
  const send = async (...args: Parameters<typeof under.send>): Promise<number> => {
    const { status, text, headers } = await under.send(...args);
    said.push(text, JSON.stringify([...headers]));
    return status;
  };
  const opened = await under.send("PUT", "/rollouts/r1", {}, operator);
  const bound = String(opened.json["client_key"]);
  const body = { model: "m", messages: [{ role: "user", content: "hello" }] };
  for (const stream of [false, true]) {
    for (const key of [CLIENT, bound, `${MARK}-unknown-key`, `cpk.r2.${MARK}`]) {
      for (const path of [
        "chat/completions",
        "messages",
        "responses",
        "completions",
        "messages/count_tokens",
      ]) {
        await send(
          "POST",
          `/r/r1/v1/${path}`,
          { ...body, stream, max_tokens: 9, input: "x", prompt: "x" },
          {
            authorization: `Bearer ${key}`,
            "x-api-key": key,
          },
        );
      }
    }
  }
  for (const path of [
    "/rollouts",
    "/rollouts/r1",
    "/rollouts/r1/rows",
    "/metrics",
    "/readyz",
    "/openapi.json",
  ]) {
    await send("GET", path, undefined, operator);
  }
  await send("GET", "/nothing/x", undefined, operator);
  await send("PUT", "/weights", `{"version": `, operator);
  const kept = [
    await under.calls("r1"),
    await under.ledger.rollouts({}),
    await under.ledger.lateCalls({ rolloutId: rolloutId("r1"), attempt: null }),
  ];
  const all = said.join("\n") + JSON.stringify(under.logged) + JSON.stringify(kept);
  expect(all).toContain("Incorrect API key");
  expect(all).not.toContain(MARK);
  // What the gateway derived from the client key is a secret too.
  expect(all).not.toContain(bound);
});

test("A key in the query is no key, and is repeated nowhere", async () => {
  const under = await startUnderTest({ gateway: { operatorKeys: [OPERATOR] } });
  const answered = await under.send("GET", `/rollouts?key=${OPERATOR}`);
  expect([answered.status, errorOf(answered)["type"]]).toEqual([401, "authentication_error"]);
  const unknown = await under.send("GET", `/nothing?key=${OPERATOR}`);
  expect(answered.text + unknown.text + JSON.stringify(under.logged)).not.toContain(MARK);
});
