// Errors as HTTP, in one place: whatever was thrown becomes a CoppiceError, and that becomes a body in the caller's
// dialect. A bug is answered with 500 and no more than that; its message goes to the log.
import { CoppiceError, messageOf, type ErrorCode } from "../errors.ts";
import { isRecord } from "../lineage/message.ts";

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
