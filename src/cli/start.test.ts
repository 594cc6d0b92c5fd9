import { expect, test } from "vitest";
import { startAll } from "./start.ts";

test("what npm start runs serves the page and shows the worked example as it was just played", async () => {
  const running = await startAll({ port: 0 }, () => undefined);
  try {
    const page = await fetch(`${running.url}/`);
    expect([page.status, page.url, page.headers.get("content-type")]).toEqual([
      200,
      `${running.url}/page/`,
      "text/html; charset=utf-8",
    ]);
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
    const get = async (path: string): Promise<unknown> =>
      (await fetch(`${running.url}/page/api/ledger/${path}`)).json();
    const kept = (await get("rollouts/r0/kept")) as {
      rows: { row_id: string; tokens: number; advantage: number }[];
    };
    expect(kept.rows.map((row) => [row.row_id, row.tokens, row.advantage])).toEqual([
      ["group_g0_s0", 6, 0.5],
      ["group_g0_s1", 6, 0.5],
      ["group_g0_s2", 6, 0.5],
      ["group_g0_s3", 3, 0.5],
    ]);
    const { calls } = (await get("rollouts/r0")) as { calls: { call_id: string[]; root: number[] } };
    expect(calls.call_id).toHaveLength(9);
    const { texts } = (await get("texts?ids=10,1001")) as { texts: Record<string, string> };
    expect(texts).toEqual({ 10: "t10", 1001: "t1001" });
    expect(await get(`rollouts/r0/calls/${calls.call_id[2]}`)).toMatchObject({
      root: "asked_again",
      rewrite: { other_call_id: calls.call_id[0] },
    });
  } finally {
    await running.close();
  }
});
