// `coppice verify`: re-checks everything that a ledger holds. With --rescore it asks the engine for the log-prob of each
// token of each row and reports the largest difference from what was captured: the proof that a row is what the policy saw.
import { Command, Option } from "commander";
import type { Engine } from "../engine/engine.ts";
import { vllmEngine } from "../engine/vllm.ts";
import type { Ledger, Rollout } from "../ledger/ledger.ts";
import type { Call } from "../lineage/call.ts";
import { checkRecords } from "../rows/check-records.ts";
import type { Row } from "../rows/row.ts";
import { buildRollout } from "../gateway/group-rows.ts";
import { chosenRollouts } from "./ledger-rows.ts";
import { ledgerOption, openForReading } from "./open-ledger.ts";
import { startProgress, type Progress } from "./progress.ts";
import { UsageError } from "./usage.ts";

interface VerifyOptions {
  readonly ledger?: string;
  readonly rollout?: string;
  readonly rescore?: boolean;
  readonly engine?: string;
  readonly tolerance: string;
  readonly json?: boolean;
}

interface Verdict {
  rollouts: number;
  calls: number;
  tokens: number;
  rows: number;
  failures: number;
  in_flight: number;
  unknown: number;
  corrupt: { rollout_id: string; attempt: number; detail: string }[];
  rescored_tokens: number;
  /** Largest |captured - rescored| over trained tokens; null without --rescore. */
  max_logprob_difference: number | null;
}

export function verifyCommand(): Command {
  return new Command("verify")
    .description("re-check every record of a ledger: digests, lengths, addresses, completeness")
    .addOption(ledgerOption())
    .option("--rollout <id>", "only this rollout")
    .option("--rescore", "compare the rows' log-probs with those that the engine gives now")
    .addOption(
      new Option("--engine <url>", "with --rescore: an engine with prompt log-probs").env("COPPICE_ENGINE"),
    )
    .option("--tolerance <number>", "with --rescore: largest difference that passes", "1e-4")
    .option("--json", "print one JSON object")
    .action(verify);
}

async function verify(options: VerifyOptions): Promise<void> {
  const tolerance = Number(options.tolerance);
  if (!(tolerance >= 0))
    throw new UsageError(`--tolerance is "${options.tolerance}"; it must be a number >= 0`);
  if (options.rescore === true && options.engine === undefined) {
    throw new UsageError("--rescore needs --engine URL (or COPPICE_ENGINE)");
  }
  const engine = options.rescore === true ? vllmEngine({ url: options.engine as string }) : null;
  const progress = startProgress();
  try {
    const ledger = await openForReading(options.ledger);
    try {
      const verdict = await verifyLedger(ledger, engine, options, progress);
      progress.done();
      report(verdict, tolerance, options.json === true);
    } finally {
      await ledger.close();
    }
  } finally {
    progress.done();
    await engine?.close();
  }
}

async function verifyLedger(
  ledger: Ledger,
  engine: Engine | null,
  options: VerifyOptions,
  progress: Progress,
): Promise<Verdict> {
  const verdict: Verdict = {
    rollouts: 0,
    calls: 0,
    tokens: 0,
    rows: 0,
    failures: 0,
    in_flight: 0,
    unknown: 0,
    corrupt: [],
    rescored_tokens: 0,
    max_logprob_difference: engine === null ? null : 0,
  };
  const rollouts = await chosenRollouts(ledger, options);
  for (const [index, rollout] of rollouts.entries()) {
    progress.update(`verified ${index} of ${rollouts.length} rollouts, ${verdict.tokens} tokens`);
    const rows = await verifyRollout(ledger, rollout, verdict);
    if (engine !== null) for (const row of rows) await rescoreRow(engine, row, verdict);
  }
  return verdict;
}

async function verifyRollout(ledger: Ledger, rollout: Rollout, verdict: Verdict): Promise<readonly Row[]> {
  const calls = await ledger.calls(rollout);
  verdict.rollouts += 1;
  verdict.calls += calls.length;
  verdict.tokens += calls.reduce((sum, call) => sum + call.carriedLength + call.generatedLength, 0);
  verdict.in_flight += calls.filter((call) => call.status === "admitted").length;
  verdict.unknown += calls.filter((call) => call.status === "unknown").length;
  const settled = calls.filter((call) => call.status !== "admitted");
  const fault = checkRecords(settled) ?? countFault(rollout, calls);
  if (fault !== null) {
    verdict.corrupt.push({ rollout_id: rollout.rolloutId, attempt: rollout.attempt, detail: fault.detail });
    return [];
  }
  if (rollout.outcome === null) return [];
  const built = buildRollout(rollout, calls);
  if (built.kind === "failure") verdict.failures += 1;
  else verdict.rows += built.rows.length;
  return built.kind === "failure" ? [] : built.rows;
}

/** Completeness is proved by the counts, never assumed: all that were admitted are there, and each has one status. */
function countFault({ counts, state }: Rollout, calls: readonly Call[]): { readonly detail: string } | null {
  if (state === "swept") return null;
  if (counts.admitted !== calls.length) {
    return { detail: `${counts.admitted} calls were admitted, ${calls.length} are there` };
  }
  for (const status of ["committed", "failed", "aborted", "unknown"] as const) {
    const found = calls.filter((call) => call.status === status).length;
    if (found !== counts[status])
      return { detail: `${counts[status]} calls were counted as ${status}, ${found} are` };
  }
  return null;
}

async function rescoreRow(engine: Engine, row: Row, verdict: Verdict): Promise<void> {
  const scored = await engine.rescore(row.tokenIds);
  for (const [index, mask] of row.lossMask.entries()) {
    if (mask === 0) continue;
    const difference = Math.abs((row.logprobs[index] as number) - (scored[index] as number));
    verdict.rescored_tokens += 1;
    if (!(difference <= (verdict.max_logprob_difference as number)))
      verdict.max_logprob_difference = difference;
  }
}

function report(verdict: Verdict, tolerance: number, json: boolean): void {
  const off = verdict.max_logprob_difference !== null && !(verdict.max_logprob_difference <= tolerance);
  const holds = verdict.corrupt.length === 0 && !off;
  if (json) process.stdout.write(`${JSON.stringify({ ok: holds, ...verdict })}\n`);
  else for (const line of reportLines(verdict, tolerance, off)) process.stdout.write(`${line}\n`);
  if (!holds) process.exitCode = 1;
}

function reportLines(verdict: Verdict, tolerance: number, off: boolean): string[] {
  const lines = [
    `${verdict.rollouts} rollouts, ${verdict.calls} calls, ${verdict.tokens} tokens: ` +
      (verdict.corrupt.length === 0
        ? "every record holds"
        : `${verdict.corrupt.length} rollouts are corrupt`),
    `${verdict.rows} rows, ${verdict.failures} refused rollouts, ${verdict.in_flight} calls in flight, ${verdict.unknown} unknown`,
  ];
  for (const { rollout_id, attempt, detail } of verdict.corrupt) {
    lines.push(`corrupt: rollout ${rollout_id} attempt ${attempt}: ${detail}`);
  }
  if (verdict.max_logprob_difference !== null) {
    const largest = verdict.max_logprob_difference.toExponential(2);
    lines.push(
      `${verdict.rescored_tokens} trained tokens rescored, largest difference ${largest} ` +
        `(${off ? "above" : "within"} ${tolerance})`,
    );
  }
  return lines;
}
