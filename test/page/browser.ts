// A real Chromium from npm for the page's tests, measurements and screenshots: unpacked once, started headless, as root
// too. What a page logs as an error is kept, so that a test can say that nothing was.
import chromium from "@sparticuz/chromium";
import { chromium as playwright, type Browser, type BrowserContextOptions, type Page } from "playwright-core";

export async function startBrowser(): Promise<Browser> {
  return playwright.launch({
    executablePath: await chromium.executablePath(),
    args: ["--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--font-render-hinting=none"],
    headless: true,
  });
}

export interface Visit {
  readonly page: Page;
  /** Errors of the console, of scripts and of the content security policy so far. */
  readonly faults: string[];
  readonly close: () => Promise<void>;
}

export const WIDE = { width: 1440, height: 900 };
export const NARROW = { width: 390, height: 844 };

export async function visit(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Visit> {
  const context = await browser.newContext({ viewport: WIDE, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(8000);
  const faults: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(error.message));
  await page.goto(url);
  return { page, faults, close: () => context.close() };
}
