import { describe, expect, test } from "vitest";
import { InFlightLimits } from "./in-flight-limits.ts";

describe("limits of what is in flight", () => {
  test("let out what they let in, once however often it leaves", () => {
    const limits = new InFlightLimits({ calls: 1, bytes: 100 });
    const { leave } = limits.enter(10);
    expect(() => limits.enter(10)).toThrow(/1 calls are in flight/);
    leave();
    leave();
    const again = limits.enter(10);
    expect(() => limits.enter(10)).toThrow(/1 calls are in flight/);
    again.leave();
  });

  test("bound bytes together, but let one body in alone, however large", () => {
    const limits = new InFlightLimits({ calls: 10, bytes: 100 });
    const { leave } = limits.enter(500);
    expect(() => limits.enter(1)).toThrow(/bodies of 500 bytes/);
    leave();
    limits.enter(60);
    limits.enter(40);
    expect(() => limits.enter(1)).toThrow(/bodies of 100 bytes/);
  });

  test("count what a body unpacked to, and give all of it back", () => {
    const limits = new InFlightLimits({ calls: 10, bytes: 100 });
    const first = limits.enter(0);
    const second = limits.enter(10);
    second.hold(60);
    second.hold(20);
    expect(limits.bytes).toBe(60);
    expect(() => first.hold(41)).toThrow(/41 more are past the limit/);
    first.hold(40);
    second.leave();
    expect(limits.bytes).toBe(40);
    first.hold(5000);
    first.leave();
    first.hold(1);
    expect(limits.bytes).toBe(0);
  });

  test("let nobody in while shutting down", () => {
    const limits = new InFlightLimits({ calls: 10, bytes: 100 });
    limits.close();
    expect(() => limits.enter(0)).toThrow(/shutting down/);
  });
});
