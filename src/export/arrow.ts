// Arrow IPC, as a stream (for HTTP) and as a file (with a footer, for memory mapping). Buffers go out as they stand in
// the record batch. https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
import {
  AsyncByteQueue,
  RecordBatchFileWriter,
  RecordBatchStreamWriter,
  type RecordBatchWriter,
} from "apache-arrow";
import type { Batch } from "./batches.ts";
import { arrowSchema, recordBatch } from "./columnar.ts";
import type { Shape } from "./shapes/shape.ts";

/** Bytes of an Arrow IPC stream, one record batch a batch. Without any batch it still has its schema. */
export function arrowStream(
  shape: Shape,
  metadata: ReadonlyMap<string, string>,
  batches: AsyncIterable<Batch>,
): AsyncGenerator<Uint8Array> {
  return write(new RecordBatchStreamWriter({ autoDestroy: false }), shape, metadata, batches);
}

/** Bytes of an Arrow IPC file. */
export function arrowFile(
  shape: Shape,
  metadata: ReadonlyMap<string, string>,
  batches: AsyncIterable<Batch>,
): AsyncGenerator<Uint8Array> {
  return write(new RecordBatchFileWriter({ autoDestroy: false }), shape, metadata, batches);
}

/** Gives up each buffer at once, where the library's own queue would collect them all while the reader waits. */
class Chunks extends AsyncByteQueue {
  private held: Uint8Array[] = [];

  override write(chunk: Uint8Array): void {
    this.held.push(chunk);
  }

  take(): readonly Uint8Array[] {
    const taken = this.held;
    this.held = [];
    return taken;
  }
}

async function* write(
  writer: RecordBatchWriter,
  shape: Shape,
  metadata: ReadonlyMap<string, string>,
  batches: AsyncIterable<Batch>,
): AsyncGenerator<Uint8Array> {
  const chunks = new Chunks();
  const schema = arrowSchema(shape.columns, metadata);
  writer.reset(chunks, schema);
  for await (const { records } of batches) {
    writer.write(recordBatch(schema, shape.columns, records));
    yield* chunks.take();
  }
  // Writes the end-of-stream mark, and a file's footer.
  writer.reset(chunks);
  yield* chunks.take();
}
