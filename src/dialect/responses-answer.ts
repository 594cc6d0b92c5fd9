// A response and its stream of events, written from the blocks of a chat answer. Whole and streamed come out of the
// same code: a whole answer is the last object of its stream.
// Reference: https://platform.openai.com/docs/api-reference/responses-streaming
import type { CoppiceError } from "../errors.ts";
import { isRecord } from "../lineage/message.ts";
import { BlockSequencer, type Block, type BlockSink } from "./answer-blocks.ts";
import { choiceOf, isFinish } from "./chat-choices.ts";
import type { AnswerHead, AnswerWriter, Json, StreamWriter } from "./dialect.ts";
import { openAiError } from "./openai-errors.ts";
import { seal } from "./reasoning-seal.ts";
import { itemId, type ItemKind } from "./responses-ids.ts";
import type { ResponsesAsked } from "./responses-request.ts";
import { jsonEvent, sseComment } from "./sse-write.ts";
import { responsesUsage } from "./usage.ts";

export function responsesWriter(asked: ResponsesAsked): AnswerWriter {
  return {
    whole: (json, head) => {
      const answer = new ResponseAnswer(asked, head);
      const choice = choiceOf(json) ?? {};
      answer.takeChoice({ ...choice, delta: choice["message"] });
      return JSON.stringify(answer.finished(isRecord(json["usage"]) ? json["usage"] : null));
    },
    stream: (head) => new ResponseStream(new ResponseAnswer(asked, head)),
  };
}

class ResponseStream implements StreamWriter {
  readonly #answer: ResponseAnswer;

  constructor(answer: ResponseAnswer) {
    this.#answer = answer;
  }

  chunk(json: Json): string {
    this.#answer.begin();
    const choice = choiceOf(json);
    if (choice !== null) this.#answer.takeChoice(choice);
    return this.#answer.flush();
  }

  end(held: readonly Json[], usage: Json | null): string {
    const events = held.map((json) => this.chunk(json)).join("");
    this.#answer.begin();
    const response = this.#answer.finished(usage);
    const type = response["status"] === "completed" ? "response.completed" : "response.incomplete";
    this.#answer.tell(type, { response });
    return events + this.#answer.flush();
  }

  /** The response that failed, and then the error by itself: one client looks for the one, another for the other. */
  fail(error: CoppiceError): string {
    this.#answer.begin();
    const { code, message, param, type } = openAiError(error);
    this.#answer.tell("response.failed", { response: this.#answer.failed({ code, message }) });
    this.#answer.tell("error", { code, message, param, error: { type, code, message, param } });
    return this.#answer.flush();
  }

  heartbeat(): string {
    return sseComment("keep-alive");
  }
}

/** One answer being gathered; events are told in order and taken away with `flush`. */
class ResponseAnswer implements BlockSink {
  readonly #asked: ResponsesAsked;
  readonly #head: AnswerHead;
  readonly #blocks = new BlockSequencer(this);
  readonly #output: Json[] = [];
  readonly #places: Record<ItemKind, number> = { reasoning: 0, message: 0, function_call: 0 };
  #events: string[] = [];
  #sequence = 0;
  #begun = false;
  #ending = false;
  #finishReason: string | null = null;
  #openId = "";
  #callId = "";
  /** Log-prob entries of the block that is open. */
  #entries: unknown[] = [];
  #chunkEntries: readonly unknown[] = [];

  constructor(asked: ResponsesAsked, head: AnswerHead) {
    this.#asked = asked;
    this.#head = head;
  }

  begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.tell("response.created", { response: this.#response("in_progress", null) });
    this.tell("response.in_progress", { response: this.#response("in_progress", null) });
  }

  takeChoice(choice: Json): void {
    const { delta, logprobs } = choice;
    if (isFinish(choice)) this.#finishReason = choice["finish_reason"];
    const entries = isRecord(logprobs) && Array.isArray(logprobs["content"]) ? logprobs["content"] : [];
    this.#chunkEntries = this.#asked.wantsLogprobs ? (entries as unknown[]) : [];
    if (isRecord(delta)) this.#blocks.take(delta);
  }

  /** The whole response; what was open is closed. */
  finished(usage: Json | null): Json {
    this.#chunkEntries = [];
    this.#ending = true;
    this.#blocks.end();
    const cut = this.#finishReason === "length" || this.#finishReason === "content_filter";
    return this.#response(cut ? "incomplete" : "completed", usage);
  }

  failed(error: Json): Json {
    return { ...this.#response("failed", null), error };
  }

  tell(type: string, fields: Json): void {
    this.#events.push(jsonEvent(type, { type, sequence_number: this.#sequence, ...fields }));
    this.#sequence += 1;
  }

  flush(): string {
    const events = this.#events.join("");
    this.#events = [];
    return events;
  }

  open(block: Block): void {
    this.#entries = [];
    const kind = itemKind(block);
    this.#openId = itemId(this.#head.responseId, kind, this.#places[kind]);
    if (block.kind === "tool") this.#callId = block.id ?? `call_${this.#openId.slice("fc_".length)}`;
    this.#places[kind] += 1;
    this.tell("response.output_item.added", {
      output_index: this.#output.length,
      item: this.#item(block, null, "in_progress"),
    });
    if (block.kind === "tool") return;
    const part = this.#part(block, "");
    if (this.#isSummary(block)) {
      this.tell("response.reasoning_summary_part.added", { ...this.#at(), summary_index: 0, part });
    } else this.tell("response.content_part.added", { ...this.#at(), content_index: 0, part });
  }

  add(block: Block, text: string): void {
    const at = this.#at();
    switch (block.kind) {
      case "tool":
        this.tell("response.function_call_arguments.delta", { ...at, delta: text });
        return;
      case "reasoning":
        if (this.#isSummary(block)) {
          this.tell("response.reasoning_summary_text.delta", { ...at, summary_index: 0, delta: text });
        } else this.tell("response.reasoning_text.delta", { ...at, content_index: 0, delta: text });
        return;
      case "refusal":
        this.tell("response.refusal.delta", { ...at, content_index: 0, delta: text });
        return;
      case "text": {
        const logprobs = this.#chunkEntries;
        this.#chunkEntries = [];
        this.#entries.push(...logprobs);
        this.tell("response.output_text.delta", { ...at, content_index: 0, delta: text, logprobs });
      }
    }
  }

  close(block: Block, text: string): void {
    const at = this.#at();
    if (block.kind === "tool") {
      const { name } = this.#nameOf(block.name);
      this.tell("response.function_call_arguments.done", { ...at, name, arguments: text });
    } else this.#closePart(block, text, at);
    const item = this.#item(block, text, this.#closedStatus());
    this.tell("response.output_item.done", { output_index: this.#output.length, item });
    this.#output.push(item);
  }

  #closePart(block: Block, text: string, at: Json): void {
    const part = this.#part(block, text);
    if (this.#isSummary(block)) {
      this.tell("response.reasoning_summary_text.done", { ...at, summary_index: 0, text });
      this.tell("response.reasoning_summary_part.done", { ...at, summary_index: 0, part });
      return;
    }
    const place = { ...at, content_index: 0 };
    if (block.kind === "reasoning") this.tell("response.reasoning_text.done", { ...place, text });
    else if (block.kind === "refusal") this.tell("response.refusal.done", { ...place, refusal: text });
    else this.tell("response.output_text.done", { ...place, text, logprobs: this.#entries });
    this.tell("response.content_part.done", { ...place, part });
  }

  #at(): Json {
    return { item_id: this.#openId, output_index: this.#output.length };
  }

  /** Only what was open when the answer was cut off is incomplete. */
  #closedStatus(): string {
    return this.#ending && this.#finishReason === "length" ? "incomplete" : "completed";
  }

  #isSummary(block: Block): boolean {
    return block.kind === "reasoning" && this.#asked.asSummary;
  }

  #nameOf(called: string): Json {
    const known = this.#asked.namespaced.get(called);
    return known === undefined ? { name: called } : { name: known.name, namespace: known.namespace };
  }

  /** @param text null while it is open */
  #item(block: Block, text: string | null, status: string): Json {
    const id = this.#openId;
    const parts = text === null ? [] : [this.#part(block, text)];
    switch (block.kind) {
      case "tool": {
        const called = { call_id: this.#callId, ...this.#nameOf(block.name), arguments: text ?? "" };
        return { id, type: "function_call", status, ...called };
      }
      case "reasoning": {
        const sealed = text !== null && this.#asked.sealsReasoning ? { encrypted_content: seal(text) } : {};
        return this.#asked.asSummary
          ? { id, type: "reasoning", status, summary: parts, ...sealed }
          : { id, type: "reasoning", status, summary: [], content: parts, ...sealed };
      }
      case "text":
      case "refusal":
        return { id, type: "message", status, role: "assistant", content: parts };
    }
  }

  #part(block: Block, text: string): Json {
    if (block.kind === "reasoning") {
      return { type: this.#asked.asSummary ? "summary_text" : "reasoning_text", text };
    }
    if (block.kind === "refusal") return { type: "refusal", refusal: text };
    return { type: "output_text", text, annotations: [], logprobs: text === "" ? [] : this.#entries };
  }

  #response(status: string, usage: Json | null): Json {
    const { responseId, model, createdAt } = this.#head;
    const reason = this.#finishReason === "length" ? "max_output_tokens" : "content_filter";
    return {
      id: responseId,
      object: "response",
      created_at: createdAt,
      status,
      background: false,
      completed_at: status === "completed" ? Math.floor(Date.now() / 1000) : null,
      error: null,
      incomplete_details: status === "incomplete" ? { reason } : null,
      ...this.#asked.echoed,
      model,
      output: [...this.#output],
      usage: responsesUsage(usage),
    };
  }
}

function itemKind(block: Block): ItemKind {
  if (block.kind === "tool") return "function_call";
  return block.kind === "reasoning" ? "reasoning" : "message";
}
