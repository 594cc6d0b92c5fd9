// One agent's side of a rollout: an append-only history, a policy that chooses what of it is asked, and the agent's
// word on each answer. Life of an action: `ask` -> an answer -> `accept`, or `reject` and `ask` again from the same
// view -> ... -> `finish` posts what was accepted. History and answers are frozen; only `accept` adds to them.
// Rejected answers are gone for the agent, and stay in the gateway's record, where nothing trains them.
import { AgentError } from "./agent-error.ts";
import { readCompletion, type Answer } from "./answer.ts";
import { frozenMessage, type ChatClient, type ChatMessage, type RequestFields } from "./chat-client.ts";
import {
  checkRequest,
  firstMessages,
  gatewayOf,
  nonEmpty,
  toMessages,
  wholeNumber,
  type AskOptions,
  type ConversationOptions,
  type FinishOptions,
  type Observation,
} from "./conversation-options.ts";
import { joinChunks } from "./join-chunks.ts";
import { none, type Policy } from "./policy.ts";
import { postOutcome, type GatewayAnswer, type GatewayOptions } from "./rollout-api.ts";
import { checkView, continues } from "./view.ts";

interface Asked {
  readonly view: readonly ChatMessage[];
  readonly observation: readonly ChatMessage[];
}

interface Decided extends Asked {
  readonly answer: Answer;
}

export interface RejectedAnswer {
  readonly answer: Answer;
  readonly reason: string | null;
}

/** Misuse throws an AgentError; an error of the client's own passes through, and the same can be asked again. */
export class Conversation {
  readonly rolloutId: string;
  readonly #client: ChatClient;
  readonly #model: string;
  readonly #policy: Policy;
  readonly #maxRejections: number;
  readonly #request: RequestFields;
  readonly #gateway: GatewayOptions;
  readonly #head: readonly ChatMessage[];
  readonly #history: ChatMessage[];
  readonly #accepted: Decided[] = [];
  readonly #rejected: RejectedAnswer[] = [];
  /** What every answer that this conversation gave has come to. */
  readonly #verdicts = new WeakMap<Answer, "undecided" | "accepted" | "rejected">();
  /** Answered, and waiting for the agent's word. */
  #undecided: Decided | null = null;
  /** Asked without an accepted answer: what an `ask` without a new observation asks again. */
  #asked: Asked | null = null;
  #rejections = 0;
  #busy = false;
  #finished = false;

  constructor(options: ConversationOptions) {
    this.rolloutId = nonEmpty("rolloutId", options.rolloutId);
    this.#client = options.client;
    this.#model = nonEmpty("model", options.model);
    this.#policy = options.policy ?? none();
    this.#maxRejections = wholeNumber("maxRejections", options.maxRejections ?? 3);
    this.#request = checkRequest(options.request ?? {});
    this.#gateway = gatewayOf(options);
    this.#head = Object.freeze(firstMessages(options));
    this.#history = [...this.#head];
  }

