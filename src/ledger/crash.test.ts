import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { callId, rolloutId, type Call } from "../lineage/call.ts";
import { digestCall } from "../lineage/record-digest.ts";
import { addressOf, emptySequence, extendSequence } from "../lineage/sequence.ts";
import type { Ledger } from "./ledger.ts";
import { openSqliteLedger } from "./sqlite-ledger.ts";
import { ledgerPath } from "./testing/ledger-folder.ts";
import { key } from "./testing/sample-calls.ts";

const KILLS = 50;
/** Longest time between the first promise and the kill. */
const LONGEST_RUN_MS = 250;
/** Every so many runs the kill comes while the process starts or takes the ledger over: counted from its start. */
const EARLY_KILL_EVERY = 5;
const EARLIEST_KILL_MS = 120;
const CHILD = fileURLToPath(new URL("./testing/crash-child.ts", import.meta.url));

/** What the process was promised before it died. */
interface Promised {
  readonly admitted: ReadonlySet<string>;
  /** `settledOrder digest` by call id. */
  readonly settled: ReadonlyMap<string, string>;
}

/** Starts the process, lets it work for a while and kills it as `kill -9` does. Half-written lines are no promise. */
async function runAndKill(
  path: string,
  { run, seed, afterMs }: { readonly run: number; readonly seed: number; readonly afterMs: number },
): Promise<Promised> {
  // `--import` of the loader comes along with the arguments of this very process.
  const child = spawn(process.execPath, [...process.execArgv, CHILD, path, String(run), String(seed)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const admitted = new Set<string>();
  const settled = new Map<string, string>();
  let buffered = "";
  const kill = (): boolean => child.kill("SIGKILL");
  const isEarly = run % EARLY_KILL_EVERY === EARLY_KILL_EVERY - 1;
  let killer = isEarly ? setTimeout(kill, EARLIEST_KILL_MS + afterMs) : null;
  child.stdout.setEncoding("utf8");
  child.stdout.on("data", (text: string) => {
    killer ??= setTimeout(kill, afterMs);
    const lines = (buffered + text).split("\n");
    buffered = lines.pop() ?? "";
    for (const line of lines) {
      const [what, id = "", ...rest] = line.split(" ");
      if (what === "admitted") admitted.add(id);
      if (what === "settled") settled.set(id, rest.join(" "));
    }
  });
  const [code, signal] = (await once(child, "close")) as [number | null, string | null];
  expect({ code, signal }, "it died of the kill and nothing else").toEqual({ code: null, signal: "SIGKILL" });
  return { admitted, settled };
}

/** Every promise that the process was given holds; what it left in flight is unknown. */
async function checkPromises(ledger: Ledger, run: number, { admitted, settled }: Promised): Promise<void> {
  const calls = new Map<string, Call>();
  for (let lane = 0; lane < 4; lane++) {
    for (const call of await ledger.calls(key(null, rolloutId(`run${run}-r${lane}`))))
      calls.set(call.callId, call);
  }
  for (const [id, promise] of settled) {
    const call = calls.get(id);
    expect(call === undefined ? "lost" : `${call.settledOrder} ${call.digest}`, id).toBe(promise);
    expect(call?.status).toBe("committed");
  }
  for (const id of admitted) expect(calls.has(id), `${id} was admitted`).toBe(true);
  for (const call of calls.values()) {
    expect(digestCall(call), call.callId).toBe(call.digest);
    if (call.status !== "committed") expect(call.status, call.callId).toBe("unknown");
  }
}

/** Counts prove completeness: orders are 1, 2, 3 ... and every admission has settled one way or the other. */
async function checkCounts(ledger: Ledger): Promise<void> {
  for (const rollout of await ledger.rollouts({})) {
    const calls = await ledger.calls(rollout);
    const { counts } = rollout;
    expect(counts).toMatchObject({ admitted: calls.length, failed: 0, aborted: 0, late: 0 });
    expect(counts.committed + counts.unknown, rollout.rolloutId).toBe(counts.admitted);
    const orders = calls.flatMap((call) => [call.admittedOrder, call.settledOrder as number]);
    expect(orders.toSorted((one, other) => one - other)).toEqual(orders.map((_, index) => index + 1));
  }
}

async function checkSequence(ledger: Ledger, id: string): Promise<void> {
  const tokens = await ledger.sequence(callId(id));
  const call = await ledger.call(callId(id));
  expect(addressOf(extendSequence(emptySequence(), tokens as Uint32Array), [])).toBe(call?.address);
}

test(
  `after ${KILLS} kills at any moment every promise holds, and what was in flight is unknown`,
  { timeout: 300_000 },
  async () => {
    const seed = Number(process.env["COPPICE_CRASH_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
    // Times of kills cannot be told again, what is written can.
    console.log(`crash test: COPPICE_CRASH_SEED=${seed}`);
    const path = ledgerPath();
    let settledInAll = 0;
    for (let run = 0; run < KILLS; run++) {
      const afterMs = ((seed + run * 7919) % 1009) * (LONGEST_RUN_MS / 1009);
      const promised = await runAndKill(path, { run, seed: seed + run * 1000, afterMs });
      settledInAll += promised.settled.size;
      const reader = await openSqliteLedger(path, { readOnly: true, worker: false });
      await checkPromises(reader, run, promised);
      await reader.close();
    }
    expect(settledInAll).toBeGreaterThan(KILLS);
    const ledger = await openSqliteLedger(path, { worker: false });
    await checkCounts(ledger);
    for (const { callId: id } of (await ledger.calls(key(null, rolloutId(`run${KILLS - 1}-r0`)))).slice(
      0,
      50,
    )) {
      const call = await ledger.call(id);
      if (call?.status === "committed") await checkSequence(ledger, id);
    }
    await ledger.close();
    console.log(`crash test: ${settledInAll} settles were promised and kept`);
  },
);
