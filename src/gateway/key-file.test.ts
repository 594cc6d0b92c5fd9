import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { addKey, KeyFile, readKeyFile, revokeKey } from "./key-file.ts";
import { eventually, startUnderTest, type UnderTest } from "./testing/gateway-under-test.ts";

const BODY = { model: "m", messages: [{ role: "user", content: "hello" }] };
const CLIENT = { kind: "client", rolloutId: null, groupId: null, label: null } as const;

function keyFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "coppice-keys-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "keys.jsonl");
}

function bearer(key: string): Record<string, string> {
  return { authorization: `Bearer ${key}` };
}

async function withFile(path: string): Promise<UnderTest> {
  return startUnderTest({ gateway: { keyFile: path } });
}

describe("a key file", () => {
  test("has the hash of a key and not its text, and only its owner reads it", () => {
    const path = keyFile();
    const { id, secret } = addKey(path, { ...CLIENT, label: "team a" });
    expect(readFileSync(path, "utf8")).not.toContain(secret);
    expect(statSync(path).mode & 0o077).toBe(0);
    expect(readKeyFile(path)).toMatchObject([{ id, kind: "client", label: "team a", revokedAt: null }]);
  });

  test("names the line that is wrong without repeating it", () => {
    const path = keyFile();
    addKey(path, CLIENT);
    appendFileSync(path, "cpk-written-by-hand\n");
    expect(() => readKeyFile(path)).toThrow(/line 2: it is no key/);
    expect(() => readKeyFile(path)).not.toThrow(/written-by-hand/);
    expect(() => revokeKey(path, "key-1")).toThrow(/line 2/);
  });

  test("that is not there, or does not have the id, is said", () => {
    const path = keyFile();
    expect(() => readKeyFile(path)).toThrow(/can't be read/);
    addKey(path, CLIENT);
    expect(() => revokeKey(path, "key-0")).toThrow(/has no key key-0/);
  });

  test("that breaks while the gateway runs keeps the keys as they were, and says so", async () => {
    const path = keyFile();
    const { id } = addKey(path, CLIENT);
    const sha256 = (readKeyFile(path)[0] as { readonly sha256: string }).sha256;
    const logged: string[] = [];
    const keys = new KeyFile(path, (event) => void logged.push(event));
    writeFileSync(path, "{");
    await eventually(
      "it is noticed",
      () => {
        expect(keys.find(sha256)?.id).toBe(id);
        return logged.includes("keys_not_read");
      },
      4000,
    );
  });
});

describe("a gateway with a key file", () => {
  test("lets in who is in it, and lets nobody in while it has no keys", async () => {
    const path = keyFile();
    writeFileSync(path, "");
    const empty = await withFile(path);
    expect((await empty.chat("r1", "hello")).status).toBe(401);
    const client = addKey(path, CLIENT);
    const operator = addKey(path, { ...CLIENT, kind: "operator" });
    const under = await withFile(path);
    expect((await under.send("POST", "/r/r1/v1/chat/completions", BODY, bearer(client.secret))).status).toBe(
      200,
    );
    expect((await under.send("GET", "/rollouts", undefined, bearer(client.secret))).status).toBe(403);
    expect((await under.send("GET", "/rollouts", undefined, bearer(operator.secret))).status).toBe(200);
  });

  test("takes up a new key and a revocation while it runs", async () => {
    const path = keyFile();
    const first = addKey(path, { ...CLIENT, kind: "operator" });
    const under = await withFile(path);
    const second = addKey(path, { ...CLIENT, kind: "operator" });
    const status = async (key: string): Promise<number> =>
      (await under.send("GET", "/rollouts", undefined, bearer(key))).status;
    await eventually("the new key is known", async () => (await status(second.secret)) === 200, 4000);
    revokeKey(path, first.id);
    await eventually("the old key is refused", async () => (await status(first.secret)) === 401, 4000);
    expect(await status(second.secret)).toBe(200);
  });

  test("holds a key to its rollout", async () => {
    const path = keyFile();
    const { secret } = addKey(path, { ...CLIENT, rolloutId: "r1" });
    const under = await withFile(path);
    expect((await under.send("POST", "/v1/chat/completions", BODY, bearer(secret))).status).toBe(200);
    expect((await under.send("POST", "/r/r2/v1/chat/completions", BODY, bearer(secret))).status).toBe(403);
    expect((await under.send("GET", "/r/r2/v1/models", undefined, bearer(secret))).status).toBe(403);
    expect((await under.send("GET", "/rollouts/r1", undefined, bearer(secret))).status).toBe(200);
  });

  test("holds a key to its group: opened into it, called, ended, and nothing else", async () => {
    const path = keyFile();
    const { secret } = addKey(path, { ...CLIENT, groupId: "g1" });
    const operator = addKey(path, { ...CLIENT, kind: "operator" });
    const under = await withFile(path);
    const send = (method: string, to: string, body?: unknown, more = {}): Promise<number> =>
      under.send(method, to, body, { ...bearer(secret), ...more }).then(({ status }) => status);
    expect(await send("POST", "/r/r1/v1/chat/completions", BODY)).toBe(403);
    expect(await send("PUT", "/rollouts/r1", {})).toBe(403);
    expect(await send("PUT", "/rollouts/r1", { group_id: "g2" })).toBe(403);
    expect(await send("PUT", "/rollouts/r1", { group_id: "g1" })).toBe(200);
    expect(await send("POST", "/r/r1/v1/chat/completions", BODY)).toBe(200);
    expect(await send("POST", "/v1/chat/completions", BODY, { "x-coppice-rollout": "r1" })).toBe(200);
    for (const [id, group] of [
      ["r2", "g2"],
      ["r3", null],
    ] as const) {
      await under.send("PUT", `/rollouts/${id}`, { group_id: group }, bearer(operator.secret));
      expect(await send("POST", `/r/${id}/v1/chat/completions`, BODY)).toBe(403);
      expect(await send("POST", "/v1/chat/completions", BODY, { "x-coppice-rollout": id })).toBe(403);
      expect(await send("GET", `/rollouts/${id}`)).toBe(403);
      expect(await send("PUT", `/rollouts/${id}`, { group_id: "g1" })).toBe(403);
      expect(await send("POST", `/rollouts/${id}/outcome`, { failed: "x" })).toBe(403);
      expect(await under.calls(id)).toEqual([]);
    }
    expect(await send("GET", "/groups/g1/rows")).toBe(403);
    expect(await send("POST", "/rollouts/r1/outcome", { failed: "x" })).toBe(200);
  });

  test("derives no key that outlives a revocation", async () => {
    const path = keyFile();
    const client = addKey(path, CLIENT);
    const under = await startUnderTest({ gateway: { keyFile: path, clientKeys: ["client-key-1"] } });
    const opened = await under.send("PUT", "/rollouts/r1", {}, bearer(client.secret));
    expect(opened.json["client_key"]).toBeNull();
    const byFlag = await under.send("PUT", "/rollouts/r1", {}, bearer("client-key-1"));
    expect(byFlag.json["client_key"]).toMatch(/^cpk\.r1\./);
  });
});
