// What the gateway asks of an inference engine, and what it gets back. Adapters translate between this and one
// engine's HTTP; they know nothing of rollouts, ledgers or clients' dialects.
import type { Message, WeightVersionSpan } from "../lineage/call.ts";
import type { TokenIn } from "./token-in.ts";

export interface EngineRequest {
  /**
   * A Chat Completions body: the client's own fields as they came, with what the operator pinned already in place.
   * The adapter adds what capture needs (ids, log-probs, usage).
   */
  readonly body: Readonly<Record<string, unknown>>;
  readonly stream: boolean;
  /** Aborted when the client goes away or the call's deadline passes. The engine must see the close. */
  readonly signal: AbortSignal;
  /**
   * Called with each chunk in order while streaming. A promise that it returns is waited for before more is read:
   * that is the back-pressure of a slow client. Tokens of a chunk count as sampled once it is handed over; chunks that
   * come after the signal fired are not. What it throws closes the engine's connection and ends the call as `broken`.
   */
  readonly onChunk?: (chunk: EngineChunk) => void | Promise<void>;
}

/** One `chat.completion.chunk` as the engine sent it, with what capture added taken out. */
export interface EngineChunk {
  /**
   * The chunk without token ids, unless the request's body itself asks for them (`return_token_ids`). What else capture
   * added is in it, for the caller to drop where the client did not ask: `choices[].logprobs`, and the usage chunk with
   * its `choices: []`. A finish reason that the tokens belie is put right (completeness.ts).
   */
  readonly json: Readonly<Record<string, unknown>>;
  /**
   * It tells a finish reason, or comes after every choice has told one. To be held, with all after it, until the call
   * is committed. With several choices, chunks of those still running come after the first terminal one.
   */
  readonly terminal: boolean;
}

export interface EngineChoice {
  readonly index: number;
  readonly tokenIds: Uint32Array;
  /** As told by the engine, one a token where it tells the truth; NaN where a value could not be read. */
  readonly logprobs: Float32Array;
  /** The assistant message, whole or joined from its deltas. */
  readonly message: Message;
  readonly finishReason: string | null;
  /** Empty where the engine does not tell. */
  readonly weightVersions: readonly WeightVersionSpan[];
  /** Why these tokens must not train (completeness.ts); null for a complete answer. */
  readonly untrainable: string | null;
}

export interface EngineReply {
  /**
   * - `complete`: a terminal event or whole body was seen
   * - `aborted`: the signal fired; `choices` hold what was sampled until then, none where no choice had begun; `error`
   *   is the signal's reason
   * - `broken`: the engine's answer ended early or could not be read; `error` says how
   */
  readonly ending: "complete" | "aborted" | "broken";
  readonly error: Error | null;
  /** Null where the engine told none. */
  readonly promptTokenIds: Uint32Array | null;
  readonly choices: readonly EngineChoice[];
  readonly usage: Readonly<Record<string, unknown>> | null;
  /**
   * The whole `chat.completion` body where nothing was streamed, ids and log-probs as for a chunk; null for a stream.
   * Also where a stream was asked for and the engine only tells all when asked whole: no chunk is handed over then, and
   * the caller makes the stream from it.
   */
  readonly json: Readonly<Record<string, unknown>> | null;
}

export interface EngineModel {
  readonly id: string;
  readonly maxModelLength: number | null;
}

export interface Engine {
  readonly kind: "vllm" | "stand-in" | "llama.cpp" | "sglang" | "openai";
  readonly url: string;
  /** Which log-probs it tells: `raw` (before temperature and filters), `processed`, or null where not known. */
  readonly logprobsMode: "raw" | "processed" | null;
  /** The token-in way, where the adapter has one; whether the server has it too is found by self-check.ts. */
  readonly tokenIn?: TokenIn;

  /**
   * Asks for a chat completion. Throws a CoppiceError (`engine_unreachable`, or `engine_error` with the engine's own
   * status and message, and `{status, message, type, param, code, retry_after?}` as its detail) where no chunk was
   * handed over; once an answer has begun, it returns what there is. It never throws because the signal fired: that is
   * an `aborted` reply. The signal is the one deadline.
   */
  chat(request: EngineRequest): Promise<EngineReply>;

  /**
   * The same for a text completion: the body has `prompt` (a text or token ids) in place of messages. What comes back
   * is in the chat shape all the same (text-completion.ts). Absent where the engine has none.
   */
  complete?(request: EngineRequest): Promise<EngineReply>;

  /**
   * Tokens of a Chat Completions body's messages and tools as a prompt. Absent where the engine cannot count; throws as
   * `chat` does.
   */
  countTokens?(body: Readonly<Record<string, unknown>>, signal?: AbortSignal): Promise<number>;

  /** Throws `engine_timeout` after 10 s, or when the signal fires. */
  models(signal?: AbortSignal): Promise<readonly EngineModel[]>;

  /** Text of the ids; null where the engine cannot tell. Never throws. */
  detokenize(ids: Uint32Array, signal?: AbortSignal): Promise<string | null>;

  /**
   * Log-prob of each id given those before it, NaN for the first. Throws `engine_error` where the engine has no prompt
   * log-probs.
   */
  rescore(ids: Uint32Array, signal?: AbortSignal): Promise<Float32Array>;

  close(): Promise<void>;
}
