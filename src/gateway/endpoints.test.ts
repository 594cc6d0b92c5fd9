// Every documented operation, met by whom it should turn away: no key, a wrong key, a key of another rollout, a body that
// is too large or no JSON, an id that is none. Driven by the OpenAPI document, so that a new route is covered by itself.
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import type { Ledger } from "../ledger/ledger.ts";
import { registerPage } from "../page/register-page.ts";
import {
  errorOf,
  startUnderTest,
  type Answered,
  type Json,
  type UnderTest,
} from "./testing/gateway-under-test.ts";

const CLIENT = "client-key-1";
const OPERATOR = "operator-key-1";
const BODY_BYTES = 16 * 1024;

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly name: string;
  readonly needsKey: boolean;
  readonly hasBody: boolean;
}

/** Answers under whatever key, and ends only with its client. */
const ENDLESS = new Set(["GET /events"]);

function started(): Promise<UnderTest> {
  let held: Ledger | null = null;
  return startUnderTest({
    gateway: {
      clientKeys: [CLIENT],
      operatorKeys: [OPERATOR],
      limits: { bodyBytes: BODY_BYTES },
      // The ledger is made before the gateway is.
      extend: (routes) => registerPage(routes, { ledger: held as Ledger, log: () => undefined }),
    },
    ledger: (ledger) => (held = ledger),
  });
}

async function readOperations(under: UnderTest): Promise<readonly Operation[]> {
  const { json } = await under.send("GET", "/openapi.json");
  return Object.entries(json["paths"] as Record<string, Record<string, Json>>).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path: path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => `${name}-1`),
      name: `${method.toUpperCase()} ${path}`,
      needsKey: (operation["security"] as unknown[]).length > 0,
      hasBody: operation["requestBody"] !== undefined,
    })),
  );
}

/** What each operation answered, by its name, so that a failure names the operation. */
async function each(
  chosen: readonly Operation[],
  send: (operation: Operation) => Promise<Answered>,
): Promise<Record<string, string>> {
  const all: Record<string, string> = {};
  for (const operation of chosen) {
    const answered = await send(operation);
    const said = errorOf(answered)?.["message"];
    all[operation.name] =
      `${answered.status}${typeof said === "string" && said !== "" ? "" : " without a word"}`;
  }
  return all;
}

function allOf(chosen: readonly Operation[], outcome: string): Record<string, string> {
  return Object.fromEntries(chosen.map(({ name }) => [name, outcome]));
}

function bearer(key: string): Record<string, string> {
  return { authorization: `Bearer ${key}` };
}

describe("every operation", () => {
  async function ready(): Promise<{ readonly under: UnderTest; readonly operations: readonly Operation[] }> {
    const under = await started();
    const operations = await readOperations(under);
    expect(operations.length).toBeGreaterThan(20);
    return { under, operations };
  }

  test("that needs a key answers 401 without one, with a wrong one and with one in the wrong place", async () => {
    const { under, operations } = await ready();
    const keyed = operations.filter(({ needsKey }) => needsKey);
    expect(operations.filter(({ needsKey }) => !needsKey).map(({ name }) => name)).toEqual(
      expect.arrayContaining(["GET /healthz", "GET /readyz"]),
    );
    for (const headers of [
      {},
      bearer("client-key-2"),
      bearer(""),
      { "x-api-key": "wrong-key" },
      { cookie: CLIENT },
    ]) {
      const answers = await each(keyed, ({ method, path, hasBody }) =>
        under.send(method, path, hasBody ? {} : undefined, headers),
      );
      expect(answers).toEqual(allOf(keyed, "401"));
    }
    expect(await under.ledger.rollouts({})).toEqual([]);
  });

  test("about a rollout answers 403 to the key of another one, and so does all that is the operator's", async () => {
    const { under, operations } = await ready();
    const opened = await under.send("PUT", "/rollouts/other", {}, bearer(OPERATOR));
    const bound = bearer(String(opened.json["client_key"]));
    const keyed = operations.filter(({ needsKey }) => needsKey);
    const answers = await each(keyed, ({ method, path, hasBody }) =>
      under.send(method, path, hasBody ? {} : undefined, bound),
    );
    expect(answers).toEqual(allOf(keyed, "403"));
    expect((await under.ledger.rollouts({})).map(({ rolloutId }) => rolloutId)).toEqual(["other"]);
  });

  test("with a body answers 413 to one that is too large, as sent or as unpacked", async () => {
    const { under, operations } = await ready();
    const writing = operations.filter(({ hasBody }) => hasBody);
    expect(writing.length).toBeGreaterThan(5);
    const large = JSON.stringify({ filler: "x".repeat(BODY_BYTES) });
    for (const [body, more] of [
      [large, {}],
      [gzipSync(large), { "content-encoding": "gzip" }],
    ] as const) {
      const answers = await each(writing, ({ method, path }) =>
        under.send(method, path, body, { ...bearer(OPERATOR), ...more }),
      );
      expect(answers).toEqual(allOf(writing, "413"));
    }
  });

  test("with a body answers 400 to what is no JSON object", async () => {
    const { under, operations } = await ready();
    const writing = operations.filter(({ hasBody }) => hasBody);
    const bodies: [string | Buffer, Record<string, string>][] = [
      ['{"reward": ', {}],
      ["[]", {}],
      ["null", {}],
      ['"text"', {}],
      [Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), {}],
      ["{}", { "content-encoding": "gzip" }],
      ["[".repeat(5000), {}],
    ];
    for (const [body, more] of bodies) {
      const answers = await each(writing, ({ method, path }) =>
        under.send(method, path, body, { ...bearer(OPERATOR), ...more }),
      );
      expect([String(body).slice(0, 20), answers]).toEqual([
        String(body).slice(0, 20),
        allOf(writing, "400"),
      ]);
    }
  });

  test("answers less than 500 to fields of the wrong type, odd ids and odd queries", async () => {
    const { under, operations } = await ready();
    const finite = operations.filter(({ name }) => !ENDLESS.has(name));
    const odd = ["%00", "%20", "%ff", "..%2f..", "x".repeat(900), "%F0%9F%8C%B3", "__proto__", "constructor"];
    const values = [null, 0, -1, 1e308, true, "", "\u0000", [], {}, [[]], "x".repeat(3000)];
    for (const [index, value] of values.entries()) {
      for (const { method, path, name, hasBody } of finite) {
        const fields = [
          "model",
          "messages",
          "input",
          "prompt",
          "reward",
          "accepted",
          "final",
          "group_id",
          "version",
        ];
        const body = Object.fromEntries(
          [...fields, "__proto__", "stream", "n", "tools"].map((key) => [key, value]),
        );
        const at = `${path.replace(/-1/, odd[index % odd.length] as string)}?limit=${encodeURIComponent(JSON.stringify(value))}&format=%00&${index}`;
        const answered = await under.send(method, at, hasBody ? body : undefined, bearer(OPERATOR));
        expect([name, at, answered.status]).toEqual([
          name,
          at,
          expect.toSatisfy((status: number) => status < 500),
        ]);
      }
    }
    expect(under.logged.filter(({ event }) => event === "request_failed")).toEqual([]);
  });
});
