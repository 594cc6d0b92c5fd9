// Anthropic's client as one that a conversation can talk through: chat messages go out as a Messages request, and the
// message that comes back is read as a completion. The base URL has no `/v1`: the client adds it.
import { AgentError } from "./agent-error.ts";
import type { ChatClient, ChatMessage, ChatPromise } from "./chat-client.ts";
import { completionOfMessage, messagesRequest } from "./messages-form.ts";

/** What is needed of `new Anthropic(...)`. */
export interface AnthropicLike {
  readonly messages: {
    create(body: never, options?: never): PromiseLike<unknown>;
  };
  readonly baseURL?: string;
  readonly apiKey?: unknown;
}

/** Tokens of an answer where the conversation's request does not say: the Messages API insists on a limit. */
const DEFAULT_MAX_TOKENS = 4096;

/**
 * Contract: answers are whole; `stream: true` is refused with `invalid_argument`. Settings of chat completions that
 * Messages has other names for (`tools`, `tool_choice`, `stop`) are translated, the rest goes on as it is.
 */
export function anthropicClient(client: AnthropicLike): ChatClient {
  const create = (body: object, options?: object): ChatPromise => {
    const { messages, stop, stream, ...rest } = body as Readonly<Record<string, unknown>>;
    if (stream === true) {
      throw new AgentError(
        "invalid_argument",
        "answers through Anthropic's client come whole: leave stream out",
      );
    }
    const request = messagesRequest(messages as readonly ChatMessage[], {
      max_tokens: DEFAULT_MAX_TOKENS,
      ...rest,
      ...(stop === undefined ? {} : { stop_sequences: Array.isArray(stop) ? stop : [stop] }),
    });
    // The client's own method types are narrower than what is built here.
    const sent = client.messages.create(request as never, options as never) as ChatPromise;
    const whole = (): PromiseLike<unknown> => sent.then(completionOfMessage);
    return {
      // oxlint-disable-next-line unicorn/no-thenable -- the client's promise is one, and is started once
      then: (resolve, reject) => whole().then(resolve, reject),
      ...(sent.withResponse === undefined
        ? {}
        : {
            withResponse: async () => {
              const { data, response } = await (sent as Required<ChatPromise>).withResponse();
              return { data: completionOfMessage(data), response };
            },
          }),
    };
  };
  return {
    chat: { completions: { create } },
    ...(client.baseURL === undefined ? {} : { baseURL: client.baseURL }),
    ...(client.apiKey === undefined ? {} : { apiKey: client.apiKey }),
  };
}
