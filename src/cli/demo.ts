// `coppice demo`: the worked example, played for real. An agent takes seven actions and throws two answers away, once
// with its whole history as context and once with compaction every two actions; gateway, ledger and engine record it,
// and what is printed is read back from the gateway. With --engine the same agent plays with a real model.
import { mkdir } from "node:fs/promises";
import { Command } from "commander";
import { CoppiceError, messageOf } from "../errors.ts";
import type { DemoMode } from "./demo-agent.ts";
import { drawDemo } from "./demo-drawing.ts";
import { runDemoOnce, type DemoEngine, type DemoRun } from "./demo-service.ts";
import { styleFor } from "./paint.ts";
import { UsageError } from "./usage.ts";

export interface DemoOptions {
  /** A folder, made where it is not there; its files of an earlier demo are written anew. */
  readonly out: string;
  /** Null: the stand-in. */
  readonly engine: DemoEngine | null;
}

export interface DemoResult {
  /** Compaction off, then on. */
  readonly runs: readonly DemoRun[];
  /** What did not come out as it should; empty where all did. */
  readonly faults: readonly string[];
}

/** Rows of `r0` as [tokens, trained]; the other rollout gives one of [3, 1]. */
const EXPECTED: Readonly<Record<DemoMode, readonly (readonly [number, number])[]>> = {
  off: [[21, 7]],
  on: [
    [6, 2],
    [6, 2],
    [6, 2],
    [3, 1],
  ],
};

/** Milliseconds for the whole demo. */
const STAND_IN_LIMIT_MS = 60_000;
const ENGINE_LIMIT_MS = 600_000;

/** Plays both modes, one after the other. Throws `unavailable` where it takes too long. */
export async function runDemo({ out, engine }: DemoOptions): Promise<DemoResult> {
  await mkdir(out, { recursive: true });
  const limitMs = engine === null ? STAND_IN_LIMIT_MS : ENGINE_LIMIT_MS;
  const signal = AbortSignal.timeout(limitMs);
  const runs: DemoRun[] = [];
  try {
    for (const mode of ["off", "on"] as const) runs.push(await runDemoOnce({ mode, out, engine, signal }));
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new CoppiceError(
      "unavailable",
      `the demo was not done after ${limitMs / 1000} s: ${messageOf(error)}`,
      {
        cause: error,
      },
    );
  }
  return { runs, faults: runs.flatMap((run) => faultsOf(run, engine === null)) };
}

function faultsOf({ mode, rows, failures }: DemoRun, standIn: boolean): string[] {
  const refused = failures.map(
    ({ rollout_id, reason, detail }) => `${rollout_id} was refused: ${reason}: ${detail}`,
  );
  const mine = rows.filter(({ rollout_id }) => rollout_id === "r0");
  if (mine.length === 0) refused.push("r0 gave no rows");
  const faults = refused.map((fault) => `compaction ${mode}: ${fault}`);
  if (!standIn) return faults;
  const shapes = JSON.stringify(
    rows.map((row) => [row.token_ids.length, row.row_trainable_tokens, row.advantage]),
  );
  const expected = JSON.stringify([...EXPECTED[mode].map((shape) => [...shape, 0.5]), [3, 1, -0.5]]);
  if (shapes !== expected) {
    faults.push(`compaction ${mode}: rows are [tokens, trained, advantage] ${shapes}, not ${expected}`);
  }
  return faults;
}

interface CommandOptions {
  readonly out: string;
  readonly engine?: string;
  readonly model?: string;
  readonly json?: boolean;
}

export function demoCommand(): Command {
  return new Command("demo")
    .description(
      "play the worked example: an agent, the gateway and a stand-in model, with compaction off and on",
    )
    .option(
      "--out <dir>",
      "where rows and ledgers are written, over those of an earlier demo",
      "coppice-demo",
    )
    .option("--engine <url>", "play with this inference engine in place of the stand-in")
    .option("--model <name>", "with --engine: the model's name (default: the first that the engine lists)")
    .option("--json", "print one JSON object in place of the drawing")
    .addHelpText(
      "after",
      "\nExample:\n  coppice demo --out /tmp/demo && coppice show r0 --ledger /tmp/demo/on.ledger.db",
    )
    .action(demo);
}

async function demo({ out, engine, model, json }: CommandOptions): Promise<void> {
  if (engine === undefined && model !== undefined) {
    throw new UsageError("--model names a model of an engine: give --engine too");
  }
  const result = await runDemo({
    out,
    engine: engine === undefined ? null : { url: engine, model: model ?? null },
  });
  const lines =
    json === true
      ? [JSON.stringify(resultJson(result))]
      : drawDemo(result.runs, engine ?? null, styleFor(process.stdout, process.env));
  process.stdout.write(`${lines.join("\n")}\n`);
  for (const fault of result.faults) process.stderr.write(`coppice: ${fault}\n`);
  if (result.faults.length > 0) process.exitCode = 1;
}

function resultJson({ runs, faults }: DemoResult): Readonly<Record<string, unknown>> {
  return {
    ok: faults.length === 0,
    faults,
    runs: runs.map(({ mode, rollouts, rows, failures, rowsFile, ledgerFile }) => ({
      compaction: mode,
      rows_file: rowsFile,
      ledger_file: ledgerFile,
      rollouts: rollouts.map(({ rolloutId, calls }) => ({
        rollout_id: rolloutId,
        calls: calls.map((call) => ({
          call_id: call.callId,
          parent_call_id: call.parentCallId,
          root_reason: call.rootReason?.kind ?? null,
          status: call.status,
          carried_tokens: call.carriedLength,
          generated_tokens: call.generatedLength,
        })),
      })),
      rows,
      failures,
    })),
  };
}
