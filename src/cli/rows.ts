// `coppice rows`: rows and refusals as JSON Lines, from a trace or from a ledger.
import { Command, Option } from "commander";
import { rowLines } from "../export/json-lines.ts";
import { buildTraceRows, readTrace } from "../export/trace.ts";
import { ADVANTAGES, parseGroupOptions, WEIGHTS } from "../rows/group.ts";
import { startProgress } from "./progress.ts";
import { readTraceFile } from "./trace-file.ts";
import { checkTraceIsWhole, ledgerUnlessTrace } from "./usage.ts";
import { choiceOf, ledgerRows } from "./ledger-rows.ts";
import { writeLines } from "./write-lines.ts";

interface RowsOptions {
  readonly trace?: string;
  readonly ledger?: string;
  readonly group?: string;
  readonly rollout?: string;
  readonly advantage?: string;
  readonly weights?: string;
  readonly out?: string;
}

export function rowsCommand(): Command {
  return new Command("rows")
    .description("write training rows, refusals included, as JSON Lines")
    .option("--trace <file>", "make the rows of a trace (JSON Lines; - for standard input)")
    .addOption(new Option("--ledger <file>", "make the rows of what a ledger holds").env("COPPICE_LEDGER"))
    .option("--group <id>", "with --ledger: only this group")
    .option("--rollout <id>", "with --ledger: only this rollout")
    .addOption(
      new Option("--advantage <kind>", "how rewards become advantages").choices(ADVANTAGES).default("mean"),
    )
    .addOption(
      new Option("--weights <kind>", "add a token_weight for this loss aggregation").choices(WEIGHTS),
    )
    .option("--out <file>", "write here instead of standard output (complete or absent)")
    .addHelpText("after", "\nExample:\n  coppice rows --trace run.trace.jsonl --weights rollout > rows.jsonl")
    .action(writeRows);
}

async function writeRows(options: RowsOptions, command: Command): Promise<void> {
  const ledger = ledgerUnlessTrace(options, command);
  checkTraceIsWhole(options);
  const group = parseGroupOptions(options);
  const progress = startProgress();
  try {
    if (options.trace !== undefined) {
      const values = await readTraceFile(options.trace, (lines) => progress.update(`${lines} lines read`));
      const rollouts = buildTraceRows(readTrace(values, options.trace), group);
      await writeLines(rowLines(rollouts), options.out);
      return;
    }
    await writeLines(
      ledgerRows(ledger, { ...choiceOf(options), ...group }, (text) => progress.update(text)),
      options.out,
    );
  } finally {
    progress.done();
  }
}
