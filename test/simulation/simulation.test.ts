// Simulated lives from seeds, over the naive ledger and over the embedded one. COPPICE_SIMULATION_SEEDS says how many, and
// COPPICE_SIMULATION_FIRST where to begin: 10,000 take about a minute. A seed that failed once is named below.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { openSqliteLedger } from "../../src/ledger/sqlite-ledger.ts";
import { MemoryLedger } from "../../src/ledger/testing/memory-ledger.ts";
import { playLife, type Life, type SimulatedLedger } from "./life.ts";
import { Promises } from "./promises.ts";

const SEEDS = Number(process.env["COPPICE_SIMULATION_SEEDS"] ?? 300);
const FIRST = Number(process.env["COPPICE_SIMULATION_FIRST"] ?? 1);
/** The embedded ledger writes to a disk: a life takes it a hundred times as long. */
const SQLITE_SEEDS = Math.min(20, Math.ceil(SEEDS / 20));

interface Made extends SimulatedLedger {
  readonly dispose: () => Promise<void>;
}

async function naive(): Promise<Made> {
  const ledger = new MemoryLedger();
  return {
    ledger,
    restart: () => {
      ledger.restart();
      return Promise.resolve(ledger);
    },
    dispose: () => Promise.resolve(),
  };
}

async function embedded(): Promise<Made> {
  const folder = mkdtempSync(join(tmpdir(), "coppice-simulation-"));
  const open = (): ReturnType<typeof openSqliteLedger> =>
    openSqliteLedger(join(folder, "ledger.db"), { worker: false });
  let ledger = await open();
  return {
    ledger,
    restart: async () => {
      await ledger.close();
      ledger = await open();
      return ledger;
    },
    dispose: async () => {
      await ledger.close();
      rmSync(folder, { recursive: true });
    },
  };
}

async function play(seed: number, make: () => Promise<Made>): Promise<Life> {
  const made = await make();
  const promises = new Promises();
  try {
    const life = await playLife(seed, made, (one) => promises.look(one));
    await promises.end(life);
    return life;
  } catch (error) {
    throw new Error(`seed ${seed}: ${String(error)}`, { cause: error });
  } finally {
    // Marks that wait to be tried again: those of the dead would be carried along for good.
    vi.clearAllTimers();
    await made.dispose();
  }
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe("a simulated life keeps every promise", () => {
  test(`over the naive ledger, ${SEEDS} seeds from ${FIRST} on`, async () => {
    const seen = { calls: 0, claims: 0, acknowledged: 0, again: 0, marked: 0 };
    for (let seed = FIRST; seed < FIRST + SEEDS; seed += 1) {
      const life = await play(seed, naive);
      seen.calls += life.received.length;
      seen.claims += life.claims.length;
      seen.acknowledged += life.acknowledged.size;
      seen.again += life.claims.length - life.acknowledged.size;
      seen.marked += life.received.filter(({ isMarked }) => isMarked).length;
    }
    // A simulation in which nothing goes wrong proves nothing.
    if (SEEDS >= 100) for (const count of Object.values(seen)) expect(count).toBeGreaterThan(SEEDS / 20);
  }, 600_000);

  test(`over the embedded ledger, ${SQLITE_SEEDS} seeds from ${FIRST} on`, async () => {
    for (let seed = FIRST; seed < FIRST + SQLITE_SEEDS; seed += 1) await play(seed, embedded);
  }, 600_000);

  test("with two claims at once of a group that is past its deadline (seed 99 gave it to both)", async () => {
    await play(99, naive);
    await play(99, embedded);
  });

  test("and a seed plays the same life again", async () => {
    const told = async (): Promise<unknown> => {
      const { received, claims, schedule } = await play(7, naive);
      return [received.map(({ prompt, generated }) => [prompt, generated]), claims.length, schedule.now];
    };
    expect(await told()).toEqual(await told());
  });
});
