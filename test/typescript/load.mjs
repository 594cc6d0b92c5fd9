// A module loader (https://nodejs.org/api/module.html#customization-hooks) that takes the types out of .ts files, with
// the transform that Vite brings along.
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { transformSync } from "rolldown/utils";

export async function load(url, context, nextLoad) {
  if (!url.startsWith("file:") || !url.endsWith(".ts")) return nextLoad(url, context);
  const path = fileURLToPath(url);
  const { code, errors } = transformSync(path, await readFile(path, "utf8"), {});
  if (errors.length > 0) throw new SyntaxError(`${path}: ${errors[0].message}`);
  return { format: "module", source: code, shortCircuit: true };
}
