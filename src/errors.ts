// The one error class of refused requests and bad input. A problem of one rollout is never an error: it is a
// refusal (selection/refusal.ts), which is returned. A bug is a plain Error. `gateway/answer-error.ts` turns this
// class into HTTP in the caller's dialect; the CLI prints its message on one line and exits with 1.

/** What was wrong, as a stable word for programs; the message is for people. */
export type ErrorCode =
  | "invalid_request"
  | "unauthorized"
  | "forbidden"
  | "not_found"
  | "conflict"
  | "too_large"
  | "unsupported_media_type"
  | "unprocessable"
  | "too_many_requests"
  | "engine_error"
  | "engine_unreachable"
  | "engine_timeout"
  | "ledger_error"
  | "unavailable";

const STATUS: Readonly<Record<ErrorCode, number>> = {
  invalid_request: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  conflict: 409,
  too_large: 413,
  unsupported_media_type: 415,
  unprocessable: 422,
  too_many_requests: 429,
  engine_error: 502,
  engine_unreachable: 502,
  engine_timeout: 504,
  ledger_error: 500,
  unavailable: 503,
};

export class CoppiceError extends Error {
  override readonly name = "CoppiceError";
  readonly code: ErrorCode;
  /** HTTP status that answers a request refused with this error. */
  readonly status: number;
  /** The field at fault, as the caller wrote it, e.g. `reward` or `messages[2].role`. */
  readonly param: string | null;
  /** More for programs, e.g. `{reason: "unknown_reference", index: 3}`. */
  readonly detail: Readonly<Record<string, unknown>> | null;

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      readonly cause?: unknown;
      readonly param?: string;
      readonly detail?: Readonly<Record<string, unknown>>;
      /** Overrides the code's usual status, for an engine's own answer that is passed on. */
      readonly status?: number;
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.status = options.status ?? STATUS[code];
    this.param = options.param ?? null;
    this.detail = options.detail ?? null;
  }
}

/** The message of anything that was thrown, on one line. */
export function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replaceAll(/\s*\n\s*/g, " ").trim();
}
