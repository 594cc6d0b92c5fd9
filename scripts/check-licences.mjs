// Checks what this package depends on, from package.json and package-lock.json alone: versions are exact, every package is
// pinned with its SHA-512 and comes from a registry, licences are on a list, install scripts are only those that package.json
// names. With --audit it also asks the registry for known faults of what is shipped, where the registry offers that.
// Usage: node scripts/check-licences.mjs [--root DIR] [--audit]; prints one JSON line, exits 1 where something is wrong.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual, parseArgs, promisify } from "node:util";

/** For what users install, and the page that is built into it. */
const SHIPPED = new Set([
  "MIT",
  "Apache-2.0",
  "ISC",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "0BSD",
  "Unlicense",
  "BlueOak-1.0.0",
  // Fonts: may be bundled and embedded.
  "OFL-1.1",
]);
/** For tools that build and test, and are in nothing that is shipped. */
const TOOLS = new Set([...SHIPPED, "MPL-2.0", "CC0-1.0", "CC-BY-4.0", "Python-2.0"]);

/** True where the SPDX expression can be met from the list: all of `AND`, one of `OR`; brackets one level deep. */
function isAllowed(expression, allowed) {
  const text = expression.trim().replace(/^\((.*)\)$/, "$1");
  const parts = (word) => text.split(new RegExp(`\\s+${word}\\s+(?![^(]*\\))`));
  const or = parts("OR");
  if (or.length > 1) return or.some((one) => isAllowed(one, allowed));
  const and = parts("AND");
  if (and.length > 1) return and.every((one) => isAllowed(one, allowed));
  return allowed.has(text);
}

function faultsOfPackage(path, entry, approved) {
  const name = path.replace(/^.*node_modules\//, "");
  const faults = [];
  if (entry.link === true) return [`${name} is a link to somewhere on this machine`];
  if (!/^sha512-[A-Za-z0-9+/]{86}==$/.test(entry.integrity ?? "")) faults.push(`${name} has no SHA-512`);
  if (!/^\d+\.\d+\.\d+/.test(entry.version ?? "")) faults.push(`${name} has no version`);
  if (entry.resolved !== undefined && !entry.resolved.startsWith("https://"))
    faults.push(`${name} comes from no registry`);
  const licence = typeof entry.license === "string" ? entry.license : "none";
  if (!isAllowed(licence, entry.dev === true ? TOOLS : SHIPPED)) {
    faults.push(`${name} ${entry.version} has licence ${licence}, which is not on the list`);
  }
  if (entry.hasInstallScript === true && !approved(name, entry))
    faults.push(`${name} runs a script when installed`);
  return faults;
}

function faultsOfVersions({ dependencies = {}, devDependencies = {}, overrides = {} }, root) {
  const faults = [];
  for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies, ...overrides })) {
    if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
      faults.push(`${name} is ${version}, which is no exact version`);
  }
  for (const kind of ["dependencies", "devDependencies"]) {
    if (!isDeepStrictEqual({ dependencies, devDependencies }[kind], root[kind] ?? {}))
      faults.push(`${kind} of package.json and package-lock.json differ: run npm install`);
  }
  return faults;
}

function check(rootFolder) {
  const read = (name) => JSON.parse(readFileSync(join(rootFolder, name), "utf8"));
  const own = read("package.json");
  const { packages } = read("package-lock.json");
  const { "": root = {}, ...others } = packages;
  const scripts = Object.entries(own.allowScripts ?? {})
    .filter(([, allowed]) => allowed === true)
    .map(([name]) => name);
  // A binary comes as one optional package a platform: whoever approved one approved its siblings.
  const isSibling = (name, { optional, dev, os }) =>
    optional === true &&
    dev === true &&
    os !== undefined &&
    scripts.some((one) => one.startsWith("@") && one.split("/")[0] === name.split("/")[0]);
  const approved = (name, entry) => scripts.includes(name) || isSibling(name, entry);
  const faults = faultsOfVersions(own, root);
  for (const [path, entry] of Object.entries(others)) faults.push(...faultsOfPackage(path, entry, approved));
  for (const name of scripts) {
    if (others[`node_modules/${name}`]?.hasInstallScript !== true)
      faults.push(`package.json approves a script of ${name}, which has none`);
  }
  const shipped = Object.values(others).filter(({ dev }) => dev !== true).length;
  return { packages: Object.keys(others).length, shipped, faults };
}

/** Known faults of what is shipped, high and critical; null where the registry offers no audit. */
async function audit(rootFolder) {
  const run = promisify(execFile)("npm", ["audit", "--omit=dev", "--json"], {
    cwd: rootFolder,
    timeout: 60_000,
    maxBuffer: 64 * 1024 * 1024,
  });
  // npm exits with 1 where it found something, and says it all the same.
  const { stdout } = await run.catch((error) => ({ stdout: String(error.stdout ?? "") }));
  const told = stdout.trim().startsWith("{") ? JSON.parse(stdout) : {};
  if (told.vulnerabilities === undefined) return null;
  return Object.values(told.vulnerabilities)
    .filter(({ severity }) => severity === "high" || severity === "critical")
    .map(({ name, severity, range }) => `${name} ${range} has a known fault (${severity})`);
}

const { values } = parseArgs({
  options: { root: { type: "string", default: join(import.meta.dirname, "..") }, audit: { type: "boolean" } },
});
const { packages, shipped, faults } = check(values.root);
const known = values.audit === true ? await audit(values.root) : null;
const all = [...faults, ...(known ?? [])];
for (const fault of all) process.stderr.write(`${fault}\n`);
const audited = values.audit !== true ? "not asked" : known === null ? "not offered here" : known.length;
process.stdout.write(
  `${JSON.stringify({ check: "licences", held: all.length === 0, packages, shipped, faults: all.length, audit: audited })}\n`,
);
process.exitCode = all.length === 0 ? 0 : 1;
