// What an API that clients speak has to give: a request read into the one internal form, which is a Chat Completions
// body, and a writer that turns the internal answer, whole or chunk by chunk, into what the client expects. Codecs do
// no I/O and know nothing of rollouts; the gateway runs every call through one path and only asks its codec.
import type { CoppiceError } from "../errors.ts";
import type { Message } from "../lineage/call.ts";

export type Json = Readonly<Record<string, unknown>>;

export interface ClientRequest {
  /** Chat Completions body; with `prompt` in place of `messages` where `kind` is `text`. Unknown fields went through. */
  readonly body: Json;
  readonly kind: "chat" | "text";
  /** The body's messages; none for a text completion. */
  readonly messages: readonly Message[];
  readonly stream: boolean;
  /** Choices that were asked for, 1 to 128. */
  readonly choices: number;
  /** The model's name as the client wrote it; null where it named none. */
  readonly model: string | null;
  /** For the record: what was left out or read otherwise, in words. */
  readonly notes: readonly string[];
  readonly writer: AnswerWriter;
}

/** What the gateway gives an answer. */
export interface AnswerHead {
  readonly responseId: string;
  /** The name that the client asked for. */
  readonly model: string;
  /** Seconds since the epoch. */
  readonly createdAt: number;
}

export interface AnswerWriter {
  /** The body of an answer that is not streamed, from a whole `chat.completion`. */
  whole(json: Json, head: AnswerHead): string;
  stream(head: AnswerHead): StreamWriter;
}

/**
 * Order: any number of `chunk` and `heartbeat`, then one of `end` and `fail`. Contract: must not throw, whatever the
 * chunks hold.
 */
export interface StreamWriter {
  /** Events of one chunk that goes out as it came; empty where the client is told nothing of it. */
  chunk(json: Json): string;
  /**
   * Everything from the event on that tells the finish reason, the terminator included.
   * @param held the chunks that were held back, in order
   * @param usage in the Chat Completions shape
   */
  end(held: readonly Json[], usage: Json | null): string;
  /** The event that tells a failure inside a stream that has begun. */
  fail(error: CoppiceError): string;
  /** What may stand between events while nothing is said. */
  heartbeat(): string;
}

/** An answer that was given before, by its response id. */
export interface StoredAnswer {
  /** The whole request's messages. */
  readonly messages: readonly Message[];
  readonly answer: Message;
  /** The notes of its request. */
  readonly notes: readonly string[];
}

export interface Dialect {
  readonly name: "chat" | "responses" | "messages" | "completions";
  /** What its response ids start with. */
  readonly idPrefix: string;
  readonly errors: ErrorDialect;
  /** Response ids of earlier answers that `decode` needs. */
  neededAnswers(body: Json): readonly string[];
  /** Throws `invalid_request` that names the field, its value and what would be right. */
  decode(body: Json, stored: ReadonlyMap<string, StoredAnswer>): ClientRequest;
}

/** How one API tells errors. */
export interface ErrorDialect {
  /** The JSON body of an error status. */
  readonly body: (error: CoppiceError) => string;
}
