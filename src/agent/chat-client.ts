// What a conversation needs of an inference client. The official `openai` client fits as it is, and so does anything
// else with a `chat.completions.create` that resolves to a chat completion (or to its chunks when it streams).
// Messages are in the Chat Completions shape and are sent as they stand.

/** A chat message. Fields beyond these (reasoning, annotations) are kept and sent back as they came. */
export interface ChatMessage {
  readonly role: string;
  readonly content?: unknown;
  readonly name?: string;
  readonly tool_calls?: unknown;
  readonly tool_call_id?: string;
}

/** Settings of a call beside its messages: `temperature`, `max_tokens`, `tools`, `seed` and so on. */
export type RequestFields = Readonly<Record<string, unknown>>;

/** What `create` returns: a promise, with the HTTP response at hand where the client can tell it. */
export interface ChatPromise extends PromiseLike<unknown> {
  withResponse?(): Promise<{
    readonly data: unknown;
    readonly response: { readonly headers: { get(name: string): string | null } };
  }>;
}

export interface ChatClient {
  readonly chat: {
    readonly completions: {
      // Method syntax on purpose: it lets clients with narrower parameter types fit.
      create(body: object, options?: object): ChatPromise;
    };
  };
  /** Where the client sends its calls; the gateway's address is taken from it unless it is given. */
  readonly baseURL?: string;
  /** Sent to the gateway with the outcome, unless another key is given. */
  readonly apiKey?: unknown;
}

/** A frozen deep copy, so that nobody can change what was said. */
export function frozenMessage(message: ChatMessage): ChatMessage {
  return deepFreeze(structuredClone(message));
}

export function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const inner of Object.values(value)) deepFreeze(inner);
  return value;
}
