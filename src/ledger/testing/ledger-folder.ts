// A folder for one test's ledger files, deleted after it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

export function ledgerPath(name = "ledger.db"): string {
  const folder = mkdtempSync(join(tmpdir(), "coppice-ledger-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, name);
}
