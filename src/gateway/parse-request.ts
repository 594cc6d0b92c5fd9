// Checks a management request against its schema, once, and says what is wrong: the field, its value, what would be
// right. Inside, values are trusted.
import type { FastifyRequest } from "fastify";
import type { z } from "zod";
import { CoppiceError } from "../errors.ts";
import { parseJsonObject, shown } from "../dialect/request-fields.ts";

/** Python writes these into what it calls JSON. */
const BARE_NUMBER = /"([A-Za-z_]+)"\s*:\s*(-?(?:NaN|Infinity))\b/;

/** The body as its schema has it; an absent one reads as `{}`. Throws `invalid_request`. */
export function parseBody<T>(schema: z.ZodType<T>, request: FastifyRequest): T {
  const bytes = request.body as Buffer | undefined;
  if (bytes === undefined || bytes.length === 0) return check(schema, {});
  try {
    return check(schema, parseJsonObject(bytes));
  } catch (error) {
    const bare = BARE_NUMBER.exec(bytes.toString("utf8", 0, 10_000));
    if (bare === null || !(error instanceof CoppiceError) || error.param !== null) throw error;
    const [, field, value] = bare as unknown as [string, string, string];
    throw new CoppiceError("invalid_request", `${field} is ${value}; it must be a finite number`, {
      param: field,
      cause: error,
    });
  }
}

export function parseQuery<T>(schema: z.ZodType<T>, request: FastifyRequest): T {
  return check(schema, { ...(request.query as object) });
}

function check<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0] as z.core.$ZodIssue;
  if (issue.code === "unrecognized_keys") {
    const field = issue.keys[0] as string;
    throw new CoppiceError("invalid_request", `${field} is no field of this request`, { param: field });
  }
  const field = issue.path.reduce<string>(
    (path, key) =>
      typeof key === "number" ? `${path}[${key}]` : path === "" ? String(key) : `${path}.${String(key)}`,
    "",
  );
  const given = issue.path.reduce<unknown>(
    (at, key) =>
      typeof at === "object" && at !== null ? (at as Record<PropertyKey, unknown>)[key] : undefined,
    value,
  );
  const what = typeof given === "number" && !Number.isFinite(given) ? String(given) : shown(given);
  throw new CoppiceError("invalid_request", `${field} is ${what}; ${expected(issue)}`, { param: field });
}

function expected(issue: z.core.$ZodIssue): string {
  if (issue.code === "invalid_type") return `it must be ${EXPECTED[issue.expected] ?? issue.expected}`;
  if (issue.code === "invalid_union") return "it must be a response id, a call id or a response item";
  if (issue.code === "too_small") return `it must be at least ${issue.minimum}`;
  if (issue.code === "too_big") return `it must be at most ${issue.maximum}`;
  return issue.message;
}

const EXPECTED: Readonly<Record<string, string>> = {
  array: "a list",
  boolean: "true or false",
  int: "a whole number",
  number: "a finite number",
  object: "an object",
  record: "an object",
  string: "a string",
};
