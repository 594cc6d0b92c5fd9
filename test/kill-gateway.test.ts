// A busy gateway is killed with SIGKILL at 50 random moments. Every answer that a client received whole must be in the
// ledger with its tokens, every record must verify, and what was under way must read as `unknown`.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { startStandIn } from "../src/engine/stand-in.ts";
import { openSqliteLedger } from "../src/ledger/sqlite-ledger.ts";
import type { Call } from "../src/lineage/call.ts";
import { checkRecords } from "../src/rows/check-records.ts";

const KILLS = 50;
const CLIENTS = 6;
const LONGEST_RUN_MS = 250;
const PROGRAM = fileURLToPath(new URL("../src/cli/main.ts", import.meta.url));

/** Starts `coppice serve` from its source and resolves with its address. */
async function serve(engineUrl: string, ledger: string): Promise<{ child: ChildProcess; url: string }> {
  const child = spawn(
    process.execPath,
    [
      ...process.execArgv,
      PROGRAM,
      "serve",
      "--engine",
      engineUrl,
      "--model",
      "stand-in",
      "--ledger",
      ledger,
      "--port",
      "0",
    ],
    { stdio: ["ignore", "pipe", "ignore"] },
  );
  const [line] = (await once(child.stdout as NodeJS.ReadableStream, "data")) as [Buffer];
  return { child, url: /http:\/\/\S+:\d+/.exec(line.toString())?.[0] as string };
}

/** Asks until the gateway is gone; notes the call ids of answers that came whole. */
async function askUntilKilled(url: string, rollout: string, answered: Set<string>): Promise<void> {
  for (let turn = 0; ; turn++) {
    const stream = turn % 2 === 0;
    try {
      const response = await fetch(`${url}/r/${rollout}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          model: "policy",
          messages: [{ role: "user", content: `t${turn} t7` }],
          stream,
        }),
      });
      const text = await response.text();
      const isWhole = stream ? text.endsWith("data: [DONE]\n\n") : text.endsWith("}");
      if (response.status === 200 && isWhole)
        answered.add(response.headers.get("x-coppice-call-id") as string);
    } catch (error) {
      if (error instanceof TypeError) return;
      throw error;
    }
  }
}

test("kill -9 at 50 moments of a busy run loses no answered call and leaves a ledger that verifies", async () => {
  const seed = Number(process.env["COPPICE_SEED"] ?? Date.now() % 1_000_000);
  process.stdout.write(`kill test: COPPICE_SEED=${seed}\n`);
  let state = seed;
  const random = (): number => (state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0) / 2 ** 32;
  const folder = await mkdtemp(join(tmpdir(), "coppice-kill-"));
  const path = join(folder, "kill.db");
  const standIn = await startStandIn({ delayMs: 1 });
  const answered = new Set<string>();
  try {
    for (let kill = 0; kill < KILLS; kill++) {
      const { child, url } = await serve(standIn.url, path);
      const clients = Array.from({ length: CLIENTS }, (_, client) =>
        askUntilKilled(url, `k${kill}-${client}`, answered),
      );
      await new Promise((resolve) => setTimeout(resolve, 20 + random() * LONGEST_RUN_MS));
      child.kill("SIGKILL");
      await once(child, "exit");
      await Promise.all(clients);
    }
    const ledger = await openSqliteLedger(path);
    const calls = new Map<string, Call>();
    let unknown = 0;
    for (const rollout of await ledger.rollouts({})) {
      const records = await ledger.calls(rollout);
      expect(checkRecords(records)).toBeNull();
      expect(rollout.counts.admitted).toBe(records.length);
      for (const call of records) calls.set(call.callId, call);
      unknown += records.filter((call) => call.status === "unknown").length;
      expect(records.filter((call) => call.status === "admitted")).toEqual([]);
    }
    await ledger.close();
    for (const id of answered) {
      expect(calls.get(id)?.status, id).toBe("committed");
      expect(calls.get(id)?.generatedLength, id).toBeGreaterThan(0);
    }
    process.stdout.write(`kill test: ${answered.size} answers received whole, ${unknown} calls unknown\n`);
    expect(answered.size).toBeGreaterThan(KILLS);
    expect(unknown).toBeGreaterThan(0);
  } finally {
    await standIn.close();
    await rm(folder, { recursive: true, force: true });
  }
}, 240_000);
