// A message and its stream of events, written from the blocks of a chat answer, in the strict order of the Messages API.
// Whole and streamed come out of the same code.
// Reference: https://docs.anthropic.com/en/docs/build-with-claude/streaming
import type { CoppiceError } from "../errors.ts";
import { isRecord } from "../lineage/message.ts";
import { BlockSequencer, type Block, type BlockSink } from "./answer-blocks.ts";
import { choiceOf, isFinish } from "./chat-choices.ts";
import type { AnswerHead, AnswerWriter, Json, StreamWriter } from "./dialect.ts";
import { messagesError } from "./messages-errors.ts";
import type { MessagesAsked } from "./messages-request.ts";
import { objectOf } from "./partial-json.ts";
import { signatureOf } from "./reasoning-seal.ts";
import { jsonEvent } from "./sse-write.ts";
import { messagesUsage } from "./usage.ts";

const STOP_REASONS: Readonly<Record<string, string>> = {
  stop: "end_turn",
  length: "max_tokens",
  tool_calls: "tool_use",
  function_call: "tool_use",
  content_filter: "refusal",
};

export function messagesWriter(asked: MessagesAsked): AnswerWriter {
  return {
    whole: (json, head) => {
      const answer = new MessageAnswer(asked, head);
      const choice = choiceOf(json) ?? {};
      answer.takeChoice({ ...choice, delta: choice["message"] });
      return JSON.stringify(answer.finished(isRecord(json["usage"]) ? json["usage"] : null));
    },
    stream: (head) => new MessageStream(new MessageAnswer(asked, head)),
  };
}

class MessageStream implements StreamWriter {
  readonly #answer: MessageAnswer;

  constructor(answer: MessageAnswer) {
    this.#answer = answer;
  }

  chunk(json: Json): string {
    this.#answer.begin(isRecord(json["usage"]) ? json["usage"] : null);
    const choice = choiceOf(json);
    if (choice !== null) this.#answer.takeChoice(choice);
    return this.#answer.flush();
  }

  end(held: readonly Json[], usage: Json | null): string {
    const events = held.map((json) => this.chunk(json)).join("");
    this.#answer.begin(usage);
    this.#answer.end(usage);
    return events + this.#answer.flush();
  }

  fail(error: CoppiceError): string {
    return jsonEvent("error", messagesError(error));
  }

  /** Nothing may stand before the start, not even a ping. */
  heartbeat(): string {
    this.#answer.begin(null);
    this.#answer.tell("ping", {});
    return this.#answer.flush();
  }
}

class MessageAnswer implements BlockSink {
  readonly #asked: MessagesAsked;
  readonly #head: AnswerHead;
  readonly #blocks = new BlockSequencer(this);
  readonly #content: Json[] = [];
  #events: string[] = [];
  #begun = false;
  #finishReason: string | null = null;
  #stopSequence: string | null = null;
  #calls = 0;
  #callId = "";

  constructor(asked: MessagesAsked, head: AnswerHead) {
    this.#asked = asked;
    this.#head = head;
  }

  /** @param usage what is known of it by now; the end tells all of it */
  begin(usage: Json | null): void {
    if (this.#begun) return;
    this.#begun = true;
    const message = this.#message([], null, { ...messagesUsage(usage), output_tokens: 0 });
    this.tell("message_start", { message });
  }

  takeChoice(choice: Json): void {
    if (isFinish(choice)) {
      this.#finishReason = choice.finish_reason;
      const { stop_reason: stopped } = choice;
      this.#stopSequence = typeof stopped === "string" ? stopped : null;
    }
    if (isRecord(choice["delta"])) this.#blocks.take(choice["delta"]);
  }

  /** The whole message. */
  finished(usage: Json | null): Json {
    this.#blocks.end();
    return this.#message(this.#content, this.#stopReason(), messagesUsage(usage));
  }

  end(usage: Json | null): void {
    this.#blocks.end();
    this.tell("message_delta", {
      delta: { stop_reason: this.#stopReason(), stop_sequence: this.#stopSequence },
      usage: messagesUsage(usage),
      ...this.#edits(),
    });
    this.tell("message_stop", {});
  }

  tell(type: string, fields: Json): void {
    this.#events.push(jsonEvent(type, { type, ...fields }));
  }

  flush(): string {
    const events = this.#events.join("");
    this.#events = [];
    return events;
  }

  open(block: Block): void {
    if (block.kind === "tool") {
      this.#callId = block.id ?? `toolu_${this.#head.responseId.replace(/^msg_/, "")}_${this.#calls}`;
      this.#calls += 1;
    }
    this.tell("content_block_start", { index: this.#content.length, content_block: this.#block(block, "") });
  }

  add(block: Block, text: string): void {
    this.#delta(
      block.kind === "tool"
        ? { type: "input_json_delta", partial_json: text }
        : block.kind === "reasoning"
          ? { type: "thinking_delta", thinking: text }
          : { type: "text_delta", text },
    );
  }

  close(block: Block, text: string): void {
    if (block.kind === "reasoning") this.#delta({ type: "signature_delta", signature: signatureOf(text) });
    this.tell("content_block_stop", { index: this.#content.length });
    this.#content.push(this.#block(block, text));
  }

  #delta(delta: Json): void {
    this.tell("content_block_delta", { index: this.#content.length, delta });
  }

  #block(block: Block, text: string): Json {
    switch (block.kind) {
      case "tool":
        return { type: "tool_use", id: this.#callId, name: block.name, input: objectOf(text) };
      case "reasoning":
        return { type: "thinking", thinking: text, signature: text === "" ? "" : signatureOf(text) };
      case "text":
      case "refusal":
        return { type: "text", text };
    }
  }

  #stopReason(): string {
    if (this.#stopSequence !== null && this.#finishReason === "stop") return "stop_sequence";
    const reason = STOP_REASONS[this.#finishReason ?? "stop"] ?? "end_turn";
    // Engines that say `stop` of an answer that calls tools: agents only run them where the reason says so.
    return reason === "end_turn" && this.#calls > 0 ? "tool_use" : reason;
  }

  #message(content: readonly Json[], stopReason: string | null, usage: Json): Json {
    const { responseId, model } = this.#head;
    return {
      id: responseId,
      type: "message",
      role: "assistant",
      model,
      content,
      stop_reason: stopReason,
      stop_sequence: stopReason === null ? null : this.#stopSequence,
      usage,
      ...(stopReason === null ? {} : this.#edits()),
    };
  }

  #edits(): Json {
    return this.#asked.asksForEdits ? { context_management: { applied_edits: [] } } : {};
  }
}
