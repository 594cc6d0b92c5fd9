// Makes the prompt of a token-in call: the parent's recorded sequence and what the child carries after it, or, without
// a parent, the rendering of the messages. It asks the engine to render and keeps what it learned of each template;
// it never guesses: where a rendering does not show a clean join, the result says why instead.
import type { Message } from "../lineage/call.ts";
import { canonicalJson } from "../lineage/message.ts";
import { joinIds, learnJoint, spliceAfter, type Joint } from "./splice.ts";
import { answerKind, jointMessages, MARKER, markedAnswer, withoutReasoning } from "./splice-messages.ts";
import type { Rendering, TokenIn } from "./token-in.ts";

/** The parent as far as a prompt needs it. */
export interface PromptParent {
  /** Index of its answer in the request's messages. */
  readonly answerIndex: number;
  /** Prompt and generated ids. */
  readonly sequence: Uint32Array;
  readonly generatedLength: number;
  /** `length`, or aborted: the answer did not come to its own end. */
  readonly cutOff: boolean;
}

export interface PromptAsk {
  /** Chat Completions body with its messages. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly messages: readonly Message[];
  /** Same for requests with the same tools and template options. */
  readonly contextDigest: string;
  readonly parent: PromptParent | null;
  readonly signal: AbortSignal;
}

export type Prompt =
  | {
      readonly kind: "prompt";
      readonly ids: Uint32Array;
      readonly rendering: Rendering;
      readonly spliced: boolean;
    }
  /** The messages cannot be joined to the parent's sequence; in words. */
  | { readonly kind: "no_join"; readonly why: string };

/** Joints that are remembered; one for each template context, kind of answer and next role. */
const MAX_JOINTS = 1_000;

export class PromptMaker {
  readonly #tokenIn: TokenIn;
  readonly #joints = new Map<string, Joint>();

  constructor(tokenIn: TokenIn) {
    this.#tokenIn = tokenIn;
  }

  /** Throws what the engine throws where it cannot render. */
  async make(ask: PromptAsk): Promise<Prompt> {
    const { parent, messages } = ask;
    if (parent === null) return this.#whole(ask);
    const isLast = parent.answerIndex === messages.length - 1;
    if (isLast && ask.body["continue_final_message"] === true) {
      if (!parent.cutOff) return this.#whole(ask);
      const rendering = await this.#render(ask, messages, "as asked");
      return { kind: "prompt", ids: parent.sequence, rendering, spliced: true };
    }
    return this.#splice(ask, parent);
  }

  async #whole(ask: PromptAsk): Promise<Prompt> {
    const rendering = await this.#render(ask, ask.messages, "as asked");
    return { kind: "prompt", ids: rendering.ids, rendering, spliced: false };
  }

  async #splice(ask: PromptAsk, parent: PromptParent): Promise<Prompt> {
    const answer = ask.messages[parent.answerIndex] as Message;
    if (answerKind(answer) === null) {
      return { kind: "no_join", why: "the answer before calls no function by a tool call" };
    }
    const bare = ask.messages.map(withoutReasoning);
    const history = bare.slice(0, parent.answerIndex);
    const marked = bare.with(parent.answerIndex, markedAnswer(answer, MARKER));
    const [before, rendering, joint] = await allOf([
      history.length === 0 ? NONE : this.#render(ask, history, "none"),
      this.#render(ask, marked, "as asked"),
      this.#jointFor(ask, answer, bare[parent.answerIndex + 1] ?? null),
    ]);
    if (joint === null) return { kind: "no_join", why: "the template does not show answers" };
    const spliced = spliceAfter({
      before: before?.ids ?? new Uint32Array(),
      marked: rendering.ids,
      joint,
      generated: parent.sequence.subarray(parent.sequence.length - parent.generatedLength),
      cutOff: parent.cutOff,
    });
    if (spliced.kind === "no_join") return spliced;
    return { kind: "prompt", ids: joinIds(parent.sequence, spliced.ids), rendering, spliced: true };
  }

  async #jointFor(ask: PromptAsk, answer: Message, next: Message | null): Promise<Joint | null> {
    const nextRole = next === null ? null : String(next["role"]);
    const key = canonicalJson([ask.contextDigest, answerKind(answer)?.toolCalls, nextRole]);
    const known = this.#joints.get(key);
    if (known !== undefined) return known;
    const { base, otherAnswer, otherNext, asText } = jointMessages(answer, nextRole);
    const render = (messages: readonly Message[] | null): Promise<Rendering | null> =>
      messages === null ? NONE : this.#render(ask, messages, "as asked");
    const rendered = await allOf([
      this.#render(ask, base, "as asked"),
      this.#render(ask, otherAnswer, "as asked"),
      render(otherNext),
      render(asText),
    ]);
    const joint = learnJoint({
      base: rendered[0].ids,
      otherAnswer: rendered[1].ids,
      otherNext: rendered[2]?.ids ?? null,
      asText: rendered[3]?.ids ?? null,
    });
    if (joint === null) return null;
    if (this.#joints.size >= MAX_JOINTS) this.#joints.clear();
    this.#joints.set(key, joint);
    return joint;
  }

  #render(ask: PromptAsk, messages: readonly Message[], ending: "as asked" | "none"): Promise<Rendering> {
    return this.#tokenIn.render({ body: ask.body, messages, ending, signal: ask.signal });
  }
}

/** `Promise.all` that waits for all of them, so that none goes on unheard behind a fault, and throws the first. */
async function allOf<T extends readonly unknown[]>(
  promises: readonly [...{ readonly [K in keyof T]: Promise<T[K]> }],
): Promise<T> {
  const all: readonly Promise<unknown>[] = promises;
  await Promise.allSettled(all);
  return (await Promise.all(all)) as unknown as T;
}

const NONE: Promise<null> = Promise.resolve(null);
