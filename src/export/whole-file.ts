// A file that is complete or absent: written beside its place, flushed to disk, moved there at the end.
import { open, rename, rm } from "node:fs/promises";
import { CoppiceError, messageOf } from "../errors.ts";

/** @returns the number of bytes. Whatever is thrown on the way leaves an earlier file of that name as it was. */
export async function writeWholeFile(
  path: string,
  chunks: Iterable<Uint8Array | string> | AsyncIterable<Uint8Array | string>,
): Promise<number> {
  const partial = `${path}.partial`;
  try {
    const bytes = await writeChunks(partial, chunks);
    await rename(partial, path);
    return bytes;
  } catch (error) {
    await rm(partial, { force: true });
    if (error instanceof CoppiceError || !(error instanceof Error && "syscall" in error)) throw error;
    throw new CoppiceError("invalid_request", `can't write ${path}: ${messageOf(error)}`, { cause: error });
  }
}

async function writeChunks(
  path: string,
  chunks: Iterable<Uint8Array | string> | AsyncIterable<Uint8Array | string>,
): Promise<number> {
  const file = await open(path, "w");
  try {
    let bytes = 0;
    for await (const chunk of chunks) {
      const buffer = typeof chunk === "string" ? Buffer.from(chunk) : chunk;
      await file.writeFile(buffer);
      bytes += buffer.byteLength;
    }
    await file.sync();
    return bytes;
  } finally {
    await file.close();
  }
}

const TEXT_BATCH = 64 * 1024;

/** Lines joined into writes of some size. */
export async function* textOf(lines: Iterable<string> | AsyncIterable<string>): AsyncGenerator<string> {
  let batch = "";
  for await (const line of lines) {
    batch += `${line}\n`;
    if (batch.length < TEXT_BATCH) continue;
    yield batch;
    batch = "";
  }
  if (batch !== "") yield batch;
}
