// Errors as HTTP, in one place: whatever was thrown becomes a CoppiceError, and that becomes a body in the caller's
// dialect. A bug is answered with 500 and no more than that; its message goes to the log.
import { CoppiceError, messageOf, type ErrorCode } from "../errors.ts";
import { isRecord } from "../lineage/message.ts";

/** How one API tells errors. Each route names its own. */
export interface ErrorDialect {
  /** The JSON body of an error status. */
  readonly body: (error: CoppiceError) => string;
  /** A whole server-sent event for a failure after the stream has begun. */
  readonly event: (error: CoppiceError) => string;
}

const OPENAI_TYPE: Readonly<Record<ErrorCode, string>> = {
  invalid_request: "invalid_request_error",
  unauthorized: "authentication_error",
  forbidden: "permission_error",
  not_found: "not_found_error",
  conflict: "conflict_error",
  too_large: "invalid_request_error",
  unsupported_media_type: "invalid_request_error",
  unprocessable: "invalid_request_error",
  too_many_requests: "rate_limit_error",
  engine_error: "engine_error",
  engine_unreachable: "engine_error",
  engine_timeout: "engine_error",
  ledger_error: "server_error",
  unavailable: "server_error",
};

/** `{"error":{"message","type","param","code"}}` as the OpenAI API has it, and `detail` where there is any. */
export const openAiErrors: ErrorDialect = {
  body: openAiBody,
  event: (error) => `data: ${openAiBody(error)}\n\n`,
};

function openAiBody(error: CoppiceError): string {
  const { message, param, detail } = error;
  // An engine's own words go on as they are: clients look for its type and code (a context overflow, say).
  if (error.code === "engine_error" && detail !== null) {
    const { type, code } = detail;
    return JSON.stringify({
      error: { message, type: type ?? OPENAI_TYPE.engine_error, param, code: code ?? error.code },
    });
  }
  const reason = detail?.["reason"];
  return JSON.stringify({
    error: {
      message,
      type: OPENAI_TYPE[error.code],
      param,
      code: typeof reason === "string" ? reason : error.code,
      ...(detail === null ? {} : { detail }),
    },
  });
}

/** Seconds for `retry-after`; null where the error has none. A 429 or 503 without one makes some clients give up. */
export function retryAfter(error: CoppiceError): string | null {
  const told = error.detail?.["retry_after"];
  if (typeof told === "string") return told;
  return error.status === 429 || error.status === 503 ? "1" : null;
}

const FASTIFY_CODES: Readonly<Record<number, ErrorCode>> = {
  401: "unauthorized",
  403: "forbidden",
  404: "not_found",
  413: "too_large",
  414: "invalid_request",
  415: "unsupported_media_type",
  503: "unavailable",
};

/** Anything thrown as a CoppiceError; the HTTP library's own refusals keep their status. */
export function asCoppiceError(thrown: unknown): CoppiceError {
  if (thrown instanceof CoppiceError) return thrown;
  const status = isRecord(thrown) ? thrown["statusCode"] : undefined;
  if (typeof status === "number" && status >= 400 && status < 500) {
    return new CoppiceError(FASTIFY_CODES[status] ?? "invalid_request", messageOf(thrown), {
      cause: thrown,
      status,
    });
  }
  if (status === 503) return new CoppiceError("unavailable", messageOf(thrown), { cause: thrown });
  return new CoppiceError("ledger_error", "an internal error; the gateway's log has it", { cause: thrown });
}

/** True for an error that nobody planned: its cause belongs in the log. */
export function isUnplanned(thrown: unknown): boolean {
  return !(thrown instanceof CoppiceError) && asCoppiceError(thrown).status === 500;
}
