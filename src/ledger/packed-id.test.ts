import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { packId, unpackId } from "./packed-id.ts";

const anyId = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9._:@+-]{1,60}$/),
  fc.stringMatching(/^[a-f-]{0,4}[0-9a-f]{12,40}$/),
);

describe("ids as they are kept", () => {
  test("any id comes back, and two ids never have one form", () => {
    fc.assert(
      fc.property(anyId, anyId, (one, other) => {
        expect(unpackId(packId(one))).toBe(one);
        const same = Buffer.from(packId(one)).equals(Buffer.from(packId(other)));
        expect(same && typeof packId(one) === typeof packId(other)).toBe(one === other);
      }),
      { numRuns: 500 },
    );
  });

  test("a random ending takes half the room, other ids stay text", () => {
    expect(packId("call-0123456789abcdef0123456789abcdef")).toHaveLength(22);
    expect(packId("0123456789abcdef")).toHaveLength(9);
    expect(packId("call-0123456789ABCDEF")).toBe("call-0123456789ABCDEF");
    expect(packId("call-0123456789abcdef.0")).toBe("call-0123456789abcdef.0");
    expect(packId("c1")).toBe("c1");
  });
});
