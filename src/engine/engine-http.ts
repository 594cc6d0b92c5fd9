// HTTP to one engine: a pool of kept-alive connections, no hidden time limits, no proxy out of the environment, and
// what goes wrong before an answer begins put into words. What the bodies mean is the adapters' business.
import { Pool, type Dispatcher } from "undici";
import { CoppiceError, messageOf } from "../errors.ts";
import { isRecord } from "../lineage/message.ts";

export interface EngineHttpOptions {
  /** Where the engine is, e.g. `http://127.0.0.1:8000`; a `/v1` at its end is taken off. */
  readonly url: string;
  /** Sent as a bearer token. */
  readonly apiKey?: string;
  /** Connections at once; without it there is no limit, since an engine queues better than a client. */
  readonly connections?: number;
  /** How long a connection may take to come about, in milliseconds; 10 s by default. */
  readonly connectTimeoutMs?: number;
  /** Bytes of one answer, or of one event of a stream; 256 MiB by default. */
  readonly maxAnswerBytes?: number;
}

export type EngineAnswer = Dispatcher.ResponseData;

const DEFAULT_MAX_ANSWER_BYTES = 256 * 1024 * 1024;
/** A refusal is a few words; a page of HTML need not be read to its end. */
const MAX_REFUSAL_BYTES = 1024 * 1024;

/**
 * The pool's settings. A long generation is silent for longer than any default allows, so both of undici's 300 s
 * limits are off and the caller's signal is the one deadline. Idle connections are dropped before the 5 s after which
 * the servers that engines use drop them: a request must not meet a connection that is just being closed.
 */
export function poolOptions(options: EngineHttpOptions): Pool.Options {
  return {
    connections: options.connections ?? null,
    pipelining: 1,
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 4_000,
    connect: { timeout: options.connectTimeoutMs ?? 10_000 },
  };
}

/** A connection to an engine that is held until `close`. */
export class EngineHttp {
  /** The engine's address without what stands behind it, for people. */
  readonly url: string;
  readonly maxAnswerBytes: number;
  readonly #pool: Pool;
  readonly #prefix: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #apiKey: string | null;

  /** Throws `invalid_request` for a URL that cannot be one. */
  constructor(options: EngineHttpOptions) {
    const url = parseUrl(options.url);
    this.#prefix = url.pathname.replace(/\/+$/, "").replace(/\/v1$/, "");
    this.url = url.origin + this.#prefix;
    this.maxAnswerBytes = options.maxAnswerBytes ?? DEFAULT_MAX_ANSWER_BYTES;
    this.#pool = new Pool(url.origin, poolOptions(options));
    this.#apiKey = options.apiKey ?? null;
    const bearer = options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` };
    this.#headers = { "content-type": "application/json", ...bearer };
  }

  /**
   * Sends a request and resolves at the head of its answer, whatever its status. Throws `engine_unreachable` where
   * there is none; where `signal` fired it throws what the signal gives as its reason.
   */
  async send(
    method: "GET" | "POST",
    path: string,
    body: string | null,
    signal?: AbortSignal,
  ): Promise<EngineAnswer> {
    try {
      return await this.#pool.request({
        method,
        path: this.#prefix + path,
        headers: this.#headers,
        body,
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (error) {
      if (signal?.aborted === true) throw error;
      throw unreachable(this.url, error);
    }
  }

  /** The text of an answer with status 200; anything else is thrown as `refusal` has it. */
  async text(answer: EngineAnswer): Promise<string> {
    if (answer.statusCode !== 200) throw await this.refusal(answer);
    return readText(answer, this.maxAnswerBytes);
  }

  /** What an answer with another status than 200 says, as `engine_error` with the engine's own status. */
  async refusal(answer: EngineAnswer): Promise<CoppiceError> {
    const text = await readText(answer, MAX_REFUSAL_BYTES).catch(
      (error: unknown) => `(its answer could not be read: ${messageOf(error)})`,
    );
    const retryAfter = answer.headers["retry-after"];
    // Some engines repeat the key that they refuse, and the agent who reads it is not to have it.
    const said = this.#apiKey === null ? text : text.replaceAll(this.#apiKey, "[key]");
    return refusalOf(answer.statusCode, said, {
      url: this.url,
      ...(typeof retryAfter === "string" ? { retryAfter } : {}),
    });
  }

  /** Lets go of all connections at once; what is in flight fails. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url !== null && (url.protocol === "http:" || url.protocol === "https:")) return url;
  throw new CoppiceError(
    "invalid_request",
    `the engine's URL is ${JSON.stringify(text)}; it must be like http://127.0.0.1:8000`,
    { param: "engine" },
  );
}

