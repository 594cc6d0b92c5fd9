// The Completions API: a prompt as text or as token ids, answered with text. Its calls have no messages; inside, an
// answer is a chat answer whose content is the text, and the engine's own log-probs stand beside it.
// Reference: https://platform.openai.com/docs/api-reference/completions
import type { CoppiceError } from "../errors.ts";
import { isRecord } from "../lineage/message.ts";
import { asksForUsage, DONE } from "./chat-completions.ts";
import { choicesOf, indexOf } from "./chat-choices.ts";
import type { AnswerHead, AnswerWriter, Dialect, Json, StreamWriter } from "./dialect.ts";
import { openAiErrors } from "./openai-errors.ts";
import { choicesAsked, optionalFlag, optionalString, refused, wrong } from "./request-fields.ts";
import { sseComment } from "./sse-write.ts";

/** Where the engine's own `logprobs` of a text completion stands in an internal choice. */
export const TEXT_LOGPROBS = "text_logprobs";

interface CompletionsAsked {
  readonly wantsLogprobs: boolean;
  readonly wantsUsage: boolean;
}

export const completionsDialect: Dialect = {
  name: "completions",
  idPrefix: "cmpl-",
  errors: openAiErrors,
  neededAnswers: () => [],
  decode: (body) => {
    if (optionalFlag(body, "echo")) {
      throw refused("echo", "the prompt is recorded as it is; ask for the answer alone");
    }
    if (typeof body["suffix"] === "string") throw refused("suffix", "no engine fills in between");
    const choices = choicesAsked(body);
    const best = body["best_of"] ?? choices;
    if (best !== choices) throw refused("best_of", "what is sampled and thrown away could not be recorded");
    const { best_of: _best, suffix: _suffix, echo: _echo, ...rest } = body;
    const wantsLogprobs = typeof body["logprobs"] === "number";
    return {
      body: { ...rest, prompt: readPrompt(body["prompt"]) },
      kind: "text",
      messages: [],
      stream: optionalFlag(body, "stream"),
      choices,
      model: optionalString(body, "model"),
      notes: [],
      writer: completionsWriter({ wantsLogprobs, wantsUsage: asksForUsage(body) }),
    };
  },
};

/** One prompt: a text or token ids. A list of one is that one. */
function readPrompt(prompt: unknown): string | readonly number[] {
  const [only, ...others] = Array.isArray(prompt) ? (prompt as readonly unknown[]) : [];
  const inList = typeof only === "string" || Array.isArray(only);
  if (inList && others.length > 0) throw refused("prompt", "send one prompt a call");
  const one = inList ? only : prompt;
  if (typeof one === "string" && one !== "") return one;
  if (Array.isArray(one) && one.length > 0 && one.every(isTokenId)) return one as readonly number[];
  throw wrong("prompt", prompt, "a text that is not empty, or a list of token ids");
}

function isTokenId(value: unknown): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 2 ** 32;
}

function completionsWriter(asked: CompletionsAsked): AnswerWriter {
  return {
    whole: (json, head) => JSON.stringify(completionOf(json, asked, head)),
    stream: (head) => new CompletionStream(asked, head),
  };
}

class CompletionStream implements StreamWriter {
  readonly #asked: CompletionsAsked;
  readonly #head: AnswerHead;

  constructor(asked: CompletionsAsked, head: AnswerHead) {
    this.#asked = asked;
    this.#head = head;
  }

  chunk(json: Json): string {
    const choices = choicesOf(json);
    if (choices.length === 0) return "";
    const { usage: _usage, ...chunk } = completionOf(json, this.#asked, this.#head);
    return `data: ${JSON.stringify(chunk)}\n\n`;
  }

  end(held: readonly Json[], usage: Json | null): string {
    const events = held.map((json) => this.chunk(json)).join("");
    if (!this.#asked.wantsUsage || usage === null) return events + DONE;
    const last = completionOf({ ...held.at(-1), choices: [], usage }, this.#asked, this.#head);
    return `${events}data: ${JSON.stringify(last)}\n\n${DONE}`;
  }

  fail(error: CoppiceError): string {
    return `data: ${openAiErrors.body(error)}\n\n`;
  }

  heartbeat(): string {
    return sseComment("keep-alive");
  }
}

function completionOf(json: Json, asked: CompletionsAsked, head: AnswerHead): Record<string, unknown> {
  return {
    ...json,
    id: head.responseId,
    object: "text_completion",
    model: head.model,
    choices: choicesOf(json).map((choice) => {
      const { delta, message, logprobs: _entries, [TEXT_LOGPROBS]: told, finish_reason, ...rest } = choice;
      const said = isRecord(delta) ? delta : isRecord(message) ? message : {};
      return {
        ...rest,
        index: indexOf(choice),
        text: typeof said["content"] === "string" ? said["content"] : "",
        logprobs: asked.wantsLogprobs ? (told ?? null) : null,
        finish_reason: finish_reason ?? null,
      };
    }),
  };
}
