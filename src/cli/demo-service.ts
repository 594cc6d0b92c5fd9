// One run of the demo: engine, ledger, gateway and agent in this process, and HTTP between all of them. With the
// stand-in each run has an engine of its own, since the stand-in counts.
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startStandIn } from "../engine/stand-in.ts";
import { vllmEngine } from "../engine/vllm.ts";
import { startGateway } from "../gateway/server.ts";
import { openSqliteLedger } from "../ledger/sqlite-ledger.ts";
import { GROUP_ID, playShortRollout, playWholeRollout, type DemoMode } from "./demo-agent.ts";
import { readCalls, readRows, type DemoFailure, type DemoRow } from "./demo-report.ts";
import { runningTotal, workedExample } from "./demo-task.ts";
import type { DrawnCall } from "./draw-forest.ts";

export interface DemoEngine {
  readonly url: string;
  /** Null: the first that the engine lists. */
  readonly model: string | null;
}

export interface DemoRun {
  readonly mode: DemoMode;
  readonly rollouts: readonly { readonly rolloutId: string; readonly calls: readonly DrawnCall[] }[];
  readonly rows: readonly DemoRow[];
  readonly failures: readonly DemoFailure[];
  readonly rowsFile: string;
  readonly ledgerFile: string;
}

export interface DemoRunOptions {
  readonly mode: DemoMode;
  /** A folder that is there. */
  readonly out: string;
  /** Null: the stand-in. */
  readonly engine: DemoEngine | null;
  readonly signal: AbortSignal;
}

/** Plays both rollouts of the group and writes `MODE.rows.jsonl` beside the ledger `MODE.ledger.db`, made anew. */
export async function runDemoOnce(options: DemoRunOptions): Promise<DemoRun> {
  const { mode, out, signal } = options;
  const ledgerFile = join(out, `${mode}.ledger.db`);
  const rowsFile = join(out, `${mode}.rows.jsonl`);
  for (const leftOver of [ledgerFile, `${ledgerFile}-wal`, `${ledgerFile}-shm`, rowsFile]) {
    await rm(leftOver, { force: true });
  }
  const closing: (() => Promise<void>)[] = [];
  try {
    const gatewayUrl = await startService(options, ledgerFile, closing);
    const group = { gatewayUrl, model: options.engine?.model ?? "policy", mode, signal };
    const standIn = options.engine === null;
    await playWholeRollout(group, standIn ? workedExample("r0", 0) : runningTotal());
    await playShortRollout(group, standIn ? workedExample("r1", 1) : runningTotal());
    const rollouts = await Promise.all(
      ["r0", "r1"].map(async (rolloutId) => ({
        rolloutId,
        calls: await readCalls(gatewayUrl, rolloutId, signal),
      })),
    );
    const { jsonLines, rows, failures } = await readRows(gatewayUrl, GROUP_ID, signal);
    await writeFile(rowsFile, jsonLines);
    return { mode, rollouts, rows, failures, rowsFile, ledgerFile };
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

/** Starts what the agent talks to and gives the gateway's address; what must be closed is noted as it is opened. */
async function startService(
  { engine: real }: DemoRunOptions,
  ledgerFile: string,
  closing: (() => Promise<void>)[],
): Promise<string> {
  let url = real?.url;
  if (url === undefined) {
    const standIn = await startStandIn({ mode: "counters" });
    closing.push(() => standIn.close());
    url = standIn.url;
  }
  const engine = vllmEngine({ url, logprobsMode: "raw" });
  closing.push(() => engine.close());
  const ledger = await openSqliteLedger(ledgerFile);
  closing.push(() => ledger.close());
  const model = real?.model ?? null;
  const gateway = await startGateway({
    engine,
    ledger,
    host: "127.0.0.1",
    port: 0,
    log: () => undefined,
    ...(model === null ? {} : { model }),
  });
  closing.push(() => gateway.close());
  return gateway.url;
}
