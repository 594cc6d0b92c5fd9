// `npm run check:licences` must find what it is there for: each fault is planted into a copy of the real lock file.
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

interface Lock {
  packages: Record<string, Record<string, unknown>>;
}

function checked(folder: string): Promise<{ readonly code: number; readonly said: string }> {
  return new Promise((resolve) => {
    const script = join(ROOT, "scripts/check-licences.mjs");
    execFile(process.execPath, [script, "--root", folder], (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), said: stdout + stderr });
    });
  });
}

test("What is installed is pinned, licensed and runs no script that nobody named", async () => {
  expect(await checked(ROOT)).toMatchObject({ code: 0 });
});

test.each<[string, (fastify: Record<string, unknown>) => void, RegExp]>([
  ["without a digest", (entry) => delete entry["integrity"], /fastify has no SHA-512/],
  ["with a weak digest", (entry) => (entry["integrity"] = "sha1-abc"), /fastify has no SHA-512/],
  [
    "under a licence that is not listed",
    (entry) => (entry["license"] = "GPL-3.0-only"),
    /licence GPL-3\.0-only/,
  ],
  ["under both of two", (entry) => (entry["license"] = "MIT AND GPL-3.0-only"), /not on the list/],
  ["without a licence", (entry) => delete entry["license"], /licence none/],
  ["under a tool's licence", (entry) => (entry["license"] = "MPL-2.0"), /licence MPL-2\.0/],
  ["with a script", (entry) => (entry["hasInstallScript"] = true), /fastify runs a script/],
  [
    "from a repository",
    (entry) => (entry["resolved"] = "git+ssh://git@host/x.git"),
    /comes from no registry/,
  ],
  ["as a link", (entry) => (entry["link"] = true), /is a link/],
])("A package %s is found", async (_what, plant, words) => {
  const folder = mkdtempSync(join(tmpdir(), "coppice-licences-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(join(ROOT, "package.json"), join(folder, "package.json"));
  const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as Lock;
  plant(lock.packages["node_modules/fastify"] as Record<string, unknown>);
  writeFileSync(join(folder, "package-lock.json"), JSON.stringify(lock));
  const { code, said } = await checked(folder);
  expect(code).toBe(1);
  expect(said).toMatch(words);
});

test("A version that is a range is found", async () => {
  const folder = mkdtempSync(join(tmpdir(), "coppice-licences-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(join(ROOT, "package-lock.json"), join(folder, "package-lock.json"));
  const text = readFileSync(join(ROOT, "package.json"), "utf8");
  writeFileSync(join(folder, "package.json"), text.replace(/"fastify": "/, '"fastify": "^'));
  expect((await checked(folder)).said).toMatch(/fastify is \^[\d.]+, which is no exact version/);
});
