import { afterAll, beforeAll, expect, test } from "vitest";
import { startPageServer, type PageServer } from "./testing/page-server.ts";
import { SampleTokenizer } from "./testing/sample-tokenizer.ts";
import { sampleTrace } from "./testing/sample-trace.ts";

let server: PageServer;
let locked: PageServer;

beforeAll(async () => {
  const tokenizer = new SampleTokenizer();
  const lines = sampleTrace(tokenizer, 1_000_000);
  server = await startPageServer({ lines, engine: tokenizer });
  locked = await startPageServer({ lines, operatorKeys: ["operator-key"] });
});

afterAll(async () => {
  await Promise.all([server.close(), locked.close()]);
});

test("a strict content security policy stands on every answer of the page", async () => {
  for (const path of ["/page/api/example", "/page/api/ledger/rollouts"]) {
    const response = await fetch(`${server.url}${path}`);
    const policy = response.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self'");
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    expect(response.headers.get("cache-control")).toBe("no-store");
  }
});

test("with operator keys the ledger is closed to others, and the worked example stays open", async () => {
  const status = async (path: string, key?: string): Promise<number> =>
    (
      await fetch(
        `${locked.url}${path}`,
        key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } },
      )
    ).status;
  expect(await status("/page/api/ledger/rollouts")).toBe(401);
  expect(await status("/page/api/ledger/rollouts/fix-dates-0/kept")).toBe(401);
  expect(await status("/page/api/ledger/texts?ids=1")).toBe(401);
  expect(await status("/page/api/ledger/rollouts", "operator-key")).toBe(200);
  expect(await status("/page/api/example")).toBe(200);
  expect(await status("/page/api/example-on/rollouts/r0")).toBe(200);
});

test("what is not there is a 404, and what cannot be read a 400 that names the field", async () => {
  const answer = async (path: string): Promise<[number, string]> => {
    const response = await fetch(`${server.url}/page/api/ledger/${path}`);
    const body = (await response.json()) as { error: { message: string } };
    return [response.status, body.error.message];
  };
  expect(await answer("rollouts/nobody")).toEqual([404, "there is no rollout nobody"]);
  expect(await answer("rollouts/fix-dates-0/calls/c77")).toEqual([
    404,
    "rollout fix-dates-0 has no call c77",
  ]);
  expect(await answer("rollouts/fix-dates-0?since=x")).toEqual([
    400,
    'since is "x"; it must be a whole number',
  ]);
  expect(await answer("texts?ids=1,x")).toEqual([400, "ids must be at most 1024 token ids between commas"]);
});

test("texts of tokens come from the engine", async () => {
  const call = (await (
    await fetch(`${server.url}/page/api/ledger/rollouts/fix-dates-0/calls/fix-dates-0-2`)
  ).json()) as { generated: number[] };
  const { texts } = (await (
    await fetch(`${server.url}/page/api/ledger/texts?ids=${call.generated.join(",")}`)
  ).json()) as { texts: Record<string, string> };
  expect(call.generated.map((id) => texts[id]).join("")).toMatch(/^I run the failing test first/);
});

test("nothing but reading is possible", async () => {
  for (const method of ["POST", "PUT", "DELETE"]) {
    const { status } = await fetch(`${server.url}/page/api/ledger/rollouts`, { method });
    expect([404, 405]).toContain(status);
  }
});
