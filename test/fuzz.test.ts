import { expect, test } from "vitest";
import { runFuzz } from "./fuzz/run-fuzz.ts";
import { Dice, mutateBytes, mutateJson } from "./fuzz/mutate.ts";

test.each(["text", "auto"] as const)(
  "mutated requests and engine answers crash nothing, and every record verifies afterwards: %s",
  async (way) => {
    const seed = Number(process.env["FUZZ_SEED"] ?? 20_261_130);
    const figures = await runFuzz({ seed, requests: 1_500, concurrency: 16, way });
    console.info(`fuzz with seed ${seed}: ${JSON.stringify(figures)}`);
    expect(figures.faults).toEqual([]);
    // Enough of them got somewhere, and enough did not.
    expect(figures.statuses["200"]).toBeGreaterThan(150);
    expect(figures.statuses["400"]).toBeGreaterThan(100);
    expect(figures.calls["committed"]).toBeGreaterThan(50);
    expect(figures.token_in > 20).toBe(way === "auto");
    const calls = Object.values(figures.calls).reduce((sum, count) => sum + count, 0);
    expect(calls - figures.roots).toBeGreaterThan(5);
  },
  90_000,
);

test("one seed gives one row of mutations", () => {
  const play = (): unknown[] => {
    const dice = new Dice(7);
    const json = { messages: [{ role: "user", content: "hello" }], n: 1 };
    return Array.from({ length: 50 }, () => [
      mutateJson(json, dice),
      mutateBytes(Buffer.from("hello"), dice).toString(),
    ]);
  };
  expect(play()).toEqual(play());
});
