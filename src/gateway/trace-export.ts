// OpenTelemetry spans, one a call, sent as OTLP over HTTP in its JSON form (https://opentelemetry.io/docs/specs/otlp/#otlphttp)
// with the attributes of the GenAI conventions (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/). Written
// out by hand: what it takes is one POST, and the exporters that are kept up need a newer Node. Off unless the usual
// variables name a collector. Neither prompts nor answers are in a span. A collector that fails costs spans, never calls.
import { randomBytes } from "node:crypto";
import { messageOf } from "../errors.ts";
import type { Log } from "./log.ts";

export interface CallSpan {
  /** `traceparent` as the client sent it (https://www.w3.org/TR/trace-context/); anything that is none begins a trace. */
  readonly traceParent: string | null;
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly endedAt: number;
  /** Those that are null are left out. */
  readonly attributes: Readonly<Record<string, string | number | boolean | readonly string[] | null>>;
  /** What failed, as a word; null where nothing did. */
  readonly error: string | null;
}

export interface TraceExportOptions {
  /** Where spans are posted, e.g. `http://127.0.0.1:4318/v1/traces`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
  readonly log: Log;
}

const BATCH = 256;
/** Spans that wait; past it new ones are dropped and counted. About 1 KiB each. */
const MOST_WAITING = 4096;
const SEND_EVERY_MS = 2000;
const SEND_WITHIN_MS = 5000;

/** What the environment says, by the names that every exporter has; null where it names no collector. */
export function traceExportFrom(
  environment: Readonly<Record<string, string | undefined>>,
): Omit<TraceExportOptions, "log"> | null {
  const base = environment["OTEL_EXPORTER_OTLP_ENDPOINT"];
  const url =
    environment["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] ??
    (base === undefined || base === "" ? undefined : `${base.replace(/\/+$/, "")}/v1/traces`);
  if (url === undefined || url === "" || environment["OTEL_SDK_DISABLED"] === "true") return null;
  return {
    url,
    headers: headersOf(
      environment["OTEL_EXPORTER_OTLP_TRACES_HEADERS"] ?? environment["OTEL_EXPORTER_OTLP_HEADERS"] ?? "",
    ),
    serviceName: environment["OTEL_SERVICE_NAME"] ?? "coppice",
  };
}

export class TraceExport {
  readonly #options: TraceExportOptions;
  #waiting: CallSpan[] = [];
  #dropped = 0;
  #sending: Promise<void> | null = null;
  readonly #timer: NodeJS.Timeout;

  constructor(options: TraceExportOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.#send(), SEND_EVERY_MS).unref();
  }

  /** Contract: must not throw and must not wait. */
  add(span: CallSpan): void {
    if (this.#waiting.length >= MOST_WAITING) {
      this.#dropped += 1;
      return;
    }
    this.#waiting.push(span);
    if (this.#waiting.length >= BATCH) void this.#send();
  }

  /** Sends what waits, once. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#sending;
    while (this.#waiting.length > 0) await this.#send();
  }

  #send(): Promise<void> {
    this.#sending ??= this.#sendBatch().finally(() => {
      this.#sending = null;
    });
    return this.#sending;
  }

  async #sendBatch(): Promise<void> {
    const spans = this.#waiting.splice(0, BATCH);
    if (spans.length === 0) return;
    const { url, headers, log } = this.#options;
    const dropped = this.#dropped;
    this.#dropped = 0;
    if (dropped > 0) log("spans_dropped", { spans: dropped });
    try {
      const answered = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(otlp(spans, this.#options.serviceName)),
        signal: AbortSignal.timeout(SEND_WITHIN_MS),
      });
      await answered.arrayBuffer();
      if (!answered.ok) log("spans_not_sent", { spans: spans.length, status: answered.status });
    } catch (error) {
      log("spans_not_sent", { spans: spans.length, reason: messageOf(error) });
    }
  }
}

function otlp(spans: readonly CallSpan[], serviceName: string): object {
  return {
    resourceSpans: [
      {
        resource: { attributes: attributesOf({ "service.name": serviceName }) },
        scopeSpans: [{ scope: { name: "coppice" }, spans: spans.map(spanJson) }],
      },
    ],
  };
}

function spanJson(span: CallSpan): object {
  const parent = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}/.exec(span.traceParent ?? "");
  return {
    traceId: parent?.[1] ?? randomBytes(16).toString("hex"),
    spanId: randomBytes(8).toString("hex"),
    ...(parent === null ? {} : { parentSpanId: parent[2] }),
    name: span.name,
    // CLIENT: the call as the engine was asked.
    kind: 3,
    startTimeUnixNano: nanos(span.startedAt),
    endTimeUnixNano: nanos(span.endedAt),
    attributes: attributesOf({ ...span.attributes, "error.type": span.error }),
    status: span.error === null ? {} : { code: 2 },
  };
}

function nanos(ms: number): string {
  return String(BigInt(Math.round(ms * 1000)) * 1000n);
}

function attributesOf(attributes: CallSpan["attributes"]): object[] {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === null ? [] : [{ key, value: valueOf(value) }],
  );
}

function valueOf(value: string | number | boolean | readonly string[]): object {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value === "number") {
    return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  }
  return { arrayValue: { values: value.map((one) => ({ stringValue: one })) } };
}

/** `name=value,name=value`, percent-encoded. */
function headersOf(text: string): Record<string, string> {
  const pairs = text.split(",").flatMap((pair): [string, string][] => {
    const at = pair.indexOf("=");
    if (at <= 0) return [];
    return [[pair.slice(0, at).trim().toLowerCase(), decoded(pair.slice(at + 1).trim())]];
  });
  return Object.fromEntries(pairs);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return text;
    throw error;
  }
}
