// The part of `coppice export` that writes rows: reads the options, calls the exporter, tells what was left out. JSON
// Lines without a shape are those of `coppice rows`, refused rollouts included; everything else goes into a file that
// has another beside it for those.
import { Option } from "commander";
import {
  checkExportOptions,
  exportRows,
  leftOutPath,
  rowAndFailureLines,
  type ExportOptions as RowExportOptions,
  type ExportSummary,
  type FileFormat,
} from "../export/export-rows.ts";
import { SHAPE_NAMES } from "../export/shapes.ts";
import type { Staleness } from "../export/staleness.ts";
import { ADVANTAGES, parseGroupOptions, WEIGHTS } from "../rows/group.ts";
import type { RolloutRows } from "../rows/row.ts";
import { UsageError } from "./usage.ts";
import { writeLines } from "./write-lines.ts";

export interface ExportOptions {
  readonly ledger?: string;
  readonly trace?: string;
  readonly format: FileFormat | "trace";
  readonly group?: string;
  readonly rollout?: string;
  readonly out?: string;
  readonly outDir?: string;
  readonly shape?: string;
  readonly advantage?: string;
  readonly weights?: string;
  readonly padToMultiple?: string;
  readonly padTokenId?: string;
  readonly forceMixed?: boolean;
  readonly maxStaleness?: string;
  readonly weightVersion?: string;
}

export function trainerOptions(): Option[] {
  return [
    new Option("--shape <name>", "the records that a trainer loads; needs --out").choices(SHAPE_NAMES),
    new Option("--advantage <kind>", "how rewards become advantages").choices(ADVANTAGES).default("mean"),
    new Option("--weights <kind>", "add a token_weight for this loss aggregation").choices(WEIGHTS),
    new Option("--pad-to-multiple <n>", "add fully masked rows until their number is a multiple of n"),
    new Option("--pad-token-id <id>", "what padding rows are made of (default: 0)"),
    new Option("--force-mixed", "allow rows of more than one temperature or log-prob mode"),
    new Option("--max-staleness <n>", "leave out, and list, rows more than n weight versions behind"),
    new Option("--weight-version <n>", "with --max-staleness: the trainer's weight version now"),
  ];
}

export async function exportTrainerRows(
  rollouts: AsyncIterable<RolloutRows>,
  options: ExportOptions,
  onProgress: (text: string) => void,
): Promise<void> {
  const settings = rowExportOptions(options, onProgress);
  checkExportOptions(settings);
  if (options.format === "jsonl" && options.shape === undefined) {
    await writeLines(rowAndFailureLines(rollouts, settings), options.out);
    return;
  }
  if (options.out === undefined) {
    throw new UsageError(
      `--format ${options.format}${options.shape === undefined ? "" : " with --shape"} needs --out FILE, ` +
        "since refused rollouts are listed in a file beside it",
    );
  }
  const summary = await exportRows(rollouts, options.out, settings);
  process.stderr.write(`${summaryLine(summary, options.out)}\n`);
}

function rowExportOptions(options: ExportOptions, onProgress: (text: string) => void): RowExportOptions {
  const staleness = stalenessOf(options);
  return {
    format: options.format as FileFormat,
    ...parseGroupOptions(options),
    ...(options.shape === undefined ? {} : { shape: options.shape }),
    ...(options.padToMultiple === undefined ? {} : { padToMultiple: Number(options.padToMultiple) }),
    ...(options.padTokenId === undefined ? {} : { padTokenId: Number(options.padTokenId) }),
    ...(staleness === null ? {} : { staleness }),
    forceMixed: options.forceMixed ?? false,
    onProgress,
  };
}

function stalenessOf({ maxStaleness, weightVersion }: ExportOptions): Staleness | null {
  if (maxStaleness === undefined && weightVersion === undefined) return null;
  if (maxStaleness === undefined || weightVersion === undefined) {
    throw new UsageError("--max-staleness and --weight-version belong together: give both or none");
  }
  return { maxStaleness: Number(maxStaleness), currentVersion: Number(weightVersion) };
}

function summaryLine(summary: ExportSummary, path: string): string {
  const { rows, paddingRows, tokens, trainableTokens, failures, leftOut, bytes } = summary;
  const padding = paddingRows === 0 ? "" : ` and ${paddingRows} padding rows`;
  const listed = failures + leftOut === 0 ? "" : `, listed in ${leftOutPath(path)}`;
  return (
    `${rows} rows${padding}, ${tokens} tokens (${trainableTokens} trained), ${bytes} bytes; ` +
    `${failures} refused rollouts, ${leftOut} rows left out${listed}`
  );
}
