import fc from "fast-check";
import { expect, test } from "vitest";
import { callPath, forestPath, parseRoute, rowPath } from "./route.ts";

test("every id comes back out of the address that it was put into", () => {
  fc.assert(
    fc.property(
      fc.string({ minLength: 1, unit: "grapheme" }),
      fc.string({ minLength: 1, unit: "grapheme" }),
      (rollout, call) => {
        const place = { source: "ledger", rollout } as const;
        expect(parseRoute(callPath(place, call))).toMatchObject({ view: "call", place, callId: call });
        expect(parseRoute(rowPath(place, 3))).toMatchObject({ view: "row", place, index: 3 });
        expect(parseRoute(forestPath(place))).toMatchObject({ view: "forest", place });
        expect(parseRoute(forestPath(place, { call })).params.get("call")).toBe(call);
      },
    ),
  );
});

test("an address that names nothing is the list's, and one that was cut short does not throw", () => {
  for (const hash of ["", "#", "#/", "#/nothing/here"]) expect(parseRoute(hash).view).toBe("list");
  expect(parseRoute("#/rollout/a%E0%A4%A")).toMatchObject({
    view: "forest",
    place: { rollout: "a%E0%A4%A" },
  });
});

test("the worked example has an address for either state", () => {
  expect(parseRoute("#/example/on")).toMatchObject({ place: { source: "example-on", rollout: "r0" } });
  expect(parseRoute("#/example/off/call/c4")).toMatchObject({
    view: "call",
    callId: "c4",
    place: { source: "example-off" },
  });
});
