// A text completion as the chat completion that the rest reads: the text is the content of an assistant message, its
// log-probs are entries, and the prompt's ids stand where a chat answer has them.
import { TEXT_LOGPROBS } from "../dialect/completions.ts";
import { isRecord } from "../lineage/message.ts";

/** Takes a whole answer or a chunk as the engine wrote it; what is no choice stays as it is. */
export function chatOfText(json: Record<string, unknown>, streamed: boolean): Record<string, unknown> {
  if (!Array.isArray(json["choices"])) return json;
  let promptIds: unknown;
  const choices = json["choices"].map((choice: unknown) => {
    if (!isRecord(choice)) return choice;
    const { text, logprobs, prompt_token_ids: prompt, ...rest } = choice;
    promptIds ??= prompt;
    const said = { role: "assistant", content: text };
    return {
      ...rest,
      ...(streamed ? { delta: { content: text } } : { message: said }),
      logprobs: entriesOf(logprobs),
      [TEXT_LOGPROBS]: logprobs ?? null,
    };
  });
  return {
    ...json,
    object: streamed ? "chat.completion.chunk" : "chat.completion",
    choices,
    ...(promptIds === undefined || promptIds === null ? {} : { prompt_token_ids: promptIds }),
  };
}

function entriesOf(logprobs: unknown): unknown {
  if (!isRecord(logprobs) || !Array.isArray(logprobs["token_logprobs"])) return null;
  const tokens = Array.isArray(logprobs["tokens"]) ? (logprobs["tokens"] as unknown[]) : [];
  return {
    content: logprobs["token_logprobs"].map((logprob: unknown, index) => ({ token: tokens[index], logprob })),
  };
}
