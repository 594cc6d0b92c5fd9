import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import {
  errorOf,
  eventually,
  messageOfAnswer,
  startUnderTest,
  type Json,
  type UnderTest,
} from "./testing/gateway-under-test.ts";
import { rawPost } from "./testing/raw-client.ts";

const BODY = { model: "m", messages: [{ role: "user", content: "hello" }] };

async function rollouts(under: UnderTest): Promise<unknown[]> {
  const { json } = await under.send("GET", "/rollouts");
  return (json["rollouts"] as Json[]).map((rollout) => rollout["rollout_id"]);
}

describe("where calls are posted", () => {
  test.each([
    "/r/r1/v1/chat/completions",
    "/r/r1/chat/completions",
    "/r/r1/v1/v1/chat/completions",
    "/r/r1/v1/chat/completions?beta=true&x=%20",
    "/r/r1/v1/chat/completions/",
    "/r/r1/a/sub/v1/chat/completions",
    "/r/r1/a/sub/chat/completions",
  ])("%s is a call of rollout r1", async (path) => {
    const under = await startUnderTest();
    expect((await under.send("POST", path, BODY)).status).toBe(200);
    const [call] = await under.calls("r1");
    expect(call?.agent).toBe(path.includes("/a/sub/") ? "sub" : null);
  });

  test("a header says the same, and one that says otherwise is a 400", async () => {
    const under = await startUnderTest();
    const named = { "x-coppice-rollout": "r1" };
    expect((await under.send("POST", "/v1/chat/completions", BODY, named)).status).toBe(200);
    expect((await under.send("POST", "/r/r1/v1/chat/completions", BODY, named)).status).toBe(200);
    const other = await under.send("POST", "/r/r2/v1/chat/completions", BODY, named);
    expect(other.status).toBe(400);
    expect(errorOf(other)["param"]).toBe("x-coppice-rollout");
    expect(await rollouts(under)).toEqual(["r1"]);
  });

  test("a call that names no rollout is a 400, or passes through uncaptured where that is allowed, and is counted", async () => {
    const strict = await startUnderTest();
    expect((await strict.send("POST", "/v1/chat/completions", BODY)).status).toBe(400);
    const open = await startUnderTest({ gateway: { requireRollout: false } });
    for (const stream of [false, true]) {
      const answered = await open.send("POST", "/v1/chat/completions", { ...BODY, stream });
      expect(answered.status).toBe(200);
      expect(answered.text).not.toContain("token_ids");
      expect(answered.headers.get("x-coppice-call-id")).toBeNull();
    }
    expect(await rollouts(open)).toEqual([]);
    expect((await open.send("GET", "/metrics")).text).toContain("coppice_uncaptured_calls_total 2\n");
  });

  test("models are listed, and the base answers those who look first", async () => {
    const under = await startUnderTest({ standIn: { model: "policy" } });
    for (const path of ["/r/r1/v1/models", "/v1/models", "/r/r1/models?limit=1000"]) {
      const { json } = await under.send("GET", path);
      expect(json).toMatchObject({ object: "list", data: [{ id: "policy", object: "model" }] });
    }
    for (const path of ["/r/r1", "/r/r1/v1", "/v1", "/r/r1/a/sub"]) {
      expect((await under.send("HEAD", path)).status).toBe(200);
    }
    expect(await rollouts(under)).toEqual([]);
  });

  test("another method is a 405 that names what there is, without reading the body", async () => {
    const under = await startUnderTest();
    for (const [method, path, allowed] of [
      ["GET", "/r/r1/v1/chat/completions", "POST"],
      ["PUT", "/r/r1/v1/chat/completions", "POST"],
      ["POST", "/rollouts/r1", "PUT, GET, HEAD, DELETE"],
      ["DELETE", "/weights", "PUT, GET, HEAD"],
    ] as const) {
      const answered = await under.send(method, path, method === "GET" ? undefined : BODY);
      expect(answered.status).toBe(405);
      expect(answered.headers.get("allow")).toBe(allowed);
      expect(errorOf(answered)["type"]).toBe("invalid_request_error");
    }
  });

  test("a WebSocket is refused with 426, so that clients fall back at once", async () => {
    const under = await startUnderTest();
    const call = await rawPost(
      under.url,
      "/r/r1/v1/responses",
      {},
      { connection: "Upgrade", upgrade: "websocket" },
    );
    await call.until("HTTP/1.1 426");
    call.leave();
  });

  test("public agents' own marks label the agent and the class; ours come first", async () => {
    const under = await startUnderTest();
    const post = (headers: Record<string, string>): Promise<unknown> =>
      under.send("POST", "/r/r1/v1/chat/completions", BODY, headers);
    await post({ "x-claude-code-agent-id": "agent-7", "x-claude-code-request-class": "subagent" });
    await post({ "x-session-id": "ses_1", "x-claude-code-request-class": "something new" });
    await post({ "x-coppice-agent": "mine", "x-session-id": "ses_1", "x-coppice-class": "compaction" });
    expect((await under.calls("r1")).map((call) => [call.agent, call.class])).toEqual([
      ["agent-7", "sub_agent"],
      ["ses_1", null],
      ["mine", "compaction"],
    ]);
    const wrong = await under.send("POST", "/r/r1/v1/chat/completions", BODY, { "x-coppice-class": "big" });
    expect(errorOf(wrong)["message"]).toContain("main, sub_agent, compaction, title, auxiliary");
  });

  test("two children of one parent in flight at once hang each where it was asked (uni-agent 66)", async () => {
    const under = await startUnderTest({ standIn: { template: "chatml" } });
    const root = [{ role: "user", content: "root" }];
    const first = await under.chat("r1", root);
    const branch = (name: string): Json[] => [
      ...root,
      messageOfAnswer(first),
      { role: "user", content: name },
    ];
    const fields = { max_tokens: 5, seed: 2 };
    const [left, right] = await Promise.all([
      under.chat("r1", branch("@@fault:slow=20@@ left"), fields),
      under.chat("r1", branch("@@fault:slow=20@@ right"), fields),
    ]);
    await Promise.all([
      under.chat("r1", [
        ...branch("@@fault:slow=20@@ left"),
        messageOfAnswer(left),
        { role: "user", content: "l2" },
      ]),
      under.chat("r1", [
        ...branch("@@fault:slow=20@@ right"),
        messageOfAnswer(right),
        { role: "user", content: "r2" },
      ]),
    ]);
    const calls = await under.calls("r1");
    const parentOf = (answered: Json): unknown =>
      calls.find((call) => call.responseId === answered["id"])?.parentCallId;
    const idOf = (answered: Json): unknown =>
      calls.find((call) => call.responseId === answered["id"])?.callId;
    expect([parentOf(left.json), parentOf(right.json)]).toEqual([idOf(first.json), idOf(first.json)]);
    expect(new Set(calls.slice(3).map((call) => call.parentCallId))).toEqual(
      new Set([idOf(left.json), idOf(right.json)]),
    );
  });
});

