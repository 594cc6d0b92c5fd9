// Words for what is wrong with a client's request, the same in every dialect: the field, its value, what would be right.
import { CoppiceError, messageOf } from "../errors.ts";
import { isRecord } from "../lineage/message.ts";
import type { Json } from "./dialect.ts";

/** The value on one short line. */
export function shown(value: unknown): string {
  if (value === undefined) return "missing";
  const json = JSON.stringify(value);
  return json.length > 60 ? `${json.slice(0, 57)}...` : json;
}

export function wrong(field: string, value: unknown, right: string): CoppiceError {
  return new CoppiceError("invalid_request", `${field} is ${shown(value)}; it must be ${right}`, {
    param: field,
  });
}

/** A field that is understood and cannot be carried to the engine. */
export function refused(field: string, why: string): CoppiceError {
  return new CoppiceError("invalid_request", `${field} is not served here: ${why}`, { param: field });
}

/** Deeper than any request that means something, and far from what recursion over it can bear. */
const MAX_DEPTH = 200;

function isDeeperThan(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (depth === 0) return true;
  for (const inner of Array.isArray(value) ? value : Object.values(value)) {
    if (typeof inner === "object" && isDeeperThan(inner, depth - 1)) return true;
  }
  return false;
}

/** Throws `invalid_request` for anything but a JSON object in UTF-8, nested no deeper than `MAX_DEPTH`. */
export function parseJsonObject(bytes: Buffer): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString("utf8"));
  } catch (error) {
    const why = bytes.length === 0 ? "it is empty" : messageOf(error);
    throw new CoppiceError("invalid_request", `the body is no JSON: ${why}`, { cause: error });
  }
  if (isDeeperThan(value, MAX_DEPTH)) {
    throw new CoppiceError("invalid_request", `the body is nested deeper than ${MAX_DEPTH} levels`);
  }
  if (!isRecord(value)) {
    throw new CoppiceError("invalid_request", `the body is ${shown(value)}; it must be a JSON object`);
  }
  return value;
}

/** Null for a field that is missing or null. */
export function optionalString(body: Json, field: string): string | null {
  const value = body[field] ?? null;
  if (value === null || typeof value === "string") return value;
  throw wrong(field, value, "a string");
}

/** False for a field that is missing or null. */
export function optionalFlag(body: Json, field: string): boolean {
  const value = body[field] ?? false;
  if (typeof value === "boolean") return value;
  throw wrong(field, value, "true or false");
}

/** `n`: 1 where it is missing. */
export function choicesAsked(body: Json): number {
  const choices = body["n"] ?? 1;
  if (typeof choices === "number" && Number.isInteger(choices) && choices >= 1 && choices <= 128)
    return choices;
  throw wrong("n", body["n"], "a whole number from 1 to 128");
}

/** The list of records at a field; `path` names it. */
export function listOfRecords(value: unknown, path: string, what: string): Record<string, unknown>[] {
  if (!Array.isArray(value)) throw wrong(path, value, `a list of ${what}`);
  return value.map((one: unknown, index) => {
    if (!isRecord(one)) throw wrong(`${path}[${index}]`, one, "an object");
    return one;
  });
}

/** The record without the named fields and without what is undefined. */
export function without(record: Json, fields: ReadonlySet<string>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(record).filter(([name, value]) => !fields.has(name) && value !== undefined),
  );
}
