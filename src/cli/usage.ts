// Wrong usage that commander cannot see by itself, such as two options that exclude each other: exit code 2.
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** The one option of several that was given. Throws where none or more than one was. */
export function exactlyOne(options: Readonly<Record<string, unknown>>, names: readonly string[]): string {
  const given = names.filter((name) => options[name] !== undefined);
  const flags = names.map((name) => `--${name}`).join(", ");
  if (given.length !== 1) {
    throw new UsageError(`give exactly one of ${flags}; ${given.length === 0 ? "none" : given.length} given`);
  }
  return given[0] as string;
}