describe("bodies that are none", () => {
  test.each([
    ["{oops", null],
    ["", null],
    ["[1]", null],
    ['{"model":"m"}', "messages"],
    ['{"messages":"hi"}', "messages"],
    ['{"messages":[1]}', "messages[0]"],
    ['{"messages":[{"content":"x"}]}', "messages[0].role"],
    ['{"messages":[],"model":7}', "model"],
    ['{"messages":[],"stream":"yes"}', "stream"],
    ['{"messages":[],"n":0}', "n"],
    ['{"messages":[],"n":1.5}', "n"],
    ['{"messages":[],"n":129}', "n"],
  ])("%s is a 400 before anything is recorded or asked", async (body, param) => {
    const under = await startUnderTest();
    const answered = await under.send("POST", "/r/r1/v1/chat/completions", body);
    expect(answered.status).toBe(400);
    expect(errorOf(answered)).toMatchObject({ type: "invalid_request_error", param });
    expect(await rollouts(under)).toEqual([]);
    expect(under.standIn.requests.filter(({ method }) => method === "POST")).toHaveLength(0);
  });
});

describe("large and packed bodies", () => {
  test("of 40 MiB are accepted; past the limit a 413 in the caller's dialect (suna 6490)", async () => {
    const under = await startUnderTest({
      standIn: { maxModelLength: 1_000_000_000 },
      gateway: { limits: { bodyBytes: 41 * 1024 * 1024 } },
    });
    const url = `data:image/png;base64,${"A".repeat(40 * 1024 * 1024)}`;
    const content = [
      { type: "text", text: "look" },
      { type: "image_url", image_url: { url } },
    ];
    expect((await under.chat("r1", [{ role: "user", content }])).status).toBe(200);
    const over = await rawPost(under.url, "/r/r1/v1/chat/completions", {}, { "x-nothing": "" });
    over.leave();
    const refused = await under
      .chat("r1", [{ role: "user", content: "A".repeat(42 * 1024 * 1024) }])
      .catch(() => null);
    if (refused !== null) {
      expect(refused.status).toBe(413);
      expect(errorOf(refused)["code"]).toBe("too_large");
    }
  }, 30_000);

  test("that say they are too large are refused before they are sent", async () => {
    const under = await startUnderTest({ gateway: { limits: { bodyBytes: 1000 } } });
    const call = await rawPost(under.url, "/healthz", {});
    call.socket.write(
      "POST /r/r1/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000\r\n\r\n",
    );
    await call.until("HTTP/1.1 413");
    await call.until('"type":"invalid_request_error"');
    call.leave();
  });

  const packed: readonly (readonly [string, (bytes: Buffer) => Buffer])[] = [
    ["gzip", gzipSync],
    ["x-gzip", gzipSync],
    ["br", brotliCompressSync],
    ["deflate", deflateSync],
    ["deflate", deflateRawSync],
    ["zstd", zstdFrame],
    ["identity", (bytes) => bytes],
  ];
  test.each(packed)("in %s are unpacked (pi 8517)", async (encoding, pack) => {
    const under = await startUnderTest();
    const bytes = pack(Buffer.from(JSON.stringify(BODY)));
    const answered = await under.send("POST", "/r/r1/v1/chat/completions", bytes, {
      "content-encoding": encoding,
    });
    expect(answered.status).toBe(200);
    expect((await under.calls("r1"))[0]?.messages).toEqual(BODY.messages);
  });

  const bombs: readonly (readonly [string, Buffer])[] = [
    ["gzip", gzipSync(Buffer.alloc(5_000_000))],
    ["br", brotliCompressSync(Buffer.alloc(5_000_000))],
    ["deflate", deflateSync(Buffer.alloc(5_000_000))],
    ["zstd", zstdBomb(40)],
  ];
  test.each(bombs)("that unpack to more than the limit are a 413 (pi 8517): %s", async (encoding, bytes) => {
    const under = await startUnderTest({ gateway: { limits: { bodyBytes: 1_000_000 } } });
    expect(bytes.length).toBeLessThan(10_000);
    const answered = await under.send("POST", "/r/r1/v1/chat/completions", bytes, {
      "content-encoding": encoding,
    });
    expect(answered.status).toBe(413);
    expect(errorOf(answered)["code"]).toBe("too_large");
  });

  test("in an encoding that nobody here knows are a 415, and broken ones a 400 (pi 8517)", async () => {
    const under = await startUnderTest();
    const unknown = await under.send("POST", "/r/r1/v1/chat/completions", BODY, {
      "content-encoding": "lzma",
    });
    expect(unknown.status).toBe(415);
    expect(errorOf(unknown)["message"]).toContain("gzip, br, deflate, zstd");
    for (const encoding of ["gzip", "br", "deflate", "zstd"]) {
      const broken = await under.send("POST", "/r/r1/v1/chat/completions", BODY, {
        "content-encoding": encoding,
      });
      expect(broken.status).toBe(400);
    }
  });

  test("of any content type are read as what they are", async () => {
    const under = await startUnderTest();
    for (const type of ["text/plain", "application/octet-stream", "application/json; charset=UTF-8", "x/y"]) {
      const answered = await under.send("POST", "/r/r1/v1/chat/completions", BODY, { "content-type": type });
      expect(answered.status).toBe(200);
    }
  });
});