  /** System message and task, then observations and accepted answers in order. */
  get history(): readonly ChatMessage[] {
    return Object.freeze([...this.#history]);
  }

  get accepted(): readonly Answer[] {
    return this.#accepted.map(({ answer }) => answer);
  }

  get rejected(): readonly RejectedAnswer[] {
    return [...this.#rejected];
  }

  /**
   * Asks the model for the next action. The observation belongs to this ask: it becomes history with the answer that
   * is accepted. Without a new one, after a rejection or a failure, the same view is asked again.
   */
  async ask(observation?: Observation, options: AskOptions = {}): Promise<Answer> {
    this.#checkOpen("ask");
    if (this.#undecided !== null) throw undecided("ask");
    if (this.#rejections > this.#maxRejections) {
      throw new AgentError(
        "too_many_rejections",
        `action ${this.#accepted.length + 1} had ${this.#rejections} answers rejected; maxRejections is ${this.#maxRejections}`,
      );
    }
    this.#busy = true;
    try {
      const again = observation === undefined ? this.#asked : null;
      const asked = again ?? (await this.#choose(toMessages(observation)));
      this.#asked = asked;
      const answer = await this.#send(asked.view, options);
      this.#undecided = { ...asked, answer };
      this.#verdicts.set(answer, "undecided");
      return answer;
    } finally {
      this.#busy = false;
    }
  }

  /** Keeps the answer: it and its observation become history. */
  accept(answer: Answer): void {
    const decided = this.#decide(answer, "accepted");
    this.#accepted.push(decided);
    this.#history.push(...decided.observation, answer.message);
    this.#asked = null;
    this.#rejections = 0;
  }

  /**
   * Drops the answer. The next `ask` asks again from the same view, or with another observation. The reason is kept
   * for the agent's own use.
   */
  reject(answer: Answer, reason?: string): void {
    this.#decide(answer, "rejected");
    this.#rejected.push(Object.freeze({ answer, reason: reason ?? null }));
    this.#rejections += 1;
  }

  /**
   * Posts the outcome, which ends the rollout. Throws `nothing_accepted` for a final form without an accepted answer,
   * `gateway_refused` where the gateway does not take it; the conversation is then still open.
   */
  async finish(options: FinishOptions = {}): Promise<GatewayAnswer> {
    this.#checkOpen("finish");
    if (this.#undecided !== null) throw undecided("finish");
    if (options.reward !== undefined && !Number.isFinite(options.reward)) {
      throw new AgentError("invalid_argument", `reward is ${options.reward}; it must be a finite number`);
    }
    const { form = "accepted", ...fields } = options;
    const ids = this.#accepted.map(({ answer }) => answer.responseId);
    if (form === "accepted") return this.#post({ ...fields, accepted: ids });
    const final = ids.at(-1);
    if (final === undefined) {
      throw new AgentError("nothing_accepted", "the final form needs an accepted answer, and there is none");
    }
    return this.#post({ ...fields, final });
  }

  /** Posts that the agent failed: the rollout gives no rows and stays out of its group's mean. */
  async fail(
    reason: string,
    options: Pick<FinishOptions, "groupId" | "generationIndex"> = {},
  ): Promise<GatewayAnswer> {
    this.#checkOpen("fail");
    return this.#post({ ...options, failed: nonEmpty("reason", reason) });
  }

  async #post(fields: Parameters<typeof postOutcome>[1]): Promise<GatewayAnswer> {
    this.#busy = true;
    try {
      const answer = await postOutcome(this.rolloutId, fields, this.#gateway);
      this.#finished = true;
      return answer;
    } finally {
      this.#busy = false;
    }
  }

  #checkOpen(verb: string): void {
    if (this.#finished) {
      throw new AgentError("finished", `cannot ${verb}: the outcome of ${this.rolloutId} was posted`);
    }
    if (this.#busy) throw new AgentError("ask_in_flight", `cannot ${verb}: another request is under way`);
  }

  #decide(answer: Answer, verdict: "accepted" | "rejected"): Decided {
    const before = this.#verdicts.get(answer);
    if (before === undefined) {
      throw new AgentError(
        "foreign_answer",
        `answer ${answer.responseId} was not given by this conversation of ${this.rolloutId}`,
      );
    }
    if (before !== "undecided" || this.#undecided?.answer !== answer) {
      throw new AgentError(
        "already_decided",
        `answer ${answer.responseId} was ${before} before; it cannot be ${verdict} now`,
      );
    }
    this.#checkOpen(verdict === "accepted" ? "accept" : "reject");
    const decided = this.#undecided;
    this.#verdicts.set(answer, verdict);
    this.#undecided = null;
    return decided;
  }

  async #choose(observation: readonly ChatMessage[]): Promise<Asked> {
    const history = Object.freeze([...this.#history, ...observation]);
    const last = this.#accepted.at(-1);
    const continued =
      last === undefined ? history : Object.freeze([...last.view, last.answer.message, ...observation]);
    const accepted = Object.freeze(this.accepted.slice());
    const chosen = await this.#policy({ history, head: this.#head, observation, accepted, continued });
    checkView(chosen, history);
    const view = chosen.map((message) => (Object.isFrozen(message) ? message : frozenMessage(message)));
    return { view: Object.freeze(view), observation };
  }

  async #send(view: readonly ChatMessage[], options: AskOptions): Promise<Answer> {
    const stream = options.stream === true;
    const request = { ...this.#request, ...checkRequest(options.request ?? {}) };
    const body = {
      ...(stream ? { stream_options: { include_usage: true } } : {}),
      ...request,
      model: this.#model,
      messages: view,
      ...(stream ? { stream } : {}),
    };
    const parent = this.#accepted.findLast(({ view: before, answer }) =>
      continues(view, [...before, answer.message]),
    );
    const headers: Record<string, string> = { "x-coppice-rollout": this.rolloutId };
    if (parent !== undefined) headers["x-coppice-parent"] = parent.answer.responseId;
    const promise = this.#client.chat.completions.create(body, {
      headers,
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    const { data, response } =
      promise.withResponse === undefined
        ? { data: await promise, response: null }
        : await promise.withResponse();
    const callId = response?.headers.get("x-coppice-call-id") ?? null;
    if (!stream) return readCompletion(data, callId);
    return readCompletion(await joinChunks(asChunks(data), options.onText ?? ignoreText), callId);
  }
}

function ignoreText(): void {
  // A stream that nobody listens to is read all the same: its end says that the answer is whole.
}

function asChunks(stream: unknown): AsyncIterable<unknown> {
  if (typeof stream === "object" && stream !== null && Symbol.asyncIterator in stream) {
    return stream as AsyncIterable<unknown>;
  }
  throw new AgentError("incomplete_answer", "the client gave no stream of chunks for a streamed call");
}

function undecided(verb: string): AgentError {
  return new AgentError("answer_undecided", `cannot ${verb}: accept or reject the last answer first`);
}
