// Content is never markup, nothing is asked of anybody else, and what is shown can be read by everybody.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { expect, test } from "vitest";
import { HOSTILE } from "../../src/page/testing/sample-trace.ts";
import { NARROW, visit, WIDE } from "./browser.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Given {
  readonly browser: () => Browser;
  readonly url: () => string;
  readonly lockedUrl: () => string;
}

const VIEWS = [
  "#/",
  "#/example/off",
  "#/example/on?call=c5",
  "#/rollout/fix-dates-0?call=fix-dates-0-8",
  "#/rollout/fix-dates-0/call/fix-dates-0-11?token=12",
  "#/rollout/port-parser-0/call/port-parser-0-2",
  "#/rollout/fix-dates-0/row/1?token=3",
  "#/rollout/fix-dates-2",
];

export function safetyTests(given: Given): void {
  test("hostile texts in every field are shown as text on every view", async () => {
    const { page, faults, close } = await visit(given.browser(), `${given.url()}/page/`);
    for (const path of [
      "#/",
      "#/rollout/hostile-0",
      "#/rollout/hostile-0?call=hostile-0-1",
      "#/rollout/hostile-0/call/hostile-0-1",
      "#/rollout/hostile-0/call/hostile-0-2?token=5",
    ]) {
      await page.goto(`${given.url()}/page/${path}`);
      await expect.poll(() => page.locator("body").textContent()).toContain(HOSTILE);
      expect(await page.title()).not.toBe("owned");
      expect(
        await page.evaluate(
          "document.querySelectorAll('main img, main script, main iframe, main object').length",
        ),
      ).toBe(0);
      expect(
        await page.evaluate(
          "[...document.querySelectorAll('a')].filter((a) => !a.getAttribute('href').startsWith('#')).length",
        ),
      ).toBe(0);
    }
    for (const json of await page.getByRole("button", { name: "JSON" }).all()) await json.click();
    expect(await page.title()).not.toBe("owned");
    expect(faults).toEqual([]);
    await close();
  });

  test("the page asks nothing of any other host, and its policy lets no inline script run", async () => {
    const { page, close } = await visit(given.browser(), `${given.url()}/page/#/rollout/fix-dates-0`);
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).origin));
    await page.reload();
    await page.getByRole("treeitem").first().click();
    await page.locator(".token").first().waitFor();
    expect([...new Set(asked)]).toEqual([given.url()]);
    await page.evaluate(
      "const script = document.createElement('script'); try { script.textContent = 'document.title=1'; } catch (error) { document.body.dataset.refused = error.name; } document.head.append(script)",
    );
    expect(await page.locator("body").getAttribute("data-refused")).toBe("TypeError");
    expect(await page.title()).not.toBe("1");
    await close();
  });

  test("a gateway with operator keys asks for one, and opens with it", async () => {
    const { page, close } = await visit(given.browser(), `${given.lockedUrl()}/page/`);
    await page.getByLabel("Operator key").fill("operator-key");
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByRole("link", { name: "fix-dates-0" }).click();
    await expect.poll(() => page.getByRole("treeitem").count()).toBe(11);
    await close();
  });

  for (const colorScheme of ["light", "dark"] as const) {
    for (const viewport of [WIDE, NARROW]) {
      test(`axe finds nothing serious on any view, ${colorScheme}, ${viewport.width} wide`, async () => {
        const { page, close } = await visit(given.browser(), `${given.url()}/page/`, {
          colorScheme,
          viewport,
          reducedMotion: "reduce",
        });
        const found: unknown[] = [];
        for (const path of VIEWS) {
          await page.goto(`${given.url()}/page/${path}`);
          await page.locator("h1").first().waitFor();
          await page.waitForTimeout(150);
          found.push(...(await seriousFaults(page)).map((fault) => ({ path, ...fault })));
        }
        expect(found).toEqual([]);
        await close();
      });
    }
  }
}

async function seriousFaults(page: Page): Promise<Record<string, unknown>[]> {
  await page.evaluate(AXE);
  return page.evaluate(`axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
    violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ id, nodes }) => ({
      id, count: nodes.length, first: nodes.slice(0, 3).map(({ html, failureSummary }) => [html.slice(0, 200), failureSummary]) })))`);
}
