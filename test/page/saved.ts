// A page that was saved as one file: opened from a disk, without a server and without a network.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser } from "playwright-core";
import { expect, test } from "vitest";
import { readTrace } from "../../src/export/trace.ts";
import { traceSource } from "../../src/page/page-source.ts";
import { savePage } from "../../src/page/save-page.ts";
import { HOSTILE, hostileTrace, sampleTrace } from "../../src/page/testing/sample-trace.ts";
import { SampleTokenizer } from "../../src/page/testing/sample-tokenizer.ts";
import { TokenTexts } from "../../src/page/token-texts.ts";
import { visit, type Visit } from "./browser.ts";

export function savedTests(given: { readonly browser: () => Browser }): void {
  const tokenizer = new SampleTokenizer();
  const trace = [...sampleTrace(tokenizer, 1_000_000), ...hostileTrace(tokenizer, 1_000_100)];
  const options = {
    source: traceSource(readTrace(trace)),
    texts: new TokenTexts(tokenizer),
    savedAt: Date.UTC(2026, 0, 2),
    product: "coppice 0.0.0",
  };
  const saved = async (rollout: string, look: (seen: Visit) => Promise<void>): Promise<void> => {
    const folder = await mkdtemp(join(tmpdir(), "saved-page-"));
    try {
      const file = join(folder, "page.html");
      await writeFile(file, await savePage(rollout, options));
      const seen = await visit(given.browser(), pathToFileURL(file).href, { offline: true });
      await look(seen);
      expect(seen.faults).toEqual([]);
      await seen.close();
    } finally {
      await rm(folder, { recursive: true });
    }
  };

  test("opens offline with its forest, its walks, its rows and the texts of its tokens", async () => {
    await saved("fix-dates-0", async ({ page }) => {
      await expect.poll(() => page.getByRole("treeitem").count()).toBe(11);
      await page.getByRole("treeitem", { name: /^c7/ }).click();
      await expect
        .poll(() => page.locator(".walk-words .mono").textContent(), { timeout: 6000 })
        .toBe("c7 → c5 → c3 → c2");
      await page.getByRole("link", { name: "Open", exact: true }).click();
      await page
        .locator('[role=option][aria-description*="generated, trained"]', { hasText: "leap" })
        .first()
        .click();
      await page.getByRole("button", { name: /Follow into row/ }).click();
      await page.getByRole("heading", { name: "fix-dates_g0_s1" }).waitFor();
      expect(await page.locator(".top").textContent()).toContain(
        "saved 2026-01-02 00:00:00 UTC by coppice 0.0.0",
      );
      await page.reload();
      await page.getByRole("heading", { name: "fix-dates_g0_s1" }).waitFor();
      expect(
        await page.evaluate(
          "document.fonts.check('16px Inter') && [...document.fonts].some((font) => font.status === 'loaded')",
        ),
      ).toBe(true);
    });
  });

  test("hostile texts neither end their element nor run", async () => {
    await saved("hostile-0", async ({ page }) => {
      await page.getByRole("treeitem", { name: /^c1/ }).click();
      await expect.poll(() => page.locator("main").textContent()).toContain(HOSTILE);
      expect(await page.title()).not.toBe("owned");
      expect(await page.evaluate("document.querySelectorAll('img').length + document.scripts.length")).toBe(
        2,
      );
    });
  });
}
