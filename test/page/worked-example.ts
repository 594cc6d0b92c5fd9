// What a person does with the worked example: opens it, switches, plays walks, looks for what was thrown away.
import type { Browser } from "playwright-core";
import { expect, test } from "vitest";
import { visit } from "./browser.ts";

export function workedExampleTests(given: {
  readonly browser: () => Browser;
  readonly url: () => string;
}): void {
  const open = (path: string, options = {}): ReturnType<typeof visit> =>
    visit(given.browser(), `${given.url()}/page/${path}`, options);

  test("the worked example opens from the list without set-up, and the switch shows both of its shapes", async () => {
    const { page, faults, close } = await open("");
    await page.getByRole("link", { name: "Worked example" }).click();
    await page.getByRole("heading", { name: "The worked example" }).waitFor();
    expect(await page.getByRole("treeitem").count()).toBe(9);
    const facts = page.locator(".example-facts");
    expect(await facts.locator("tbody tr", { hasText: "shape" }).locator("td").allTextContents()).toEqual([
      "one tree",
      "a forest of 4 trees",
    ]);
    expect(
      await facts.locator("tbody tr", { hasText: "leaves walked" }).locator("td").allTextContents(),
    ).toEqual(["1: c9", "4: c2 c5 c8 c9"]);
    expect(await page.locator(".chip.root").count()).toBe(1);
    await page.getByRole("switch", { name: /Compaction/ }).click();
    await expect.poll(() => page.locator(".chip.root").count()).toBe(4);
    expect(page.url()).toMatch(/#\/example\/on$/);
    await expect.poll(() => page.locator(".dock-row").count()).toBe(4);
    expect(await page.locator(".check.holds").textContent()).toContain("7 tokens of 7 kept calls");
    expect(faults).toEqual([]);
    await close();
  });

  test("choosing the walked leaf plays its walk up to the root and builds the row segment by segment", async () => {
    const { page, close } = await open("#/example/off");
    await page.getByRole("treeitem", { name: /^c9/ }).click();
    const words = page.locator(".walk-words .mono");
    await expect.poll(() => words.textContent()).toMatch(/^c9( → c8)?$/);
    const builtEarly = await page.locator(".segment.built").count();
    expect(builtEarly).toBeLessThan(7);
    await expect.poll(() => words.textContent(), { timeout: 6000 }).toBe("c9 → c8 → c6 → c5 → c3 → c2 → c1");
    await expect.poll(() => page.locator(".segment.built").count()).toBe(7);
    expect(await page.locator(".dock .cell").allTextContents()).toEqual(
      "10 11 1001 20 21 1002 30 31 1003 50 51 1005 60 61 1006 80 81 1008 90 91 1009".split(" "),
    );
    expect(await page.locator(".dock .cell.trained").count()).toBe(7);
    await page.getByRole("button", { name: "Play the walk" }).click();
    await expect.poll(() => page.locator(".segment.built").count()).toBeLessThan(7);
    await close();
  });

  test("where less motion is asked for, the walk stands finished at once", async () => {
    const { page, close } = await open("#/example/on", { reducedMotion: "reduce" });
    await page.getByRole("treeitem", { name: /^c8/ }).click();
    await page.locator(".walk-words").waitFor();
    expect(await page.locator(".walk-words .mono").textContent()).toBe("c8 → c6");
    expect(await page.locator(".segment.unbuilt").count()).toBe(0);
    await close();
  });

  test("rejected calls are found by the filter and say that they are never walked", async () => {
    const { page, close } = await open("#/example/on");
    await page.getByRole("group", { name: "Filter calls" }).getByRole("button", { name: "rejected" }).click();
    await expect.poll(() => page.getByRole("treeitem").count()).toBe(2);
    expect(page.url()).toContain("only=rejected");
    await page.getByRole("treeitem", { name: /^c4/ }).click();
    expect(await page.locator(".dock").textContent()).toMatch(
      /c4 was rejected: it is never walked and never trained/,
    );
    await close();
  });

  test("a word explains itself on hover, on focus and on a tap, and Escape puts the note away", async () => {
    const { page, close } = await open("#/example/off", { hasTouch: true });
    const note = page.locator("#term-note.shown");
    const term = page.locator(".example-words .term", { hasText: "rewrite" });
    await term.hover();
    expect(await note.textContent()).toContain("changed its context");
    await page.mouse.move(2, 2);
    await expect.poll(() => note.count()).toBe(0);
    await term.focus();
    await note.waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => note.count()).toBe(0);
    await page.locator(".example-words .term", { hasText: "tree" }).tap();
    await expect.poll(() => note.textContent()).toContain("A root and all calls below it");
    await close();
  });
}