describe("limits", () => {
  test("calls in flight of one rollout past the limit are a 429 with retry-after; other rollouts go on", async () => {
    const under = await startUnderTest({ gateway: { limits: { callsInFlightPerRollout: 2 } } });
    const slow = [1, 2].map(() => under.chat("r1", "@@fault:slow=100@@", { max_tokens: 3 }));
    await eventually("both are in flight", async () => (await under.calls("r1")).length === 2);
    const third = await under.chat("r1", "x");
    expect([third.status, third.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(errorOf(third)["type"]).toBe("rate_limit_error");
    expect((await under.chat("r2", "x")).status).toBe(200);
    await Promise.all(slow);
    expect((await under.chat("r1", "x")).status).toBe(200);
  });

  test("bytes of bodies in flight past the limit are a 503; one body alone always fits", async () => {
    const under = await startUnderTest({ gateway: { limits: { bodyBytesInFlight: 500 } } });
    expect((await under.chat("r1", "x".repeat(2000))).status).toBe(200);
    const slow = under.chat("r1", "@@fault:slow=100@@", { max_tokens: 3 });
    await eventually("it is in flight", async () => (await under.calls("r1")).length === 2);
    expect((await under.chat("r1", "y".repeat(500))).status).toBe(503);
    expect((await under.chat("r1", "small")).status).toBe(200);
    await slow;
    expect((await under.chat("r1", "y".repeat(500))).status).toBe(200);
  });

  test("calls in flight of all past the limit are a 503 with retry-after; management goes on", async () => {
    const under = await startUnderTest({ gateway: { limits: { callsInFlight: 1 } } });
    const slow = under.chat("r1", "@@fault:slow=100@@", { max_tokens: 3 });
    await eventually("it is in flight", async () => (await under.calls("r1")).length === 1);
    const second = await under.chat("r2", "x");
    expect([second.status, second.headers.get("retry-after")]).toEqual([503, "1"]);
    expect((await under.send("GET", "/rollouts/r1")).status).toBe(200);
    await slow;
    expect((await under.chat("r2", "x")).status).toBe(200);
  });
});

/** A zstd frame of one raw block (RFC 8878), as no compressor of this Node's can make one. */
function zstdFrame(bytes: Buffer): Buffer {
  const header = Buffer.alloc(9);
  header.writeUInt32LE(0xfd2fb528, 0);
  // Single segment, four bytes of content size.
  header.writeUInt8(0b1010_0000, 4);
  header.writeUInt32LE(bytes.length, 5);
  return Buffer.concat([header, blockHeader(bytes.length, 0), bytes]);
}

/** So many blocks of 128 KiB, each of one repeated byte. */
function zstdBomb(blocks: number): Buffer {
  const header = Buffer.alloc(6);
  header.writeUInt32LE(0xfd2fb528, 0);
  // No content size; a window of 128 KiB.
  header.writeUInt8(0, 4);
  header.writeUInt8(7 << 3, 5);
  const one = Buffer.concat([blockHeader(128 * 1024, 1, false), Buffer.from(" ")]);
  const last = Buffer.concat([blockHeader(1, 1), Buffer.from(" ")]);
  return Buffer.concat([header, ...Array.from({ length: blocks }, () => one), last]);
}

function blockHeader(size: number, type: 0 | 1, last = true): Buffer {
  const header = Buffer.alloc(3);
  header.writeUIntLE((size << 3) | (type << 1) | (last ? 1 : 0), 0, 3);
  return header;
}
