// The token-in way, as an engine offers it: render messages to ids, generate from ids, parse what was generated. An
// adapter does each over its engine's own HTTP; which prompt is sent is prompt.ts's, which way a call takes the
// gateway's. Each verb throws a CoppiceError with the engine's own status and words where the engine refuses.
import type { Message, WeightVersionSpan } from "../lineage/call.ts";
import type { EngineChunk, EngineReply } from "./engine.ts";

export interface RenderAsk {
  /** A Chat Completions body: its tools, template options and sampling settings count, its messages do not. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly messages: readonly Message[];
  /**
   * - `as asked`: the body's `add_generation_prompt` and `continue_final_message` stand
   * - `none`: the messages end closed, and nothing is to follow
   */
  readonly ending: "as asked" | "none";
  readonly signal: AbortSignal;
}

export interface Rendering {
  readonly ids: Uint32Array;
  /** What the engine made of the body's sampling settings, handed back with `generate`; null where it tells none. */
  readonly sampling: Readonly<Record<string, unknown>> | null;
}

export interface GenerateAsk {
  readonly body: Readonly<Record<string, unknown>>;
  /** The prompt, whole. */
  readonly ids: Uint32Array;
  /** A rendering of the same body, of whatever messages. */
  readonly rendering: Rendering;
  /** A stream is wanted; chunks are handed over only where text needs no parsing. */
  readonly stream: boolean;
  readonly signal: AbortSignal;
  readonly onChunk?: (chunk: EngineChunk) => void | Promise<void>;
}

export interface GeneratedChoice {
  readonly index: number;
  /** Null where the engine told none or they cannot be read; `fault` says how. */
  readonly tokenIds: Uint32Array | null;
  readonly logprobs: Float32Array | null;
  readonly fault: string | null;
  readonly finishReason: string | null;
  readonly stopReason: unknown;
  /** Null where only ids were told. */
  readonly text: string | null;
  /** Entries as a Chat Completions answer tells log-probs; null where they come from parsing. */
  readonly entries: readonly unknown[] | null;
  /** Empty where the engine does not tell. */
  readonly weightVersions: readonly WeightVersionSpan[];
}

export interface Generated {
  readonly ending: EngineReply["ending"];
  readonly error: Error | null;
  /** The prompt as the engine says that it read it; null where it does not say. */
  readonly promptTokenIds: Uint32Array | null;
  /** Length of the prompt in the engine's own accounting; null where it does not say. */
  readonly promptLength: number | null;
  readonly choices: readonly GeneratedChoice[];
  readonly usage: Readonly<Record<string, unknown>> | null;
  /** Chunks were handed over: the client has the text already. */
  readonly streamed: boolean;
  /** The engine's own answer, for its parser. */
  readonly json: Readonly<Record<string, unknown>> | null;
}

export interface ParseAsk {
  readonly body: Readonly<Record<string, unknown>>;
  readonly ids: Uint32Array;
  readonly generated: Generated;
  readonly signal: AbortSignal;
}

export interface ParsedChoice {
  readonly message: Message;
  readonly finishReason: string | null;
  /** Log-prob entries in the Chat Completions shape; null where there are none. */
  readonly entries: readonly unknown[] | null;
}

export interface TokenIn {
  /** Weight versions are told with the tokens. */
  readonly tellsWeightVersions: boolean;
  /** The text way of this engine tells prompt ids too, so a call that takes it can train. */
  readonly textTellsIds: boolean;
  /** Sampling settings of a request that sets none, where the engine's own would not sample from the policy. */
  readonly defaults: Readonly<Record<string, number>>;
  /** Why a request cannot go token-in whatever its parent; null where it can. */
  unfit(body: Readonly<Record<string, unknown>>): string | null;
  render(ask: RenderAsk): Promise<Rendering>;
  /** Returns what there is once an answer has begun; never throws because the signal fired. */
  generate(ask: GenerateAsk): Promise<Generated>;
  /** One entry a generated choice, in their order. */
  parse(ask: ParseAsk): Promise<readonly ParsedChoice[]>;
}
