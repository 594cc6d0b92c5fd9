// Rollouts in, a file in a trainer's shape out: checks the sampling convention, leaves out what is stale, pads, shapes
// and writes. Refused rollouts and rows that were left out stand as JSON Lines in a second file beside it,
// `X.left-out.jsonl`, which is there, if empty, before the file itself is. Arrow and Parquet are loaded when asked for.
import { CoppiceError } from "../errors.ts";
import type { AdvantageKind, WeightKind } from "../rows/group.ts";
import type { Failure, Row, RolloutRows } from "../rows/row.ts";
import { batchesOf } from "./batches.ts";
import { conventionCheck, conventionOf, type SamplingConvention } from "./convention.ts";
import { failureLine, rowLine } from "./json-lines.ts";
import { paddingCount, paddingRow } from "./padding.ts";
import { metadataOf } from "./provenance.ts";
import { shapeLine } from "./shape-lines.ts";
import { shapeNamed } from "./shapes.ts";
import type { Shape } from "./shapes/shape.ts";
import { leftOutLine, tooStale, type LeftOut, type Staleness } from "./staleness.ts";
import { textOf, writeWholeFile } from "./whole-file.ts";

export const FILE_FORMATS = ["jsonl", "arrow", "parquet"] as const;
export type FileFormat = (typeof FILE_FORMATS)[number];

export interface ExportOptions {
  readonly format: FileFormat;
  /** A name of SHAPES; `rows` by default. */
  readonly shape?: string;
  /** How the rows' advantages and weights were made, for the metadata. */
  readonly advantage?: AdvantageKind;
  readonly weights?: WeightKind;
  /** Fully masked rows are added until the number of rows is a multiple of this. */
  readonly padToMultiple?: number;
  readonly padTokenId?: number;
  /** Rows of more than one sampling convention may stand in the file. */
  readonly forceMixed?: boolean;
  readonly staleness?: Staleness;
  /** Of the claim that the rows are delivered under, for the metadata. */
  readonly claimId?: string;
  readonly onProgress?: (text: string) => void;
}

export interface ExportSummary {
  readonly rows: number;
  readonly tokens: number;
  readonly trainableTokens: number;
  readonly paddingRows: number;
  readonly failures: number;
  readonly leftOut: number;
  readonly bytes: number;
}

/** Where the refused rollouts and the rows that were left out are listed. */
export function leftOutPath(path: string): string {
  return `${path}.left-out.jsonl`;
}

/**
 * Writes the rollouts' rows to `path`, complete or absent. Throws `invalid_request` for rows that the shape or the
 * convention refuses; then nothing is written.
 */
export async function exportRows(
  rollouts: Iterable<RolloutRows> | AsyncIterable<RolloutRows>,
  path: string,
  options: ExportOptions,
): Promise<ExportSummary> {
  const shape = shapeNamed(options.shape ?? "rows");
  const tally = emptyTally();
  const kept = keptRows(rollouts, options, tally);
  const chunks = await chunksOf(shape, kept, options, { kind: "file" });
  const bytes = await writeWholeFile(
    path,
    beforeEnd(chunks, () => writeLeftOut(leftOutPath(path), tally)),
  );
  return { ...tally, failures: tally.failures.length, leftOut: tally.leftOut.length, bytes };
}

/**
 * The rows for a reader that waits, such as an HTTP answer: Arrow as a stream, not as a file. There is no file beside
 * it, so refused rollouts stand in the metadata (`coppice.failures`); JSON Lines of a shape do not tell them. Throws
 * before the first byte for what `exportRows` refuses.
 */
export async function streamRows(
  rollouts: readonly RolloutRows[],
  options: ExportOptions,
): Promise<AsyncGenerator<Uint8Array | string>> {
  const failures = rollouts.flatMap((rollout) => (rollout.kind === "failure" ? [rollout.failure] : []));
  const shape = shapeNamed(options.shape ?? "rows");
  // What is refused must be refused before the first byte: an answer that has begun can only be cut.
  for await (const rows of keptRows(rollouts, options, emptyTally())) shape.records(rows);
  const kept = keptRows(rollouts, options, emptyTally());
  return chunksOf(shape, kept, options, { kind: "stream", failures });
}

/**
 * The lines of `coppice rows`, checked like any export: rows, then padding, then refused rollouts, then what was left
 * out.
 */
export async function* rowAndFailureLines(
  rollouts: Iterable<RolloutRows> | AsyncIterable<RolloutRows>,
  options: ExportOptions,
): AsyncGenerator<string> {
  const tally = emptyTally();
  for await (const rows of keptRows(rollouts, options, tally)) yield* rows.map(rowLine);
  yield* leftOutLines(tally);
}

interface Tally {
  rows: number;
  tokens: number;
  trainableTokens: number;
  paddingRows: number;
  readonly failures: Failure[];
  readonly leftOut: LeftOut[];
}

