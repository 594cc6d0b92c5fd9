// Call ids as an embedded ledger keeps them. Random ids end in hexadecimal digits, which take half the room as bytes; an
// id stands in the row and again in its index, so for calls of a few hundred tokens this is 2 percent of all.
import type { CallId } from "../lineage/call.ts";

/** The longest tail of whole bytes, from 8 on. */
const HEX_TAIL = /^(.*?)((?:[0-9a-f]{2}){8,})$/;

/** The text before the tail, a zero byte (which no id has), the tail's bytes; or the id itself. One id, one form. */
export function packId(id: string): string | Uint8Array {
  const [, start, tail] = HEX_TAIL.exec(id) ?? [];
  if (start === undefined || tail === undefined) return id;
  return Buffer.concat([Buffer.from(`${start}\0`), Buffer.from(tail, "hex")]);
}

/** The same where a column has but one type: no text has the zero byte that a packed id has. */
export function packIdBytes(id: string): Buffer {
  const packed = packId(id);
  return typeof packed === "string" ? Buffer.from(packed) : Buffer.from(packed);
}

export function unpackId(stored: string | Uint8Array): CallId {
  if (typeof stored === "string") return stored as CallId;
  const bytes = Buffer.from(stored.buffer, stored.byteOffset, stored.byteLength);
  const end = bytes.indexOf(0);
  if (end === -1) return bytes.toString() as CallId;
  return `${bytes.toString("latin1", 0, end)}${bytes.toString("hex", end + 1)}` as CallId;
}
