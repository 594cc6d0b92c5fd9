// Numbers of JSON Lines: float32 as the shortest decimal that reads back, always with a point or an exponent.
import fc from "fast-check";
import { expect, test } from "vitest";
import { formatFloat32 } from "./json-lines.ts";

const anyFloat32 = fc.oneof(
  fc.float({ noNaN: true, noDefaultInfinity: true }),
  // Where log-probs are.
  fc.float({ min: -40, max: Math.fround(-1e-5), noNaN: true }),
  // Decimals of few digits, and halves of halves, whose ninth digit is a tie.
  fc
    .tuple(fc.integer({ min: -9_999_999, max: 9_999_999 }), fc.nat(8))
    .map(([n, places]) => Math.fround(n / 10 ** places)),
  fc
    .tuple(fc.integer({ min: -5000, max: 5000 }), fc.nat(20))
    .map(([n, halves]) => Math.fround(n / 2 ** halves)),
);

test("a float32 reads back to the same, and no decimal of fewer digits does", () => {
  fc.assert(
    fc.property(anyFloat32, (value) => {
      const text = formatFloat32(value);
      expect(Object.is(Math.fround(Number(text)), value)).toBe(true);
      expect(text).toMatch(/[.e]/);
      const digits = text
        .replace(/e.*$/, "")
        .replace(/[-.]/g, "")
        .replace(/^0+/, "")
        .replace(/0+$/, "").length;
      // Below the smallest normal number a float32 has fewer bits, so also fewer digits.
      for (let fewer = 1; fewer < digits; fewer++) {
        expect(Math.fround(Number(value.toPrecision(fewer)))).not.toBe(value);
      }
    }),
    { numRuns: 3000 },
  );
});

test.each([
  [-0.1, "-0.1"],
  [-10.9159, "-10.9159"],
  [1, "1.0"],
  [0, "0.0"],
  [-0, "-0.0"],
  [0.0001, "0.0001"],
  [999_999.9375, "999999.94"],
  [1e6, "1000000.0"],
  [1e-10, "1e-10"],
  [Number.NaN, "null"],
  [Number.NEGATIVE_INFINITY, "null"],
])("%d is written as %s", (value, text) => {
  expect(formatFloat32(Math.fround(value))).toBe(text);
});
