// Golden: every file in vectors/ is reproduced. A field that `expected` gives must be equal; the product may give more.
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { rowsOfTrace } from "./trace.ts";

const folder = new URL("../../vectors/", import.meta.url);

interface Vector {
  readonly name: string;
  readonly why: string;
  readonly trace: unknown[];
  readonly expected: Record<string, unknown>[];
}

describe("rows of a trace", () => {
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".json"))) {
    const vector = JSON.parse(readFileSync(new URL(file, folder), "utf8")) as Vector;
    test(`${vector.name}: ${vector.why}`, () => {
      const rows = rowsOfTrace(vector.trace);
      expect(rows).toHaveLength(vector.expected.length);
      for (const [index, expected] of vector.expected.entries()) expect(rows[index]).toMatchObject(expected);
    });
  }
});
