// The stand-in's HTTP: routes, the list of requests that it got, and for each whether its client went away.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { messageOf } from "../../errors.ts";
import { parseBody, Refused, type Body } from "./request.ts";

/** A request as the stand-in got it. Times are milliseconds of `performance.now()`. */
export interface StandInRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** Null where there was none. */
  readonly body: Body | null;
  readonly receivedAt: number;
  /** When the answer was written to its end; null where it was not. */
  readonly answeredAt: number | null;
  /** When the client closed the connection with its answer unfinished; null where it did not. */
  readonly clientGoneAt: number | null;
}

/** One request being answered. */
export interface Exchange {
  readonly request: StandInRequest;
  readonly response: ServerResponse;
  /** Aborted when the client has gone. */
  readonly gone: AbortSignal;
}

export const SERVER: Readonly<Record<string, string>> = { server: "coppice-stand-in" };

export type Handler = (exchange: Exchange) => void | Promise<void>;

export interface HttpOptions {
  readonly host: string;
  readonly port: number;
  /** Bearer token that requests to `/v1` must have; null for none. */
  readonly apiKey: string | null;
  /** The newest so many requests are kept. */
  readonly keepRequests: number;
}

export interface HttpServer {
  readonly url: string;
  readonly requests: readonly StandInRequest[];
  close(): Promise<void>;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Starts listening; rejects where the port is taken. Routes are keyed like `POST /tokenize`. */
export async function serve(routes: ReadonlyMap<string, Handler>, options: HttpOptions): Promise<HttpServer> {
  const requests: StandInRequest[] = [];
  const server = createServer((incoming, response) => {
    void answer({ incoming, response, routes, requests, options });
  });
  // Kept-alive connections outlive the pools of those who ask.
  server.keepAliveTimeout = 75_000;
  server.requestTimeout = 0;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://${options.host}:${port}`, requests, close: () => close(server) };
}

/** Closes every connection too. Closing once more is fine. */
function close(server: Server): Promise<void> {
  if (!server.listening) return Promise.resolve();
  return new Promise((resolve, reject) => {
    server.close((error) => (error === undefined ? resolve() : reject(error)));
    server.closeAllConnections();
  });
}

interface Incoming {
  readonly incoming: IncomingMessage;
  readonly response: ServerResponse;
  readonly routes: ReadonlyMap<string, Handler>;
  readonly requests: StandInRequest[];
  readonly options: HttpOptions;
}

async function answer({ incoming, response, routes, requests, options }: Incoming): Promise<void> {
  const path = (incoming.url ?? "/").split("?", 1)[0] as string;
  const method = incoming.method ?? "GET";
  const request: Mutable<StandInRequest> = {
    method,
    path,
    headers: incoming.headers,
    body: null,
    receivedAt: performance.now(),
    answeredAt: null,
    clientGoneAt: null,
  };
  requests.push(request);
  if (requests.length > options.keepRequests) requests.shift();
  const gone = new AbortController();
  response.once("close", () => {
    if (response.writableFinished) request.answeredAt = performance.now();
    else {
      if (!brokenHere.has(response)) request.clientGoneAt = performance.now();
      gone.abort();
    }
  });
  try {
    const text = await readText(incoming);
    if (text !== "") request.body = parseBody(text);
    checkKey(incoming, path, options.apiKey);
    const handler = routes.get(`${method} ${path}`);
    if (handler === undefined) sendJson(response, 404, '{"detail":"Not Found"}');
    else await handler({ request, response, gone: gone.signal });
  } catch (error) {
    if (gone.signal.aborted || response.headersSent) breakConnection(response);
    else if (error instanceof Refused) sendJson(response, error.status, error.json());
    else {
      const refused = new Refused(500, "InternalServerError", messageOf(error));
      sendJson(response, 500, refused.json());
    }
  }
}

/** Answers whose connection the stand-in itself has closed. */
const brokenHere = new WeakSet<ServerResponse>();

/** Closes the connection under an answer; that is not the client's going away. */
export function breakConnection(response: ServerResponse): void {
  brokenHere.add(response);
  response.destroy();
}

async function readText(incoming: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of incoming as AsyncIterable<Buffer>) pieces.push(piece);
  return Buffer.concat(pieces).toString("utf8");
}

function checkKey(incoming: IncomingMessage, path: string, apiKey: string | null): void {
  if (apiKey === null || !path.startsWith("/v1/")) return;
  if (incoming.headers.authorization === `Bearer ${apiKey}`) return;
  throw new Refused(401, "Unauthorized", "Unauthorized");
}

export function sendJson(
  response: ServerResponse,
  status: number,
  json: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  const body = Buffer.from(json);
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": body.length,
    ...SERVER,
    ...headers,
  });
  response.end(body);
}
