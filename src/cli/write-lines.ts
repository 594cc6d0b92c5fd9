// Lines to standard output or to a file. A pipe that is slow is waited for; a file is complete or absent: it is
// written beside its place and moved there at the end.
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { finished } from "node:stream/promises";
import type { Writable } from "node:stream";
import { CoppiceError, messageOf } from "../errors.ts";

const BATCH = 64 * 1024;

/** @returns the number of lines */
export async function writeLines(
  lines: Iterable<string> | AsyncIterable<string>,
  path: string | undefined,
): Promise<number> {
  if (path === undefined || path === "-") return pour(lines, process.stdout);
  const partial = `${path}.partial`;
  try {
    const file = createWriteStream(partial);
    const ended = finished(file);
    const count = await Promise.race([pour(lines, file), ended.then(() => 0)]);
    file.end();
    await ended;
    await rename(partial, path);
    return count;
  } catch (error) {
    await rm(partial, { force: true });
    if (error instanceof CoppiceError) throw error;
    throw new CoppiceError("invalid_request", `can't write ${path}: ${messageOf(error)}`, { cause: error });
  }
}

async function pour(lines: Iterable<string> | AsyncIterable<string>, to: Writable): Promise<number> {
  let count = 0;
  let batch = "";
  for await (const line of lines) {
    count += 1;
    batch += `${line}\n`;
    if (batch.length < BATCH) continue;
    if (!to.write(batch)) await once(to, "drain");
    batch = "";
  }
  if (batch !== "" && !to.write(batch)) await once(to, "drain");
  return count;
}
