// The body that a vLLM server is asked with: the client's own, with what capture needs switched on.
import { isRecord } from "../lineage/message.ts";

export interface VllmAsked {
  /** The JSON to send. */
  readonly body: string;
  /** The client asked for token ids itself, so they stay in what it gets. */
  readonly keepIds: boolean;
  /** The request's limit on generated tokens; null where it set none. */
  readonly maxTokens: number | null;
}

/**
 * Adds `return_token_ids`, `logprobs` (the client's `top_logprobs` stays) and, for a stream, the usage at its end.
 * `model` takes the place of the model that the client named. Stream options without a stream are taken out: vLLM
 * refuses them.
 */
export function vllmBody(
  client: Readonly<Record<string, unknown>>,
  options: { readonly stream: boolean; readonly model: string | null; readonly kind?: "chat" | "text" },
): VllmAsked {
  const { stream_options: streamOptions, ...fields } = client;
  const body: Record<string, unknown> = {
    ...fields,
    ...(options.model === null ? {} : { model: options.model }),
    stream: options.stream,
    logprobs: options.kind === "text" ? textLogprobs(client["logprobs"]) : true,
    return_token_ids: true,
  };
  if (options.stream) {
    body["stream_options"] = { ...(isRecord(streamOptions) ? streamOptions : {}), include_usage: true };
  }
  const limit = client["max_completion_tokens"] ?? client["max_tokens"];
  return {
    body: JSON.stringify(body),
    keepIds: client["return_token_ids"] === true,
    maxTokens: typeof limit === "number" ? limit : null,
  };
}

/** A text completion asks for a number of alternatives; 0 tells the sampled token's own. */
function textLogprobs(asked: unknown): number {
  return typeof asked === "number" ? asked : 0;
}
