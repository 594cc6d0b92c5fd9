// A streamed chat completion between engine and client. Chunks go through as they come; a choice's last chunk, and all
// that follows, is held until the call is durable. What was delivered is counted, since an agent whose connection broke
// may go on from half an answer.
import { MessageJoiner } from "../dialect/chat.ts";
import type { EngineChunk } from "../engine/engine.ts";
import { isRecord } from "../lineage/message.ts";
import type { Delivered } from "./answers-to-record.ts";
import { chunkEvent, DONE, type AnswerShape } from "./chat-answer.ts";
import type { ClientStream } from "./client-stream.ts";

type Json = Readonly<Record<string, unknown>>;

interface ChoiceDelivered {
  tokens: number;
  /** Something was delivered whose tokens nobody can count. */
  uncounted: boolean;
  readonly joiner: MessageJoiner;
}

export class ChatRelay {
  readonly #stream: ClientStream;
  readonly #shape: AnswerShape;
  readonly #choices: number;
  readonly #delivered = new Map<number, ChoiceDelivered>();
  readonly #finished = new Set<number>();
  readonly #held: Json[] = [];
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
    if (this.#mustHold(json)) {
      this.#held.push(json);
      return undefined;
    }
    const event = chunkEvent(json, this.#shape);
    if (event === null || !this.#stream.write(event)) return undefined;
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
  finish(): void {
    const chunks = this.#shape.wantsUsage ? this.#held : withoutUsageChunk(this.#held);
    const events = chunks.map((json) => chunkEvent(json, this.#shape) ?? "");
    this.#stream.finish(events.join("") + DONE);
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

/** The chunk that is the last without usage tells the engine's fingerprint, as it does where usage is not asked for. */
function withoutUsageChunk(chunks: readonly Json[]): readonly Json[] {
  const usage = chunks.at(-1);
  const last = chunks.at(-2);
  if (usage === undefined || last === undefined || choicesOf(usage).length > 0) return chunks;
  const { system_fingerprint } = usage;
  if (system_fingerprint === undefined) return chunks.slice(0, -1);
  return [...chunks.slice(0, -2), { ...last, system_fingerprint }];
}

function choicesOf(json: Json): Json[] {
  const choices = json["choices"];
  return Array.isArray(choices) ? choices.filter(isRecord) : [];
}

function indexOf(choice: Json): number {
  return typeof choice["index"] === "number" ? choice["index"] : 0;
}
