import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startAll } from "./start.ts";
import { viewCommand } from "./view.ts";

test("a rollout of a ledger is saved as one file, and one that is not there is an error and leaves no file", async () => {
  const folder = await mkdtemp(join(tmpdir(), "coppice-view-"));
  try {
    const ledger = join(folder, "ledger.db");
    await (await startAll({ port: 0, ledger }, () => undefined)).close();
    const out = join(folder, "r0.html");
    await viewCommand().parseAsync(["r0", "--ledger", ledger, "--export", out], { from: "user" });
    const page = await readFile(out, "utf8");
    expect(page).toMatch(/^<!doctype html>/);
    expect(page).toContain("group_g0_s3");
    expect(page).not.toMatch(/(?:src|href)="(?!data:)/);
    const missing = viewCommand().parseAsync(["nobody", "--ledger", ledger, "--export", `${out}2`], {
      from: "user",
    });
    await expect(missing).rejects.toMatchObject({ code: "not_found" });
    await expect(readFile(`${out}2`)).rejects.toMatchObject({ code: "ENOENT" });
  } finally {
    await rm(folder, { recursive: true });
  }
});
