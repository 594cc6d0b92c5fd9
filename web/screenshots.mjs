// Makes the page's pictures in docs/images from the page itself over a sample trace: both states of the worked example, a
// rollout, a call, a row, the list, each wide and narrow, light and dark. After a build: node web/screenshots.mjs
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import chromium from "@sparticuz/chromium";
import { chromium as playwright } from "playwright-core";
import { runnerImport } from "vite";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const OUT = `${ROOT}docs/images`;
const SIZES = { wide: { width: 1440, height: 900 }, narrow: { width: 390, height: 844 } };
const VIEWS = {
  "example-off": "#/example/off",
  "example-on": "#/example/on",
  walk: "#/example/on?call=c5",
  rollouts: "#/",
  rollout: "#/rollout/fix-dates-0?call=fix-dates-0-7",
  call: "#/rollout/fix-dates-0/call/fix-dates-0-5?token=27",
  drift: "#/rollout/port-parser-0/call/port-parser-0-2",
  row: "#/rollout/fix-dates-0/row/2?token=104",
};

async function load(path) {
  const { module } = await runnerImport(`${ROOT}${path}`, { configFile: false, logLevel: "error" });
  return module;
}

const { startPageServer } = await load("src/page/testing/page-server.ts");
const { SampleTokenizer } = await load("src/page/testing/sample-tokenizer.ts");
const { sampleTrace } = await load("src/page/testing/sample-trace.ts");
const tokenizer = new SampleTokenizer();
// A quarter of an hour ago, to the second of a fixed day: the same pictures every time.
const NOW = Date.UTC(2026, 0, 15, 12, 0, 0);
const server = await startPageServer({
  lines: sampleTrace(tokenizer, NOW / 1000 - 900),
  engine: tokenizer,
});
const browser = await playwright.launch({
  executablePath: await chromium.executablePath(),
  args: ["--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--font-render-hinting=none"],
  headless: true,
});
mkdirSync(OUT, { recursive: true });
try {
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ["light", "dark"]) {
      const context = await browser.newContext({ viewport, colorScheme, reducedMotion: "reduce" });
      const page = await context.newPage();
      await page.clock.setFixedTime(NOW);
      await page.goto(`${server.url}/page/`);
      await page.locator(".cell-rows").first().waitFor({ state: "attached" });
      for (const [view, path] of Object.entries(VIEWS)) {
        await page.goto(`${server.url}/page/${path}`);
        await page.locator("h1").first().waitFor();
        await page.evaluate("document.fonts.ready");
        await page.waitForTimeout(700);
        await page.screenshot({ path: `${OUT}/page-${view}-${size}-${colorScheme}.png` });
      }
      await context.close();
    }
  }
} finally {
  await browser.close();
  await server.close();
}
