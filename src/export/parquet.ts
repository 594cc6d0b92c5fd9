// Parquet: zstd, no dictionaries (token ids and log-probs do not repeat enough to pay for one), no statistics, row groups
// of about 16 MB. Version 2 pages pack integers by their bits before zstd sees them: a mask has no 8-bit type in Parquet,
// so it would be four bytes a token otherwise. Arrow batches go into the writer one by one.
// https://parquet.apache.org/docs/file-format/
import { RecordBatchStreamWriter } from "apache-arrow";
import {
  Compression,
  EnabledStatistics,
  Table,
  transformParquetStream,
  WriterPropertiesBuilder,
  WriterVersion,
  type RecordBatch,
  type WriterProperties,
} from "parquet-wasm";
import type { Batch } from "./batches.ts";
import { arrowSchema, recordBatch } from "./columnar.ts";
import type { Shape } from "./shapes/shape.ts";

/** Compressed bytes after which a row group ends, checked after each batch. */
const ROW_GROUP_BYTES = 16 << 20;

/** How the batches ended. The writer takes a source that failed for one that ended, and writes a footer all the same. */
interface Source {
  ended: boolean;
  error?: unknown;
}

/** Bytes of a Parquet file; the footer, which makes it one, comes last. Without any batch it has no row. */
export async function* parquetFile(
  shape: Shape,
  metadata: ReadonlyMap<string, string>,
  batches: AsyncIterable<Batch>,
): AsyncGenerator<Uint8Array> {
  const source: Source = { ended: false };
  try {
    const input = readable(wasmBatches(shape, metadata, batches), source);
    const written = await transformParquetStream(input, properties());
    for await (const chunk of written as ReadableStream<Uint8Array>) yield chunk;
  } catch (error) {
    throw source.error ?? error;
  }
  if (source.error !== undefined) throw source.error;
  if (!source.ended) throw new Error("the Parquet writer stopped before the last batch");
}

function properties(): WriterProperties {
  return new WriterPropertiesBuilder()
    .setWriterVersion(WriterVersion.V2)
    .setCompression(Compression.ZSTD)
    .setDictionaryEnabled(false)
    .setStatisticsEnabled(EnabledStatistics.None)
    .setMaxRowGroupBytes(ROW_GROUP_BYTES)
    .setCreatedBy("coppice")
    .build();
}

async function* wasmBatches(
  shape: Shape,
  metadata: ReadonlyMap<string, string>,
  batches: AsyncIterable<Batch>,
): AsyncGenerator<RecordBatch> {
  const schema = arrowSchema(shape.columns, metadata);
  let any = false;
  for await (const { records } of batches) {
    any = true;
    yield* toWasm(recordBatch(schema, shape.columns, records));
  }
  if (!any) yield* toWasm(recordBatch(schema, shape.columns, []));
}

function toWasm(batch: ReturnType<typeof recordBatch>): RecordBatch[] {
  const ipc = RecordBatchStreamWriter.writeAll([batch]).toUint8Array(true);
  return Table.fromIPCStream(ipc).recordBatches();
}

function readable(batches: AsyncGenerator<RecordBatch>, source: Source): ReadableStream<RecordBatch> {
  return new ReadableStream<RecordBatch>(
    {
      async pull(controller) {
        try {
          const next = await batches.next();
          if (next.done !== true) return controller.enqueue(next.value);
          source.ended = true;
          controller.close();
        } catch (error) {
          source.error = error;
          controller.error(error);
        }
      },
      async cancel() {
        await batches.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}