function emptyTally(): Tally {
  return { rows: 0, tokens: 0, trainableTokens: 0, paddingRows: 0, failures: [], leftOut: [] };
}

/** Each rollout's rows that are to be written, then the padding. */
async function* keptRows(
  rollouts: Iterable<RolloutRows> | AsyncIterable<RolloutRows>,
  options: ExportOptions,
  tally: Tally,
): AsyncGenerator<readonly Row[]> {
  const check = options.forceMixed === true ? null : conventionCheck();
  for await (const rollout of rollouts) {
    if (rollout.kind === "failure") {
      tally.failures.push(rollout.failure);
      continue;
    }
    const rows: Row[] = [];
    for (const row of rollout.rows) {
      const stale = options.staleness === undefined ? null : tooStale(row, options.staleness);
      if (stale !== null) {
        tally.leftOut.push(stale);
        continue;
      }
      check?.(row);
      count(row, tally);
      rows.push(row);
    }
    options.onProgress?.(`${tally.rows} rows, ${tally.tokens} tokens`);
    if (rows.length > 0) yield rows;
  }
  tally.paddingRows = paddingCount(tally.rows, options.padToMultiple ?? 1);
  for (let index = 0; index < tally.paddingRows; index++) yield [paddingRow(index, options.padTokenId)];
}

function count(row: Row, tally: Tally): void {
  tally.rows += 1;
  tally.tokens += row.tokenIds.length;
  tally.trainableTokens += row.rowTrainableTokens;
}

type Delivery =
  | { readonly kind: "file" }
  | { readonly kind: "stream"; readonly failures: readonly Failure[] };

async function chunksOf(
  shape: Shape,
  kept: AsyncGenerator<readonly Row[]>,
  options: ExportOptions,
  delivery: Delivery,
): Promise<AsyncGenerator<Uint8Array | string>> {
  // The convention stands in the schema, which comes first, so the first rollout is taken ahead.
  const first = await kept.next();
  const rows = first.done === true ? kept : startingWith(first.value, kept);
  const convention = first.done === true ? null : firstConvention(first.value, options);
  const metadata = metadataOf(shape, {
    advantage: options.advantage ?? "mean",
    weights: options.weights ?? null,
    convention,
    mixingForced: options.forceMixed ?? false,
    ...(options.claimId === undefined ? {} : { claimId: options.claimId }),
    ...(delivery.kind === "stream" ? { failures: delivery.failures } : {}),
  });
  switch (options.format) {
    case "jsonl":
      return textOf(linesOf(shape, rows));
    case "arrow": {
      const { arrowFile, arrowStream } = await import("./arrow.ts");
      return (delivery.kind === "file" ? arrowFile : arrowStream)(shape, metadata, batchesOf(shape, rows));
    }
    case "parquet":
      return (await import("./parquet.ts")).parquetFile(shape, metadata, batchesOf(shape, rows));
  }
}

function firstConvention(rows: readonly Row[], options: ExportOptions): SamplingConvention | null {
  return options.forceMixed === true ? null : conventionOf(rows[0] as Row);
}

async function* startingWith<T>(first: T, rest: AsyncIterable<T>): AsyncGenerator<T> {
  yield first;
  yield* rest;
}

async function* linesOf(shape: Shape, kept: AsyncIterable<readonly Row[]>): AsyncGenerator<string> {
  for await (const rows of kept) {
    for (const record of shape.records(rows)) yield shapeLine(shape.columns, record);
  }
}

/** All chunks, then the work, before the reader is told that there are no more. */
async function* beforeEnd<T>(chunks: AsyncIterable<T>, work: () => Promise<void>): AsyncGenerator<T> {
  yield* chunks;
  await work();
}

async function writeLeftOut(path: string, tally: Tally): Promise<void> {
  await writeWholeFile(path, textOf(leftOutLines(tally)));
}

function leftOutLines({ failures, leftOut }: Tally): string[] {
  return [...failures.map(failureLine), ...leftOut.map(leftOutLine)];
}

/** Throws for options that cannot be meant. */
export function checkExportOptions(options: ExportOptions): void {
  const { padToMultiple, padTokenId, staleness } = options;
  const positive = (name: string, value: number | undefined, least: number): void => {
    if (value === undefined || (Number.isSafeInteger(value) && value >= least)) return;
    throw new CoppiceError("invalid_request", `${name} is ${value}; it must be an integer from ${least}`, {
      param: name,
    });
  };
  positive("pad_to_multiple", padToMultiple, 1);
  positive("pad_token_id", padTokenId, 0);
  positive("max_staleness", staleness?.maxStaleness, 0);
  positive("weight_version", staleness?.currentVersion, 0);
  shapeNamed(options.shape ?? "rows");
}
