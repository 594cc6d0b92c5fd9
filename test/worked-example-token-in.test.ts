// The worked example with answers that all read alike: only the ids tell c4 from c5 and c7 from c8. Asked token-in it
// gives the documentation's rows all the same; asked with messages it cannot.
import { readFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import { playShortRollout, playWholeRollout, type DemoMode } from "../src/cli/demo-agent.ts";
import { workedExample } from "../src/cli/demo-task.ts";
import { startStandIn } from "../src/engine/stand-in.ts";
import { vllmEngine } from "../src/engine/vllm.ts";
import { startGateway } from "../src/gateway/server.ts";
import type { Way } from "../src/gateway/token-in-check.ts";
import { openSqliteLedger } from "../src/ledger/sqlite-ledger.ts";
import { rolloutId, type Call } from "../src/lineage/call.ts";

type Json = Record<string, unknown>;

interface Played {
  readonly rows: readonly Json[];
  readonly calls: readonly Call[];
}

async function play(mode: DemoMode, way: Way): Promise<Played> {
  const standIn = await startStandIn({ mode: "counters", sameTexts: true });
  const engine = vllmEngine({ url: standIn.url, kind: "stand-in" });
  const ledger = await openSqliteLedger(":memory:");
  const gateway = await startGateway({
    engine,
    ledger,
    way,
    host: "127.0.0.1",
    port: 0,
    log: () => undefined,
  });
  onTestFinished(async () => {
    await gateway.close();
    await ledger.close();
    await engine.close();
    await standIn.close();
  });
  const group = { gatewayUrl: gateway.url, model: "policy", mode, signal: AbortSignal.timeout(20_000) };
  await playWholeRollout(group, workedExample("r0", 0));
  await playShortRollout(group, workedExample("r1", 1));
  const answered = await fetch(`${gateway.url}/groups/group/rows?format=jsonl`);
  const rows = (await answered.text())
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Json);
  return { rows, calls: await ledger.calls({ rolloutId: rolloutId("r0"), attempt: null }) };
}

function expected(mode: DemoMode): readonly Json[] {
  const file = new URL(`../vectors/seed-compaction-${mode}.json`, import.meta.url);
  const { expected: rows } = JSON.parse(readFileSync(file, "utf8")) as { readonly expected: readonly Json[] };
  // The ids that the gateway mints are its own.
  return rows.map(({ call_ids: _calls, ...row }) => row);
}

test.each(["off", "on"] as const)(
  "with compaction %s and texts that all read alike the token-in rows are the worked example's",
  async (mode) => {
    const { rows, calls } = await play(mode, "token-in");
    expect(new Set(calls.map(({ answer }) => answer?.["content"])).size).toBe(1);
    expect(new Set(calls.map(({ generatedTokenIds }) => generatedTokenIds[0])).size).toBe(9);
    expect(calls.map(({ way, notes }) => [way, notes])).toEqual(calls.map(() => ["token-in", []]));
    expect(rows).toMatchObject(expected(mode));
    expect(rows).toHaveLength(expected(mode).length);
  },
);

test("asked with messages the same texts drift at every call", async () => {
  const { calls } = await play("off", "text");
  expect(calls.map(({ rootReason }) => rootReason?.kind ?? null)).toEqual([
    null,
    ...Array.from({ length: 8 }, () => "drift"),
  ]);
});
