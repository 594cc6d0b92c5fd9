// Asking an engine in tests: engines and servers that close themselves after each test, and the parts of a reply.
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect } from "vitest";
import { CoppiceError } from "../../errors.ts";
import type { Engine, EngineChoice, EngineChunk, EngineReply } from "../engine.ts";
import { startStandIn, type Fault, type StandIn, type StandInOptions } from "../stand-in.ts";
import { vllmEngine, type VllmOptions } from "../vllm.ts";
import { startCanned } from "./canned-server.ts";

const open: (() => Promise<void>)[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((close) => close()));
});

export function connect(url: string, options: Partial<VllmOptions> = {}): Engine {
  const engine = vllmEngine({ url, ...options });
  open.push(() => engine.close());
  return engine;
}

export async function start(
  standInOptions: StandInOptions = {},
  options: Partial<VllmOptions> = {},
): Promise<{ standIn: StandIn; engine: Engine }> {
  const standIn = await startStandIn(standInOptions);
  open.push(() => standIn.close());
  return { standIn, engine: connect(standIn.url, options) };
}

/** An engine whose every answer has these faults. */
export async function faulty(...faults: Fault[]): Promise<{ standIn: StandIn; engine: Engine }> {
  return start({ mode: "counters", script: () => faults });
}

export async function canned(body: string | Buffer, contentType: string, status = 200): Promise<Engine> {
  const server = await startCanned({ body, contentType, status });
  open.push(() => server.close());
  return connect(server.url);
}

export const ASK: Readonly<Record<string, unknown>> = {
  messages: [{ role: "user", content: "t10 t11" }],
  max_tokens: 64,
};
export const ANSWER: Fault = { kind: "answer", answer: { content: "t5 t6 t7 t8" } };

export interface Told {
  readonly reply: EngineReply;
  readonly chunks: readonly EngineChunk[];
}

export async function ask(
  engine: Engine,
  options: { stream?: boolean; body?: Record<string, unknown>; signal?: AbortSignal } = {},
): Promise<Told> {
  const chunks: EngineChunk[] = [];
  const reply = await engine.chat({
    body: { ...ASK, ...options.body },
    stream: options.stream ?? false,
    signal: options.signal ?? new AbortController().signal,
    onChunk: (chunk) => void chunks.push(structuredClone(chunk)),
  });
  return { reply, chunks };
}

export function only(reply: EngineReply): EngineChoice {
  expect(reply.choices).toHaveLength(1);
  return reply.choices[0] as EngineChoice;
}

export function ids(choice: EngineChoice): number[] {
  return [...choice.tokenIds];
}

export async function refusal(promise: Promise<unknown>): Promise<CoppiceError> {
  const error: unknown = await promise.then(
    () => new Error("it was not refused"),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof CoppiceError)) throw error;
  return error;
}

export const BOTH: readonly { readonly stream: boolean }[] = [{ stream: false }, { stream: true }];

/** The URL of a server of one's own. */
export async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  open.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => {
      server.close(resolve);
    });
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Something to be closed after the test. */
export function closeAfter(close: () => Promise<void>): void {
  open.push(close);
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => {
    server.close(resolve);
  });
  return port;
}
