// The Messages API. Requests are read by messages-request.ts, answers written by messages-answer.ts.
// Reference: https://docs.anthropic.com/en/api/messages
import type { Dialect } from "./dialect.ts";
import { messagesWriter } from "./messages-answer.ts";
import { messagesErrors } from "./messages-errors.ts";
import { decodeMessages } from "./messages-request.ts";

export const messagesDialect: Dialect = {
  name: "messages",
  idPrefix: "msg_",
  errors: messagesErrors,
  neededAnswers: () => [],
  decode: (body) => {
    const { asked, ...request } = decodeMessages(body, true);
    return { ...request, writer: messagesWriter(asked) };
  },
};
