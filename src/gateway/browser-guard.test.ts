import { request } from "node:http";
import { describe, expect, test } from "vitest";
import { browserGuard } from "./browser-guard.ts";
import { startUnderTest } from "./testing/gateway-under-test.ts";

const OPEN = { host: "127.0.0.1", open: true, allowedHosts: [], allowedOrigins: [] };

describe("a request's Host", () => {
  const guard = browserGuard(OPEN);

  test.each(["127.0.0.1:8790", "localhost:1", "LOCALHOST", "[::1]:8790", "127.0.0.9:1", "localhost.:1"])(
    "%s is a name of a gateway on loopback",
    (host) => {
      expect(() => guard("GET", { host })).not.toThrow();
    },
  );

  test.each([
    "evil.example",
    "evil.example:8790",
    "127.0.0.1.evil.example",
    "192.168.1.2:8790",
    "[fe80::1]:1",
    "",
  ])("%s is none, where no key is needed", (host) => {
    expect(() => guard("GET", { host })).toThrow(/no name of this gateway/);
  });

  test("is anything where a key is needed, unless names were given", () => {
    const keyed = { ...OPEN, open: false };
    expect(() => browserGuard(keyed)("GET", { host: "coppice.internal" })).not.toThrow();
    const named = browserGuard({ ...keyed, allowedHosts: ["coppice.internal"] });
    expect(() => named("GET", { host: "coppice.internal:443" })).not.toThrow();
    expect(() => named("GET", { host: "other.internal" })).toThrow(/--allow-host/);
  });
});

describe("a page", () => {
  const guard = browserGuard({ ...OPEN, allowedOrigins: ["https://tools.example"] });
  const host = "127.0.0.1:8790";

  test("of another origin may not call, by any method", () => {
    for (const origin of [
      "http://evil.example",
      "null",
      "http://127.0.0.1:3000",
      "https://tools.example.evil",
    ]) {
      expect(() => guard("POST", { host, origin })).toThrow(/may not call/);
    }
    expect(() => guard("GET", { host, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors" })).toThrow(
      /another site/,
    );
    expect(() =>
      guard("POST", { host, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" }),
    ).toThrow(/another site/);
  });

  test("of the gateway itself, of a listed origin and a followed link may", () => {
    expect(() => guard("POST", { host, origin: "http://127.0.0.1:8790" })).not.toThrow();
    expect(() => guard("POST", { host, origin: "https://tools.example" })).not.toThrow();
    expect(() => guard("GET", { host, "sec-fetch-site": "same-origin" })).not.toThrow();
    expect(() =>
      guard("GET", { host, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" }),
    ).not.toThrow();
  });
});

test("A request by a stranger's name is refused before anything is recorded", async () => {
  const under = await startUnderTest();
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const sent = request(`${under.url}/r/r1/v1/chat/completions`, {
      method: "POST",
      headers: { host: "rebound.example" },
    });
    sent.on("response", (response) => resolve(response.resume().statusCode)).on("error", reject);
    sent.end(JSON.stringify({ model: "m", messages: [{ role: "user", content: "hello" }] }));
  });
  expect(status).toBe(403);
  expect(await under.calls("r1")).toEqual([]);
  const posted = await under.send("POST", "/rollouts/r1/outcome", "{}", {
    "content-type": "text/plain",
    origin: "http://evil.example",
  });
  expect(posted.status).toBe(403);
});
