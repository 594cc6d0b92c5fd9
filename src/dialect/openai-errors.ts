// Errors as the OpenAI API tells them, for chat completions, responses and completions. An engine's own words go on as
// they are: clients look for its type and code.
import type { CoppiceError, ErrorCode } from "../errors.ts";
import { contextOverflow } from "./context-overflow.ts";
import type { ErrorDialect, Json } from "./dialect.ts";

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
  body: (error) => JSON.stringify({ error: openAiError(error) }),
};

/** What stands in `error`. */
export function openAiError(error: CoppiceError): Json {
  const { message, param, detail } = error;
  if (contextOverflow(error) !== null) {
    return { message, type: OPENAI_TYPE.invalid_request, param: "messages", code: "context_length_exceeded" };
  }
  if (error.code === "engine_error" && detail !== null) {
    const { type, code } = detail;
    return { message, type: type ?? OPENAI_TYPE.engine_error, param, code: code ?? error.code };
  }
  const reason = detail?.["reason"];
  return {
    message,
    type: OPENAI_TYPE[error.code],
    param,
    code: typeof reason === "string" ? reason : error.code,
    ...(detail === null ? {} : { detail }),
  };
}
