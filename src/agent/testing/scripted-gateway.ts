// A tiny HTTP server in the gateway's shape, for tests: it answers calls as scripted and keeps what it was sent.
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Record<string, unknown>;
}

export interface Scripted {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Sent as it stands, e.g. server-sent events. */
  readonly text?: string;
  /** Milliseconds before the answer. */
  readonly delayMs?: number;
}

export interface ScriptedGateway {
  readonly url: string;
  readonly received: readonly Received[];
  /** Calls for the model alone, in order. */
  readonly calls: () => readonly Received[];
  readonly close: () => Promise<void>;
}

/** Answers the n-th call of the model with a message `a{n}` and the response id `resp-{n}`, unless scripted. */
export async function scriptedGateway(
  script: (received: Received, callNumber: number) => Scripted | null = () => null,
): Promise<ScriptedGateway> {
  const received: Received[] = [];
  const isCall = ({ path }: Received): boolean => path.endsWith("/chat/completions");
  const server = createServer((request, response) => {
    void readBody(request).then(async (body) => {
      const one: Received = {
        method: request.method ?? "",
        path: request.url ?? "",
        headers: request.headers,
        body,
      };
      received.push(one);
      const number = received.filter(isCall).length;
      const scripted = script(one, number) ?? (isCall(one) ? { json: completion(number) } : { json: {} });
      if (scripted.delayMs !== undefined) {
        await new Promise((resolve) => setTimeout(resolve, scripted.delayMs));
      }
      answer(response, scripted, number);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    received,
    calls: () => received.filter(isCall),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export function completion(number: number, message: Readonly<Record<string, unknown>> = {}): unknown {
  return {
    id: `resp-${number}`,
    object: "chat.completion",
    model: "model",
    choices: [
      { index: 0, message: { role: "assistant", content: `a${number}`, ...message }, finish_reason: "stop" },
    ],
    usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
  };
}

/** Server-sent events of chat completion chunks; `[DONE]` ends them unless they are cut. */
export function events(
  deltas: readonly Readonly<Record<string, unknown>>[],
  { finishReason = "stop", done = true }: { finishReason?: string | null; done?: boolean } = {},
): Scripted {
  const chunks = deltas.map((delta, index) => ({
    id: "resp-s",
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, finish_reason: index === deltas.length - 1 ? finishReason : null }],
  }));
  const usage = {
    id: "resp-s",
    object: "chat.completion.chunk",
    choices: [],
    usage: { prompt_tokens: 5, completion_tokens: 3 },
  };
  const lines = [...chunks, ...(done ? [usage] : [])].map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`);
  return {
    headers: { "content-type": "text/event-stream" },
    text: lines.join("") + (done ? "data: [DONE]\n\n" : ""),
  };
}

async function readBody(request: IncomingMessage): Promise<Record<string, unknown>> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const text = Buffer.concat(parts).toString("utf8");
  return text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
}

function answer(response: ServerResponse, scripted: Scripted, number: number): void {
  response.writeHead(scripted.status ?? 200, {
    "content-type": "application/json",
    "x-coppice-call-id": `call-${number}`,
    ...scripted.headers,
  });
  response.end(scripted.text ?? JSON.stringify(scripted.json ?? {}));
}
