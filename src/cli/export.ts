// `coppice export`: what a ledger holds, as rows or as a trace that another machine makes the same rows of.
import { Command, Option } from "commander";
import { traceLines } from "../export/trace.ts";
import type { Ledger, Rollout } from "../ledger/ledger.ts";
import { chosenRollouts, ledgerRows } from "./ledger-rows.ts";
import { ledgerOption, openForReading } from "./open-ledger.ts";
import { startProgress } from "./progress.ts";
import { writeLines } from "./write-lines.ts";

interface ExportOptions {
  readonly ledger?: string;
  readonly format: "jsonl" | "trace";
  readonly group?: string;
  readonly rollout?: string;
  readonly out?: string;
}

export function exportCommand(): Command {
  return new Command("export")
    .description("write what a ledger holds, as rows or as a trace")
    .addOption(ledgerOption())
    .addOption(new Option("--format <format>", "what to write").choices(["jsonl", "trace"]).default("jsonl"))
    .option("--group <id>", "only this group")
    .option("--rollout <id>", "only this rollout")
    .option("--out <file>", "write here instead of standard output (complete or absent)")
    .action(exportLedger);
}

async function exportLedger(options: ExportOptions): Promise<void> {
  const progress = startProgress();
  const update = (text: string): void => progress.update(text);
  try {
    const lines =
      options.format === "jsonl"
        ? ledgerRows(options.ledger, options, update)
        : traceOf(options.ledger, options, update);
    await writeLines(lines, options.out);
  } finally {
    progress.done();
  }
}

async function* traceOf(
  path: string | undefined,
  options: ExportOptions,
  onProgress: (text: string) => void,
): AsyncGenerator<string> {
  const ledger = await openForReading(path);
  try {
    const rollouts = await chosenRollouts(ledger, options);
    for (const [index, rollout] of rollouts.entries()) {
      onProgress(`exported ${index} of ${rollouts.length} rollouts`);
      yield* await linesOf(ledger, rollout);
    }
  } finally {
    await ledger.close();
  }
}

async function linesOf(ledger: Ledger, rollout: Rollout): Promise<Iterable<string>> {
  const calls = await ledger.calls(rollout);
  const { outcome, groupId, generationIndex } = rollout;
  const placed = outcome === null ? null : { ...outcome, groupId, generationIndex };
  return traceLines({ rolloutId: rollout.rolloutId, calls, outcome: placed });
}
