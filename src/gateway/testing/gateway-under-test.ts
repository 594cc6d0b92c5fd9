// A gateway over real sockets, with the stand-in behind it and a ledger in memory, for tests. Everything that is
// started is closed again after the test, whatever became of it.
import { onTestFinished } from "vitest";
import type { Engine } from "../../engine/engine.ts";
import { startStandIn, type StandIn, type StandInOptions } from "../../engine/stand-in.ts";
import { vllmEngine } from "../../engine/vllm.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { openSqliteLedger } from "../../ledger/sqlite-ledger.ts";
import type { Call } from "../../lineage/call.ts";
import { rolloutId } from "../../lineage/call.ts";
import type { GatewayOptions } from "../gateway-options.ts";
import type { LogFields } from "../log.ts";
import { startGateway, type Gateway } from "../server.ts";

export type Json = Record<string, unknown>;

export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body's JSON; undefined where it is none. */
  readonly json: Json;
}

export interface UnderTest {
  readonly url: string;
  readonly gateway: Gateway;
  readonly standIn: StandIn;
  readonly engine: Engine;
  readonly ledger: Ledger;
  readonly logged: readonly { readonly event: string; readonly fields: LogFields }[];
  send(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answered>;
  /** A chat completion of a rollout; the messages are user messages unless they are given whole. */
  chat(rollout: string, messages: string | readonly Json[], fields?: Json): Promise<Answered>;
  /** What the ledger has of the newest attempt, by admission. */
  calls(rollout: string): Promise<readonly Call[]>;
}

export interface UnderTestOptions {
  readonly standIn?: StandInOptions;
  readonly gateway?: Partial<Omit<GatewayOptions, "engine" | "ledger">>;
  /** Stands between gateway and ledger, to watch or to fail. */
  readonly ledger?: (ledger: Ledger) => Ledger;
  readonly engine?: (engine: Engine) => Engine;
}

export async function startUnderTest(options: UnderTestOptions = {}): Promise<UnderTest> {
  const standIn = closedOnce(await startStandIn(options.standIn));
  const real = vllmEngine({ url: standIn.url, kind: "stand-in" });
  const engine = options.engine?.(real) ?? real;
  const memory = await openSqliteLedger(":memory:");
  const ledger = options.ledger?.(memory) ?? memory;
  const logged: { event: string; fields: LogFields }[] = [];
  const gateway = await startGateway({
    host: "127.0.0.1",
    port: 0,
    drainMs: 500,
    log: (event, fields) => void logged.push({ event, fields: fields ?? {} }),
    ...options.gateway,
    engine,
    ledger,
  });
  onTestFinished(async () => {
    await gateway.close();
    await real.close();
    await standIn.close();
    await memory.close();
  });
  const send = sender(gateway.url);
  return {
    url: gateway.url,
    gateway,
    standIn,
    engine,
    ledger,
    logged,
    send,
    chat: (rollout, messages, fields = {}) =>
      send("POST", `/r/${rollout}/v1/chat/completions`, {
        model: "any",
        ...fields,
        messages: messagesOf(messages),
      }),
    calls: (rollout) => memory.calls({ rolloutId: rolloutId(rollout), attempt: null }),
  };
}

/** A test may close the engine itself. */
function closedOnce(standIn: StandIn): StandIn {
  let closing: Promise<void> | null = null;
  return {
    url: standIn.url,
    requests: standIn.requests,
    get weightVersion() {
      return standIn.weightVersion;
    },
    close: () => (closing ??= standIn.close()),
  };
}

export function messagesOf(messages: string | readonly Json[]): readonly Json[] {
  return typeof messages === "string" ? [{ role: "user", content: messages }] : messages;
}

export function sender(url: string): UnderTest["send"] {
  return async (method, path, body, headers = {}) => {
    const sent =
      body === undefined
        ? null
        : typeof body === "string" || Buffer.isBuffer(body)
          ? body
          : JSON.stringify(body);
    const response = await fetch(url + path, {
      method,
      headers: { ...(sent === null ? {} : { "content-type": "application/json" }), ...headers },
      body: sent,
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: parseOrUndefined(text) as Json };
  };
}

function parseOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** The `data:` frames of a stream, `[DONE]` as the text that it is. */
export function framesOf(text: string): (Json | string)[] {
  return text
    .split("\n\n")
    .filter((event) => event.startsWith("data: "))
    .map((event) => event.slice("data: ".length))
    .map((frame) => (frame === "[DONE]" ? frame : (JSON.parse(frame) as Json)));
}

export function messageOfAnswer(answered: Answered): Json {
  const choices = answered.json["choices"] as readonly { readonly message: Json }[];
  return (choices[0] as { readonly message: Json }).message;
}

/** The error of an answer in the OpenAI shape. */
export function errorOf(answered: Answered): Json {
  return answered.json["error"] as Json;
}

/** Waits until `condition` holds; throws past the bound. */
export async function eventually<T>(
  what: string,
  condition: () => T | undefined | null | false | Promise<T | undefined | null | false>,
  withinMs = 2000,
): Promise<T> {
  const end = performance.now() + withinMs;
  for (;;) {
    const value = await condition();
    if (value !== undefined && value !== null && value !== false) return value;
    if (performance.now() > end) throw new Error(`within ${withinMs} ms it did not come to be that ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
