// A streamed answer between engine and client. Chunks go through as they come, in the words of the client's API; a choice's last chunk, and all
// that follows, is held until the call is durable. What was delivered is counted, since an agent whose connection broke
// may go on from half an answer.
import { MessageJoiner } from "../dialect/chat.ts";
import { choicesOf, indexOf } from "../dialect/chat-choices.ts";
import type { Json, StreamWriter } from "../dialect/dialect.ts";
import type { EngineChunk } from "../engine/engine.ts";
import { isRecord } from "../lineage/message.ts";
import type { Delivered } from "./answers-to-record.ts";
import type { ClientStream } from "./client-stream.ts";

interface ChoiceDelivered {
  tokens: number;
  /** Something was delivered whose tokens nobody can count. */
  uncounted: boolean;
  readonly joiner: MessageJoiner;
}

export class ChatRelay {
  readonly #stream: ClientStream;
  readonly #writer: StreamWriter;
  readonly #choices: number;
  readonly #delivered = new Map<number, ChoiceDelivered>();
  readonly #finished = new Set<number>();
  readonly #held: Json[] = [];
  #holdsAll = false;
  #taken = 0;

  /** @param choices that were asked for */
  constructor(stream: ClientStream, writer: StreamWriter, choices: number) {
    this.#stream = stream;
    this.#writer = writer;
    this.#choices = choices;
  }

  /** Chunks that the engine sent. */
  get taken(): number {
    return this.#taken;
  }

  /** Takes a chunk; what it returns is the client's back-pressure. */
  take({ json }: Pick<EngineChunk, "json">): Promise<void> | undefined {
    this.#taken += 1;
    if (this.#mustHold(json)) {
      this.#held.push(json);
      return undefined;
    }
    const events = this.#writer.chunk(json);
    // What says nothing to the client yet counts all the same: its tokens were sampled before the next ones.
    if (events !== "" && !this.#stream.write(events)) return undefined;
    this.#count(json);
    return this.#stream.drained();
  }

  /** What the client got of a choice. */
  delivered(index: number): Delivered {
    const choice = this.#delivered.get(index);
    if (choice === undefined) return { tokens: 0, message: null };
    return { tokens: choice.uncounted ? null : choice.tokens, message: choice.joiner.message() };
  }

  /** The call is durable: the rest goes out, with the terminator. */
  finish(usage: Json | null): void {
    this.#stream.finish(this.#writer.end(this.#held, usage));
  }

  #mustHold(json: Json): boolean {
    if (this.#holdsAll) return true;
    const choices = choicesOf(json);
    const ends = choices.filter((choice) => typeof choice["finish_reason"] === "string");
    if (ends.length === 0) return false;
    for (const choice of ends) this.#finished.add(indexOf(choice));
    // Other choices may still be under way, unless one of them shares this chunk and would overtake itself.
    this.#holdsAll = this.#finished.size >= this.#choices || ends.length < choices.length;
    return true;
  }

  #count(json: Json): void {
    for (const choice of choicesOf(json)) {
      const index = indexOf(choice);
      let delivered = this.#delivered.get(index);
      if (delivered === undefined) {
        this.#delivered.set(
          index,
          (delivered = { tokens: 0, uncounted: false, joiner: new MessageJoiner() }),
        );
      }
      const { delta, logprobs } = choice;
      if (isRecord(delta)) delivered.joiner.add(delta);
      // One entry a token: capture asks for log-probs of every call.
      if (isRecord(logprobs) && Array.isArray(logprobs["content"]))
        delivered.tokens += logprobs["content"].length;
      else if (isRecord(delta) && saysSomething(delta)) delivered.uncounted = true;
    }
  }
}

function saysSomething(delta: Json): boolean {
  return Object.entries(delta).some(([name, value]) => name !== "role" && value !== null && value !== "");
}
