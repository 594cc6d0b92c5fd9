// Reads a trace file line by line: memory for one line and what is parsed of it. `-` is standard input.
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { CoppiceError, messageOf } from "../errors.ts";

/** The parsed value of each line, undefined for an empty one. Throws with file and line for broken JSON. */
export async function readTraceFile(path: string, onProgress: (lines: number) => void): Promise<unknown[]> {
  const input = path === "-" ? process.stdin : createReadStream(path);
  const values: unknown[] = [];
  let number = 0;
  try {
    for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      number += 1;
      values.push(line.trim() === "" ? undefined : parseLine(line, `${path}:${number}`));
      if (number % 1000 === 0) onProgress(number);
    }
  } catch (error) {
    if (error instanceof CoppiceError) throw error;
    throw new CoppiceError("invalid_request", `can't read the trace ${path}: ${messageOf(error)}`, {
      cause: error,
    });
  }
  return values;
}

function parseLine(line: string, where: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw new CoppiceError("invalid_request", `${where}: not JSON: ${messageOf(error)}`, { cause: error });
  }
}
