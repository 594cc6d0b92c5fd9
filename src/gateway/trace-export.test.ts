import { createServer, type IncomingHttpHeaders } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { eventually, startUnderTest, type Json } from "./testing/gateway-under-test.ts";
import { TraceExport, traceExportFrom } from "./trace-export.ts";

interface Collector {
  readonly url: string;
  readonly posts: { readonly path: string; readonly headers: IncomingHttpHeaders; readonly json: Json }[];
}

async function collector(status = 200): Promise<Collector> {
  const posts: { path: string; headers: IncomingHttpHeaders; json: Json }[] = [];
  const server = createServer((request, response) => {
    let text = "";
    request.setEncoding("utf8").on("data", (piece: string) => (text += piece));
    request.on("end", () => {
      posts.push({ path: String(request.url), headers: request.headers, json: JSON.parse(text) as Json });
      response.writeHead(status).end("{}");
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  onTestFinished(() => void server.close());
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("it listens on no port");
  return { url: `http://127.0.0.1:${address.port}`, posts };
}

interface Span {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly status: { readonly code?: number };
  readonly attributes: { readonly key: string; readonly value: Json }[];
}

function spansOf({ posts }: Collector): Span[] {
  return posts.flatMap(({ json }) =>
    (json["resourceSpans"] as { scopeSpans: { spans: Span[] }[] }[]).flatMap(({ scopeSpans }) =>
      scopeSpans.flatMap(({ spans }) => spans),
    ),
  );
}

function attribute(span: Span | undefined, key: string): unknown {
  const value = span?.attributes.find((one) => one.key === key)?.value;
  return value === undefined ? undefined : Object.values(value)[0];
}

test("Each call is one span, in the client's trace, with counts and without a word of the prompt", async () => {
  const there = await collector();
  const traces = traceExportFrom({
    OTEL_EXPORTER_OTLP_ENDPOINT: `${there.url}/`,
    OTEL_EXPORTER_OTLP_HEADERS: "authorization=Basic%20abc,x-team=a",
    OTEL_SERVICE_NAME: "coppice-a",
  });
  if (traces === null) throw new Error("the environment names a collector");
  const under = await startUnderTest({ gateway: { traces } });
  const trace = "0af7651916cd43dd8448eb211c80319c";
  await under.send(
    "POST",
    "/r/r1/a/scout/v1/chat/completions",
    { model: "policy", messages: [{ role: "user", content: "a very private prompt" }] },
    { traceparent: `00-${trace}-b7ad6b7169203331-01` },
  );
  await under.chat("r1", "again");
  await under.gateway.close();
  const spans = spansOf(there);
  expect(spans).toHaveLength(2);
  const [first, second] = spans as [Span, Span];
  expect(first).toMatchObject({ name: "chat policy", traceId: trace, parentSpanId: "b7ad6b7169203331" });
  expect(second.parentSpanId).toBeUndefined();
  expect(second.traceId).toMatch(/^[0-9a-f]{32}$/);
  expect(attribute(first, "gen_ai.conversation.id")).toBe("r1");
  expect(attribute(first, "gen_ai.agent.name")).toBe("scout");
  const [call] = await under.calls("r1");
  expect(attribute(first, "coppice.call.id")).toBe(call?.callId);
  expect(attribute(first, "gen_ai.usage.output_tokens")).toBe(String(call?.generatedLength));
  expect(BigInt(first.endTimeUnixNano) >= BigInt(first.startTimeUnixNano)).toBe(true);
  expect(Number(BigInt(first.startTimeUnixNano) / 1_000_000n)).toBe(call?.admittedAt);
  expect(there.posts[0]).toMatchObject({
    path: "/v1/traces",
    headers: { authorization: "Basic abc", "x-team": "a" },
  });
  expect(JSON.stringify(there.posts[0]?.json)).toContain("coppice-a");
  expect(JSON.stringify(spans)).not.toContain("private");
});

test("A call that failed is a span with its error", async () => {
  const there = await collector();
  const under = await startUnderTest({
    gateway: { traces: { url: there.url, headers: {}, serviceName: "coppice" }, model: "m" },
  });
  await under.standIn.close();
  expect((await under.chat("r1", "hello")).status).toBe(502);
  await under.gateway.close();
  const [span] = spansOf(there);
  expect(span?.status).toEqual({ code: 2 });
  expect(attribute(span, "error.type")).toBe("failed");
});

test("A collector that refuses or is not there costs spans and no calls, and it is logged", async () => {
  const there = await collector(503);
  for (const url of [there.url, "http://127.0.0.1:9"]) {
    const under = await startUnderTest({
      gateway: { traces: { url, headers: { authorization: "secret-header" }, serviceName: "coppice" } },
    });
    expect((await under.chat("r1", "hello")).status).toBe(200);
    await under.gateway.close();
    expect(under.logged.some(({ event }) => event === "spans_not_sent")).toBe(true);
    expect(JSON.stringify(under.logged)).not.toContain("secret-header");
  }
});

test("Spans that come faster than they are taken are dropped and counted, not kept", async () => {
  const there = await collector();
  const logged: [string, unknown][] = [];
  const traces = new TraceExport({
    url: there.url,
    headers: {},
    serviceName: "coppice",
    log: (event, fields) => void logged.push([event, fields]),
  });
  const span = { traceParent: null, name: "chat", startedAt: 1, endedAt: 2, attributes: {}, error: null };
  for (let at = 0; at < 6000; at += 1) traces.add(span);
  await traces.close();
  await eventually("all have come", () => spansOf(there).length + 1 > 4096);
  const dropped = logged
    .filter(([event]) => event === "spans_dropped")
    .map(([, fields]) => fields as { spans: number });
  expect(spansOf(there).length + dropped.reduce((sum, { spans }) => sum + spans, 0)).toBe(6000);
});

test("Without a collector in the environment nothing is exported", () => {
  expect(traceExportFrom({})).toBeNull();
  expect(traceExportFrom({ OTEL_EXPORTER_OTLP_ENDPOINT: "" })).toBeNull();
  expect(traceExportFrom({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://x", OTEL_SDK_DISABLED: "true" })).toBeNull();
});
