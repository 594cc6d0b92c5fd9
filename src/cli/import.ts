// `coppice import`: logs of other recorders as a trace, which `coppice rows` and `coppice export` read. What lacks token
// ids is refused with the reason: text is never tokenised again.
import { Command, Option } from "commander";
import { importedLines, importLog, LOG_KINDS, refusalError, type LogKind } from "../export/import-log.ts";
import { startProgress } from "./progress.ts";
import { readTraceFile } from "./trace-file.ts";
import { writeLines } from "./write-lines.ts";

interface ImportOptions {
  readonly from: LogKind;
  readonly outcomes?: string;
  readonly infer?: boolean;
  readonly rollout?: string;
  readonly logprobsMode?: string;
  readonly skipRefused?: boolean;
  readonly out?: string;
}

export function importCommand(): Command {
  return new Command("import")
    .description("turn a log that has token ids into a trace")
    .argument("<file>", "the log (JSON Lines; - for standard input)")
    .addOption(new Option("--from <kind>", "who wrote the log").choices(LOG_KINDS).makeOptionMandatory())
    .option("--outcomes <file>", "outcome lines of a trace, for logs that do not tell what was kept")
    .option("--infer", "let rows infer what was kept, where no outcome says it")
    .option("--rollout <id>", "the rollout of lines that name none")
    .addOption(
      new Option("--logprobs-mode <mode>", "how the engine gave log-probs").choices(["raw", "processed"]),
    )
    .option("--skip-refused", "leave out rollouts that can't be imported, instead of writing nothing")
    .option("--out <file>", "write here instead of standard output (complete or absent)")
    .addHelpText(
      "after",
      "\nExample:\n  coppice import events.jsonl --from agent-lightning --out run.trace.jsonl",
    )
    .action(importFile);
}

async function importFile(file: string, options: ImportOptions): Promise<void> {
  const progress = startProgress();
  try {
    const update = (lines: number): void => progress.update(`${lines} lines read`);
    const values = await readTraceFile(file, update);
    const outcomes = options.outcomes === undefined ? [] : await readTraceFile(options.outcomes, update);
    const imported = importLog({
      kind: options.from,
      values,
      outcomes,
      infer: options.infer ?? false,
      source: file,
      ...(options.rollout === undefined ? {} : { rolloutId: options.rollout }),
      ...(options.logprobsMode === undefined ? {} : { logprobsMode: options.logprobsMode }),
    });
    progress.done();
    if (imported.refused.length > 0 && options.skipRefused !== true) throw refusalError(imported, file);
    for (const { line, rolloutId, reason } of imported.refused) {
      process.stderr.write(`${file}:${line}: rollout ${rolloutId} is left out: ${reason}\n`);
    }
    const count = await writeLines(importedLines(imported), options.out);
    process.stderr.write(`${summaryOf(imported.trace.rollouts.length, count, imported.withoutOutcome)}\n`);
  } finally {
    progress.done();
  }
}

function summaryOf(rollouts: number, lines: number, without: readonly string[]): string {
  const missing =
    without.length === 0
      ? ""
      : `; ${without.length} have no outcome, so their rows will be refused: give --outcomes FILE or --infer`;
  return `${rollouts} rollouts, ${lines} lines${missing}`;
}
