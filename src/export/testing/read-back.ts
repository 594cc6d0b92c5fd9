// Reads Arrow and Parquet back to plain values, the way a consumer would: by the libraries' own readers.
import { tableFromIPC } from "apache-arrow";
import { readParquet } from "parquet-wasm";

export interface ReadBack {
  readonly metadata: ReadonlyMap<string, string>;
  readonly types: Readonly<Record<string, string>>;
  readonly records: readonly unknown[];
}

export function readArrow(bytes: Uint8Array): ReadBack {
  const table = tableFromIPC(bytes);
  return {
    metadata: table.schema.metadata,
    types: Object.fromEntries(table.schema.fields.map(({ name, type }) => [name, String(type)])),
    records: table.toArray().map(plain),
  };
}

export function readParquetBytes(bytes: Uint8Array): ReadBack {
  return readArrow(readParquet(bytes).intoIPCStream());
}

/** Values as JSON Lines would give them after reading: float32 rounded, 64-bit integers as numbers, NaN as null. */
function plain(value: unknown): unknown {
  if (value === null || value === undefined) return null;
  if (typeof value === "bigint") return Number(value);
  if (typeof value === "number") return Number.isNaN(value) ? null : value;
  if (typeof value !== "object") return value;
  if (Symbol.iterator in value && !("toJSON" in value && !("length" in value))) {
    return Array.from(value as Iterable<unknown>, plain);
  }
  const fields = (value as { toJSON(): Record<string, unknown> }).toJSON();
  return Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, plain(field)]));
}

export async function bytesOf(chunks: AsyncIterable<Uint8Array | string>): Promise<Uint8Array> {
  const held: Uint8Array[] = [];
  for await (const chunk of chunks) held.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk);
  return Buffer.concat(held);
}
