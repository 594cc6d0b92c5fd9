// The page by keys alone.
import type { Browser } from "playwright-core";
import { expect, test } from "vitest";
import { visit } from "./browser.ts";

export function keyboardTests(given: { readonly browser: () => Browser; readonly url: () => string }): void {
  const open = (path: string): ReturnType<typeof visit> =>
    visit(given.browser(), `${given.url()}/page/${path}`);

  test("from the list to a call and a token by keys alone", async () => {
    const { page, faults, close } = await open("");
    await page.locator(".table-lines .name").first().waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("fix-dates");
    await expect.poll(() => page.locator(".table-lines .name").count()).toBe(3);
    await page.keyboard.press("Escape");
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "fix-dates-0" }).waitFor();
    const chosen = (): Promise<string | null> =>
      page.getByRole("treeitem", { selected: true }).getAttribute("data-call");
    for (const [key, call] of [
      ["j", 1],
      ["j", 2],
      ["j", 3],
      ["j", 4],
      ["]", 5],
      ["[", 4],
      ["h", 3],
      ["k", 2],
      ["l", 4],
    ] as const) {
      await page.keyboard.press(key);
      await expect.poll(chosen, { message: `after ${key}` }).toBe(`fix-dates-0-${call}`);
    }
    await page.keyboard.press("o");
    await page.locator(".trail").waitFor();
    const tokens = page.getByRole("listbox");
    await tokens.focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await expect.poll(() => page.url()).toContain("token=1");
    await page.keyboard.press("End");
    expect(await page.locator(".token-note").textContent()).toContain("<|end|>");
    expect(faults).toEqual([]);
    await close();
  });

  test("arrows go through the forest as through an ARIA tree", async () => {
    const { page, close } = await open("#/example/off");
    await page.getByRole("tree").focus();
    const active = async (): Promise<string | null> => {
      const id = await page.getByRole("tree").getAttribute("aria-activedescendant");
      return id === null ? null : page.locator(`#${id}`).getAttribute("data-call");
    };
    for (const [key, call] of [
      ["ArrowDown", "c1"],
      ["ArrowRight", "c2"],
      ["ArrowDown", "c3"],
      ["ArrowDown", "c4"],
      ["ArrowLeft", "c3"],
      ["End", "c9"],
      ["Home", "c1"],
    ] as const) {
      await page.keyboard.press(key);
      await expect.poll(active, { message: `after ${key}` }).toBe(call);
    }
    await page.keyboard.press("ArrowLeft");
    await expect.poll(() => page.getByRole("treeitem").count()).toBe(1);
    expect(await page.getByRole("treeitem").getAttribute("aria-expanded")).toBe("false");
    await page.keyboard.press("ArrowRight");
    await expect.poll(() => page.getByRole("treeitem").count()).toBe(9);
    await page.keyboard.press("Enter");
    await page.locator(".trail").waitFor();
    await close();
  });

  test("the help opens on a question mark, takes the keys, and gives them back", async () => {
    const { page, close } = await open("#/example/off");
    await page.getByRole("treeitem").first().waitFor();
    await page.keyboard.press("?");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("j");
    expect(await page.getByRole("treeitem", { selected: true }).count()).toBe(0);
    await page.keyboard.press("Escape");
    await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
    await page.keyboard.press("j");
    await expect.poll(() => page.getByRole("treeitem", { selected: true }).count()).toBe(1);
    await close();
  });

  test("the colours turn from the system's to light and dark, and stay so after a reload", async () => {
    const { page, close } = await open("#/example/off");
    const theme = (): Promise<string | null> => page.locator("html").getAttribute("data-theme");
    const button = page.getByRole("button", { name: /^Colours/ });
    expect(await theme()).toBeNull();
    await button.click();
    expect(await theme()).toBe("light");
    await button.click();
    expect(await theme()).toBe("dark");
    await page.reload();
    await button.waitFor();
    expect(await theme()).toBe("dark");
    await close();
  });
}
