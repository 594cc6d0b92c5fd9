// Errors as the Messages API tells them. A prompt that is too long has words of its own there, by which agents begin
// to compact.
// Reference: https://docs.anthropic.com/en/api/errors
import type { CoppiceError } from "../errors.ts";
import { contextOverflow } from "./context-overflow.ts";
import type { ErrorDialect, Json } from "./dialect.ts";

const TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
  504: "timeout_error",
  529: "overloaded_error",
};

export const messagesErrors: ErrorDialect = { body: (error) => JSON.stringify(messagesError(error)) };

/** `{"type":"error","error":{"type","message"}}`. */
export function messagesError(error: CoppiceError): Json {
  const overflow = contextOverflow(error);
  if (overflow !== null) {
    const { prompt, limit } = overflow;
    const numbers = prompt === null || limit === null ? "" : `: ${prompt} tokens > ${limit} maximum`;
    const message = `prompt is too long${numbers === "" ? `: ${error.message}` : numbers}`;
    return { type: "error", error: { type: "invalid_request_error", message } };
  }
  const other = error.status >= 500 ? "api_error" : "invalid_request_error";
  const type = TYPES[error.status] ?? other;
  const { message, param, detail } = error;
  return {
    type: "error",
    error: {
      type,
      message,
      ...(param === null ? {} : { param }),
      ...(detail === null || error.code === "engine_error" ? {} : { detail }),
    },
  };
}
