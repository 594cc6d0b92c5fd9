import { get } from "node:https";
import { expect, test } from "vitest";
import { startGateway } from "./server.ts";
import { startUnderTest } from "./testing/gateway-under-test.ts";
import { selfSigned } from "./testing/self-signed.ts";

test("With a certificate the gateway speaks HTTPS, to clients that trust it, and stops as it does without", async () => {
  const { engine, ledger } = await startUnderTest();
  const tls = selfSigned();
  const gateway = await startGateway({
    engine,
    ledger,
    host: "127.0.0.1",
    port: 0,
    tls,
    log: () => undefined,
  });
  expect(gateway.url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
  const status = (ca: string | undefined): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      get(`${gateway.url}/healthz`, ca === undefined ? {} : { ca }, (response) => {
        resolve(response.resume().statusCode);
      }).on("error", reject);
    });
  expect(await status(tls.cert)).toBe(200);
  await expect(status(undefined)).rejects.toThrow(/self.signed/i);
  await expect(fetch(`${gateway.url.replace("https", "http")}/healthz`)).rejects.toThrow();
  await gateway.close();
});
