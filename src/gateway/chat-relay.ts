// A streamed chat completion between engine and client. Chunks go through as they come; a choice's last chunk, and all
// that follows, is held until the call is durable. What was delivered is counted, since an agent whose connection broke
// may go on from half an answer.
import { MessageJoiner } from "../dialect/chat.ts";
import type { EngineChunk } from "../engine/engine.ts";
import { isRecord } from "../lineage/message.ts";
import type { Delivered } from "./answers-to-record.ts";
import { chunkEvent, DONE, type AnswerShape } from "./chat-answer.ts";
import type { ClientStream } from "./client-stream.ts";

interface ChoiceDelivered {
  tokens: number;
  readonly joiner: MessageJoiner;
}

export class ChatRelay {
  readonly #stream: ClientStream;
  readonly #shape: AnswerShape;
  readonly #choices: number;
  readonly #delivered = new Map<number, ChoiceDelivered>();
  readonly #finished = new Set<number>();
  #held = "";
  #holdsAll = false;
  #taken = 0;

  /** @param choices that were asked for */
  constructor(stream: ClientStream, shape: AnswerShape, choices: number) {
    this.#stream = stream;
    this.#shape = shape;
    this.#choices = choices;
  }

  /** Chunks that the engine sent. */
  get taken(): number {
    return this.#taken;
  }

  /** Takes a chunk; what it returns is the client's back-pressure. */
  take({ json }: Pick<EngineChunk, "json">): Promise<void> | undefined {
    this.#taken += 1;
    const holds = this.#mustHold(json);
    const event = chunkEvent(json, this.#shape);
    if (holds) {
      if (event !== null) this.#held += event;
      return undefined;
    }
    if (event === null || !this.#stream.write(event)) return undefined;
    this.#count(json);
    return this.#stream.drained();
  }

  /** What the client got of a choice. */
  delivered(index: number): Delivered {
    const choice = this.#delivered.get(index);
    return choice === undefined
      ? { tokens: 0, message: null }
      : { tokens: choice.tokens, message: choice.joiner.message() };
  }

  /** The call is durable: the rest goes out, with the terminator. */
  finish(): void {
    this.#stream.finish(this.#held + DONE);
  }

  #mustHold(json: Readonly<Record<string, unknown>>): boolean {
    if (this.#holdsAll) return true;
    const choices = choicesOf(json);
    const ends = choices.filter((choice) => typeof choice["finish_reason"] === "string");
    if (ends.length === 0) return false;
    for (const choice of ends) this.#finished.add(indexOf(choice));
    // Other choices may still be under way, unless one of them shares this chunk and would overtake itself.
    this.#holdsAll = this.#finished.size >= this.#choices || ends.length < choices.length;
    return true;
  }

  #count(json: Readonly<Record<string, unknown>>): void {
    for (const choice of choicesOf(json)) {
      const index = indexOf(choice);
      let delivered = this.#delivered.get(index);
      if (delivered === undefined) {
        this.#delivered.set(index, (delivered = { tokens: 0, joiner: new MessageJoiner() }));
      }
      if (isRecord(choice["delta"])) delivered.joiner.add(choice["delta"]);
      const logprobs = choice["logprobs"];
      // One entry a token: capture asks for log-probs of every call.
      if (isRecord(logprobs) && Array.isArray(logprobs["content"]))
        delivered.tokens += logprobs["content"].length;
    }
  }
}

function choicesOf(json: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>>[] {
  const choices = json["choices"];
  return Array.isArray(choices) ? choices.filter(isRecord) : [];
}

function indexOf(choice: Readonly<Record<string, unknown>>): number {
  return typeof choice["index"] === "number" ? choice["index"] : 0;
}
