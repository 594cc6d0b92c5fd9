import { expect, test } from "vitest";
import { CoppiceError } from "../errors.ts";
import { KeyLimits } from "./key-limits.ts";
import { startUnderTest } from "./testing/gateway-under-test.ts";

function refusedWith(enter: () => unknown): string | null {
  try {
    enter();
    return null;
  } catch (error) {
    if (!(error instanceof CoppiceError)) throw error;
    return `${error.status} ${String(error.detail?.["retry_after"])}`;
  }
}

test("A key's calls in flight are counted apart from others', and leaving twice counts once", () => {
  const limits = new KeyLimits({ callsInFlight: 2, callsPerMinute: Infinity }, () => 0);
  const leave = limits.enter("a");
  limits.enter("a");
  expect(refusedWith(() => limits.enter("a"))).toBe("429 1");
  expect(refusedWith(() => limits.enter("b"))).toBeNull();
  leave();
  leave();
  expect(refusedWith(() => limits.enter("a"))).toBeNull();
  expect(refusedWith(() => limits.enter("a"))).toBe("429 1");
});

test("A key that used its minute up is told when to come again", () => {
  let now = 0;
  const limits = new KeyLimits({ callsInFlight: Infinity, callsPerMinute: 4 }, () => now);
  for (let call = 0; call < 4; call += 1) limits.enter("a")();
  expect(refusedWith(() => limits.enter("a"))).toBe("429 15");
  now = 14_000;
  expect(refusedWith(() => limits.enter("a"))).toBe("429 1");
  now = 15_000;
  expect(refusedWith(() => limits.enter("a"))).toBeNull();
  expect(refusedWith(() => limits.enter("a"))).toBe("429 15");
});

test("Past a key's limit the gateway answers 429 with retry-after, in the caller's dialect", async () => {
  const under = await startUnderTest({
    gateway: { clientKeys: ["client-key-1", "client-key-2"], limits: { callsPerMinutePerKey: 1 } },
  });
  const body = { model: "m", max_tokens: 8, messages: [{ role: "user", content: "hello" }] };
  const call = (key: string): ReturnType<typeof under.send> =>
    under.send("POST", "/r/r1/v1/messages", body, { "x-api-key": key });
  expect((await call("client-key-1")).status).toBe(200);
  const refused = await call("client-key-1");
  expect([refused.status, refused.json["type"]]).toEqual([429, "error"]);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(30);
  expect((await call("client-key-2")).status).toBe(200);
});
