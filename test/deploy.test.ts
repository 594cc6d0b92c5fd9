// What is shipped to run the gateway with must speak of things that are there: each metric on the dashboard and in the docs
// is one that a gateway tells, each variable in deploy/ is one that `coppice serve` reads, each option in the docs is one.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { serveCommand } from "../src/cli/serve.ts";
import { gatewayMetrics } from "../src/gateway/gateway-metrics.ts";

function read(path: string): string {
  return readFileSync(new URL(`../${path}`, import.meta.url), "utf8");
}

function told(): Set<string> {
  const nought = (): number => 0;
  const text = gatewayMetrics({
    callsInFlight: nought,
    unmarkedRecords: nought,
    bodyBytesInFlight: nought,
  }).text();
  return new Set([...text.matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name as string));
}

function named(text: string): Set<string> {
  const names = [...text.matchAll(/\b(?:coppice|process)_[a-z_]+/g)].map(([name]) => name);
  return new Set(names.map((name) => name.replace(/_bucket$/, "")));
}

const variables = new Set(serveCommand().options.flatMap(({ envVar }) => envVar ?? []));

test("The dashboard asks for series that there are, and the docs name every one", () => {
  const there = told();
  const dashboard = read("deploy/grafana-dashboard.json");
  const asked = named(dashboard);
  expect([...asked].filter((name) => !there.has(name))).toEqual([]);
  expect(asked.size).toBeGreaterThan(12);
  expect([...there].filter((name) => !read("docs/operate.md").includes(name))).toEqual([]);
  const panels = (JSON.parse(dashboard) as { panels: { id: number }[] }).panels;
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
});

test("deploy/ sets variables that the gateway reads", () => {
  for (const path of ["deploy/Dockerfile", "deploy/compose.yaml", "deploy/coppice.service"]) {
    const set = [...read(path).matchAll(/\bCOPPICE_[A-Z_]+/g)].map(([name]) => name);
    expect([path, set.filter((name) => !variables.has(name))]).toEqual([path, []]);
    expect(set.length).toBeGreaterThan(0);
  }
});

test("docs/operate.md speaks of options that there are", () => {
  const known = new Set(serveCommand().options.map(({ long }) => long));
  const limits = read("docs/operate.md").split("## Limits")[1]?.split("\n## ")[0] ?? "";
  const named = [...limits.matchAll(/`(--[a-z-]+)`/g)].map(([, name]) => name as string);
  expect(named.filter((name) => !known.has(name))).toEqual([]);
  expect(named).toHaveLength(7);
});
