// The Responses API. Requests are read by responses-request.ts, answers written by responses-answer.ts.
// Reference: https://platform.openai.com/docs/api-reference/responses
import type { Dialect } from "./dialect.ts";
import { openAiErrors } from "./openai-errors.ts";
import { responsesWriter } from "./responses-answer.ts";
import { RESPONSE_PREFIX } from "./responses-ids.ts";
import { decodeResponses, neededResponses } from "./responses-request.ts";

export const responsesDialect: Dialect = {
  name: "responses",
  idPrefix: RESPONSE_PREFIX,
  errors: openAiErrors,
  neededAnswers: neededResponses,
  decode: (body, stored) => {
    const { asked, ...request } = decodeResponses(body, stored);
    return { ...request, writer: responsesWriter(asked) };
  },
};
