// Every report in docs/field-cases.md is held by a test that names it, so that it can be found and is not lost.
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const root = new URL("../", import.meta.url);
const REPORT = /^[\w -]+ \d+$/;

const reports = readFileSync(new URL("docs/field-cases.md", root), "utf8")
  .split("\n")
  .map((line) => line.split("|").map((cell) => cell.trim()))
  .filter(([, report]) => report !== undefined && REPORT.test(report))
  .map(([, report, , , held]) => ({ report: String(report), file: String(held).replaceAll("`", "") }));

test("the list of reported faults is read whole", () => {
  expect(reports.length).toBeGreaterThan(45);
});

test.each(reports)("$report is held by $file", ({ report, file }) => {
  const held = new URL(file, root);
  expect(existsSync(held)).toBe(true);
  if (file.startsWith("vectors/")) return;
  const [project, number] = [
    report.slice(0, report.lastIndexOf(" ")),
    report.slice(report.lastIndexOf(" ") + 1),
  ];
  // Two numbers of one project may stand in one title.
  expect(readFileSync(held, "utf8")).toMatch(new RegExp(`${project} (\\d+, )*${number}\\b`));
});
