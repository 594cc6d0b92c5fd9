// `coppice export`: rows for a trainer, of a ledger or of a trace; or a ledger as a trace that another machine makes the
// same rows of.
import { Command, Option } from "commander";
import { buildTraceRows, readTrace, traceLines } from "../export/trace.ts";
import type { Ledger, Rollout } from "../ledger/ledger.ts";
import { parseGroupOptions } from "../rows/group.ts";
import type { RolloutRows } from "../rows/row.ts";
import { exportGroups } from "./export-groups.ts";
import { exportTrainerRows, trainerOptions, type ExportOptions } from "./export-rows.ts";
import { choiceOf, chosenRollouts, ledgerRollouts } from "./ledger-rows.ts";
import { ledgerOption, openForReading } from "./open-ledger.ts";
import { startProgress } from "./progress.ts";
import { readTraceFile } from "./trace-file.ts";
import { checkTraceIsWhole, ledgerUnlessTrace, UsageError } from "./usage.ts";
import { writeLines } from "./write-lines.ts";

export function exportCommand(): Command {
  const command = new Command("export")
    .description("write rows for a trainer, or what a ledger holds as a trace")
    .addOption(ledgerOption())
    .option("--trace <file>", "export the rows of a trace instead (JSON Lines; - for standard input)")
    .addOption(
      new Option("--format <format>", "what to write")
        .choices(["jsonl", "arrow", "parquet", "trace"])
        .default("jsonl"),
    )
    .option("--group <id>", "with --ledger: only this group")
    .option("--rollout <id>", "with --ledger: only this rollout")
    .option("--out <file>", "write here instead of standard output (complete or absent)")
    .option(
      "--out-dir <dir>",
      "with --ledger: one file for each complete group; groups whose file is there are passed over, so an " +
        "export that was broken off goes on where it stopped",
    );
  for (const option of trainerOptions()) command.addOption(option);
  return command
    .addHelpText(
      "after",
      "\nExample:\n  coppice export --ledger run.db --format parquet --shape verl --out verl.parquet",
    )
    .action(exportSource);
}

async function exportSource(options: ExportOptions, command: Command): Promise<void> {
  ledgerUnlessTrace(options, command);
  checkTraceIsWhole(options);
  const progress = startProgress();
  const update = (text: string): void => progress.update(text);
  try {
    if (options.outDir !== undefined) {
      await exportGroups(options.outDir, options, update);
      return;
    }
    if (options.format === "trace") {
      if (options.trace !== undefined)
        throw new UsageError("--format trace needs --ledger: a trace is one already");
      await writeLines(traceOf(options.ledger, options, update), options.out);
      return;
    }
    await exportTrainerRows(sourceRollouts(options, update), options, update);
  } finally {
    progress.done();
  }
}

async function* sourceRollouts(
  options: ExportOptions,
  onProgress: (text: string) => void,
): AsyncGenerator<RolloutRows> {
  const group = parseGroupOptions(options);
  if (options.trace === undefined) {
    yield* ledgerRollouts(options.ledger, { ...choiceOf(options), ...group }, onProgress);
    return;
  }
  const values = await readTraceFile(options.trace, (lines) => onProgress(`${lines} lines read`));
  yield* buildTraceRows(readTrace(values, options.trace), group);
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
