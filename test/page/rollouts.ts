// What a person does with rollouts of their own: follows a token to its row and back, compares, comes back to a link,
// watches one grow.
import type { Browser } from "playwright-core";
import { expect, test } from "vitest";
import { NARROW, visit } from "./browser.ts";

interface Given {
  readonly browser: () => Browser;
  readonly url: () => string;
  /** One more call of the rollout that is still open. */
  readonly grow: () => void;
  readonly end: () => void;
}

export function rolloutTests(given: Given): void {
  const open = (path: string, options = {}): ReturnType<typeof visit> =>
    visit(given.browser(), `${given.url()}/page/${path}`, options);

  test("the list shows groups with rewards, advantages, trees, leaves, rows, refusals and alarms", async () => {
    const { page, faults, close } = await open("");
    const row = page.getByRole("row", { name: /fix-dates-0/ });
    await expect.poll(() => row.locator(".cell-rows").textContent()).toBe("3");
    expect(await row.locator(".number, .cell-advantage b").allTextContents()).toEqual([
      "1.0",
      "+0.5",
      "11",
      "4",
      "7",
      "3",
      expect.any(String),
    ]);
    expect(await page.getByRole("row", { name: /fix-dates-2/ }).textContent()).toContain(
      "capture_incomplete",
    );
    expect(await page.getByRole("row", { name: /port-parser-0/ }).textContent()).toContain("2 drift");
    await page.getByRole("button", { name: /^refused/ }).click();
    await expect.poll(() => page.getByRole("row", { name: /fix-dates-0/ }).count()).toBe(0);
    await page.getByRole("searchbox").fill("fix");
    await expect.poll(() => page.locator(".table-lines .name").allTextContents()).toEqual(["fix-dates-2"]);
    expect(faults).toEqual([]);
    await close();
  });

  test("a token of a call is followed into its row, and from there back to its call", async () => {
    const { page, faults, close } = await open("#/rollout/fix-dates-0/call/fix-dates-0-3");
    await page
      .locator('[role=option][aria-description*="generated, trained"]', { hasText: "leap" })
      .first()
      .click();
    const call = new URLSearchParams(page.url().split("?")[1]).get("token");
    await page.getByRole("button", { name: /Follow into row fix-dates_g0_s1/ }).click();
    await page.getByRole("heading", { name: "fix-dates_g0_s1" }).waitFor();
    const selected = page.getByRole("option", { selected: true });
    expect(await selected.textContent()).toContain("leap");
    await page.getByRole("button", { name: "Back to call c3" }).click();
    await page.getByRole("heading", { name: "c3" }).waitFor();
    expect(new URLSearchParams(page.url().split("?")[1]).get("token")).toBe(call);
    expect(faults).toEqual([]);
    await close();
  });

  test("a drifted root shows both token runs, a rewritten one what was kept, dropped and added, twins stand side by side", async () => {
    const { page, close } = await open("#/rollout/port-parser-0/call/port-parser-0-2");
    await expect
      .poll(() => page.locator(".run.recorded .run-token.first").textContent())
      .toContain("<think>");
    expect(await page.locator(".run.sent .run-token.first").textContent()).toContain("I");
    await page.goto(`${given.url()}/page/#/rollout/fix-dates-0/call/fix-dates-0-8`);
    await expect
      .poll(() => page.locator(".rewrite > p .fate").allTextContents())
      .toEqual(["kept 2", "dropped 5", "added 1"]);
    await page.goto(`${given.url()}/page/#/rollout/fix-dates-0/call/fix-dates-0-11`);
    await expect.poll(() => page.locator(".card").count()).toBe(3);
    await expect
      .poll(() => page.locator(".card", { hasText: "Mended: is_leap follows the rule of 400" }).count())
      .toBe(2);
    await close();
  });

  test("choosing replaces the address, opening adds to the way back", async () => {
    const { page, close } = await open("#/");
    await page.getByRole("link", { name: "fix-dates-0" }).click();
    for (const name of [/^c3/, /^c5/, /^c8/]) await page.getByRole("treeitem", { name }).click();
    expect(page.url()).toContain("call=fix-dates-0-8");
    await page.getByRole("link", { name: "Open", exact: true }).click();
    await page.locator(".trail").waitFor();
    await page.goBack();
    await expect.poll(() => page.url()).toContain("#/rollout/fix-dates-0?call=fix-dates-0-8");
    await page.goBack();
    await page.getByRole("heading", { name: "Rollouts" }).waitFor();
    await close();
  });

  test("a deep link comes back after a reload: call, filter, fold and all", async () => {
    const { page, close } = await open("#/rollout/fix-dates-0?call=fix-dates-0-7&only=kept");
    await page.getByRole("complementary").getByRole("heading", { name: "c7" }).waitFor();
    expect(await page.getByRole("treeitem").count()).toBe(7);
    await page.getByRole("treeitem", { name: /^c8/ }).click();
    await page.getByRole("tree").press("ArrowLeft");
    await expect.poll(() => page.getByRole("treeitem").count()).toBe(6);
    await page.reload();
    await page.getByRole("complementary").getByRole("heading", { name: "c8" }).waitFor();
    await expect.poll(() => page.getByRole("treeitem").count()).toBe(6);
    expect(await page.getByRole("treeitem", { selected: true }).getAttribute("data-call")).toBe(
      "fix-dates-0-8",
    );
    await close();
  });

  test("a rollout that is watched grows call by call, and what is chosen stays where it is", async () => {
    const { page, faults, close } = await open("#/rollout/growing-0?call=growing-0-2");
    await expect.poll(() => page.getByRole("treeitem").count()).toBe(3);
    const chosen = page.getByRole("treeitem", { selected: true });
    const before = await chosen.boundingBox();
    given.grow();
    await expect.poll(() => page.getByRole("treeitem").count()).toBe(4);
    given.grow();
    given.grow();
    await expect.poll(() => page.getByRole("treeitem").count()).toBe(6);
    expect(await chosen.getAttribute("data-call")).toBe("growing-0-2");
    expect((await chosen.boundingBox())?.y).toBe(before?.y);
    expect(await page.locator(".rollout-head .state").textContent()).toBe("open");
    given.end();
    await expect.poll(() => page.locator(".rollout-head .state").textContent()).toBe("sealed");
    await expect.poll(() => page.locator(".dock").textContent()).toContain("growing_g0_s0");
    expect(faults).toEqual([]);
    await close();
  });

  test("on a narrow screen a call is opened from under the forest, and nothing is wider than the screen", async () => {
    const { page, close } = await open("#/rollout/fix-dates-0", { viewport: NARROW });
    await page.getByRole("treeitem", { name: /^c5/ }).click();
    await page.getByRole("button", { name: "Open", exact: true }).click();
    await page.getByRole("heading", { name: "c5" }).waitFor();
    for (const path of [
      "#/",
      "#/example/on?call=c5",
      "#/rollout/fix-dates-0",
      "#/rollout/fix-dates-0/row/1",
      "#/rollout/hostile-0/call/hostile-0-1",
    ]) {
      await page.goto(`${given.url()}/page/${path}`);
      await page.locator("h1").first().waitFor();
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(NARROW.width);
    }
    await close();
  });
}