async function readText(answer: EngineAnswer, maxBytes: number): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of answer.body as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > maxBytes) {
        throw new CoppiceError("engine_error", `the engine's answer has more than ${maxBytes} bytes`);
      }
      pieces.push(piece);
    }
  } catch (error) {
    if (error instanceof CoppiceError) throw error;
    throw new CoppiceError(
      "engine_error",
      `the engine's answer broke off after ${bytes} bytes (${messageOf(error)})`,
      { cause: error },
    );
  }
  return pieces.length === 1
    ? (pieces[0] as Buffer).toString("utf8")
    : Buffer.concat(pieces, bytes).toString("utf8");
}

function unreachable(url: string, error: unknown): CoppiceError {
  const code = isRecord(error) && typeof error["code"] === "string" ? error["code"] : "";
  const closed = code === "ECONNRESET" || code === "UND_ERR_SOCKET" || code === "EPIPE";
  const what = closed ? "closed the connection before it answered" : "cannot be reached";
  const why = messageOf(error) === "" ? code : messageOf(error);
  return new CoppiceError(
    "engine_unreachable",
    `the engine at ${url} ${what} (${why}): is the engine running?`,
    {
      cause: error,
      detail: { url, code },
    },
  );
}

/** What an engine says of a refused request, in the envelopes that engines have. */
interface SaidError {
  readonly message: string | null;
  readonly type: string | null;
  readonly param: string | null;
  readonly code: unknown;
}

/**
 * An engine's refusal. The message is the engine's own where there is one, since agents know some of them by heart
 * (a prompt that is too long); the status is the engine's own where it is one of an error.
 */
export function refusalOf(
  status: number,
  text: string,
  context: { readonly url: string; readonly retryAfter?: string },
): CoppiceError {
  const said = readError(parseOrNull(text));
  const start = text.trim().slice(0, 200);
  const message =
    said?.message ?? `the engine at ${context.url} answered ${status}: ${start === "" ? "(nothing)" : start}`;
  return new CoppiceError("engine_error", message, {
    status: status >= 400 && status <= 599 ? status : 502,
    ...(said === null || said.param === null ? {} : { param: said.param }),
    detail: {
      status,
      message,
      type: said?.type ?? null,
      param: said?.param ?? null,
      code: said?.code ?? null,
      ...(context.retryAfter === undefined ? {} : { retry_after: context.retryAfter }),
    },
  });
}

/** An error that stands in an answer with status 200, as `{"error": ...}` or `{"object": "error", ...}`; else null. */
export function errorInside(json: Readonly<Record<string, unknown>>, url: string): CoppiceError | null {
  if ((json["error"] === undefined || json["error"] === null) && json["object"] !== "error") return null;
  const code = readError(json)?.code;
  const status = typeof code === "number" && code >= 400 && code <= 599 ? code : 502;
  return refusalOf(status, JSON.stringify(json), { url });
}

function readError(json: unknown): SaidError | null {
  if (!isRecord(json)) return null;
  const error = json["error"] ?? (json["object"] === "error" ? json : null);
  if (typeof error === "string") return { message: error, type: null, param: null, code: null };
  if (!isRecord(error)) return null;
  return {
    message: stringOrNull(error["message"]),
    type: stringOrNull(error["type"]),
    param: stringOrNull(error["param"]),
    code: error["code"] ?? null,
  };
}

function stringOrNull(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
