// One agent's side of a rollout: an append-only history, a policy that chooses what of it is asked, and the agent's
// word on each answer. Life of an action: `ask` -> an answer -> `accept`, or `reject` and `ask` again from the same
// view -> ... -> `finish` posts what was accepted. History and answers are frozen; only `accept` adds to them.
// Rejected answers are gone for the agent, and stay in the gateway's record, where nothing trains them.
import { AgentError } from "./agent-error.ts";
import type { Answer } from "./answer.ts";
import { askView, chooseView, sendAction, type Asked, type Asker } from "./asking.ts";
import type { ChatMessage } from "./chat-client.ts";
import {
  checkRequest,
  finite,
  gatewayOf,
  nonEmpty,
  toMessages,
  wholeNumber,
  type AskOptions,
  type ConversationOptions,
  type FinishOptions,
  type ForkOptions,
  type Observation,
} from "./conversation-options.ts";
import { wholeFromOne } from "./numbers.ts";
import { openState, resumeAsked, type ForkOrigin } from "./opening.ts";
import { none } from "./policy.ts";
import { postOutcome, type GatewayAnswer } from "./rollout-api.ts";
import {
  RolloutRecord,
  withoutReasoning,
  type AgentState,
  type CallNote,
  type RejectedAnswer,
} from "./rollout-record.ts";

/** Where a fork comes from, beside what its state begins with. */
interface Origin extends ForkOrigin {
  readonly root: Conversation;
}

const origins = new WeakMap<ConversationOptions, Origin>();

/** Misuse throws an AgentError; an error of the client's own passes through, and the same can be asked again. */
export class Conversation {
  readonly rolloutId: string;
  /** The fork's label; null for the first conversation. */
  readonly agent: string | null;
  readonly #options: ConversationOptions;
  readonly #record: RolloutRecord;
  readonly #asker: Asker;
  readonly #state: AgentState;
  readonly #maxRejections: number;
  /** The conversation that the outcome is posted with. */
  readonly #root: Conversation;
  /** All conversations of the rollout; the root's. */
  readonly #family: Conversation[] = [];
  /** Asked without an accepted answer: what an `ask` without a new observation asks again. */
  #asked: Asked | null = null;
  #demanded = false;
  #busy = false;

  /** Over a journal with entries the conversation goes on where they end: `undecided` tells what waits for a decision. */
  constructor(options: ConversationOptions) {
    const origin = origins.get(options);
    this.rolloutId = nonEmpty("rolloutId", options.rolloutId);
    this.agent = origin?.label ?? null;
    this.#options = options;
    this.#maxRejections = wholeNumber("maxRejections", options.maxRejections ?? 3);
    this.#root = origin?.root ?? this;
    this.#record =
      (origin === undefined ? null : origin.root.#record) ??
      new RolloutRecord(
        this.rolloutId,
        options.journal ?? null,
        options.reasoning === "drop" ? withoutReasoning : (message) => message,
      );
    if (options.contextLimit !== undefined) wholeFromOne("contextLimit", options.contextLimit);
    const { client, contextLimit } = options;
    this.#asker = {
      client,
      model: nonEmpty("model", options.model),
      ...(contextLimit === undefined ? {} : { contextLimit }),
      rolloutId: this.rolloutId,
      agent: this.agent ?? "",
      policy: options.policy ?? none(),
      request: checkRequest(options.request ?? {}),
      gateway: gatewayOf(options),
      record: this.#record,
    };
    this.#state = openState(this.#record, options, origin ?? null);
    this.#asked = resumeAsked(this.#state);
    this.#root.#family.push(this);
  }

  /** System message and task, then observations and accepted answers in order. */
  get history(): readonly ChatMessage[] {
    return Object.freeze([...this.#state.history]);
  }

  /** The accepted answers that the history has, a fork's inherited ones first. */
  get accepted(): readonly Answer[] {
    return this.#state.path.map(({ answer }) => answer);
  }

  get rejected(): readonly RejectedAnswer[] {
    return [...this.#state.rejected];
  }

  /** Answers that wait for the agent's word, after a resume too. */
  get undecided(): readonly Answer[] {
    return this.#state.undecided.map(({ answer }) => answer);
  }

  /** Every call of the rollout, forks and policies included, with its parent as the agent's side sees it. */
  get calls(): readonly CallNote[] {
    return this.#record.calls;
  }

  /** Response ids that the outcome names, forks included, in the order in which they were accepted. */
  get kept(): readonly string[] {
    return this.#record.kept;
  }

  /** Partial rewards of kept answers by response id. */
  get rewards(): Readonly<Record<string, number>> {
    return this.#record.rewards;
  }

  /**
   * Asks the model for the next action. The observation belongs to this ask: it becomes history with the answer that
   * is accepted. Without a new one, after a rejection or a failure, the same view is asked again.
   */
  async ask(observation?: Observation, options: AskOptions = {}): Promise<Answer> {
    return this.#act("ask", async () => {
      const chosen = await this.#choose(observation);
      this.#asked = chosen;
      const { asked, answer } = await askView(this.#asker, this.#state, chosen, options);
      this.#asked = asked;
      return answer;
    });
  }

  /**
   * Asks for n answers to one view at once, keeps the one that `choose` names by its index and rejects the others. Where
   * some calls fail, it is chosen among those that came; where all fail, the first error passes through. A `seed` in the
   * request is raised by one for each.
   */
  async bestOf(
    n: number,
    choose: (answers: readonly Answer[]) => number | Promise<number>,
    observation?: Observation,
    options: AskOptions = {},
  ): Promise<Answer> {
    wholeFromOne("bestOf", n);
    const answers = await this.#act("ask", async () => {
      const chosen = await this.#choose(observation);
      this.#asked = chosen;
      const first = await askView(this.#asker, this.#state, chosen, this.#seeded(options, 0));
      this.#asked = first.asked;
      const others = await Promise.allSettled(
        Array.from({ length: n - 1 }, (_unused, index) =>
          sendAction(this.#asker, this.#state, first.asked, this.#seeded(options, index + 1)),
        ),
      );
      return [first.answer, ...others.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []))];
    });
    const index = await choose(answers);
    const best = answers[index];
    if (best === undefined) {
      throw new AgentError(
        "invalid_argument",
        `choose gave ${index}; it must be an index of the ${answers.length} answers, which are still undecided`,
      );
    }
    this.accept(best);
    return best;
  }

  /** Keeps the answer: it and its observation become history. Siblings that wait beside it are rejected. */
  accept(answer: Answer, options: { readonly reward?: number } = {}): void {
    const reward = finite("reward", options.reward);
    const responseId = this.#decidable(answer, "accepted");
    const agent = this.#asker.agent;
    for (const other of this.undecided) {
      if (other.responseId === responseId) continue;
      const entry = { responseId: other.responseId, reason: `${responseId} was kept`, counts: false };
      this.#record.add({ type: "rejected", agent, ...entry });
    }
    this.#record.add({ type: "accepted", agent, responseId, reward });
    this.#asked = null;
  }

  /**
   * Drops the answer. The next `ask` asks again from the same view, or with another observation. The reason is kept
   * for the agent's own use.
   */
  reject(answer: Answer, reason?: string): void {
    const responseId = this.#decidable(answer, "rejected");
    const entry = { agent: this.#asker.agent, responseId, reason: reason ?? null, counts: true };
    this.#record.add({ type: "rejected", ...entry });
  }

  /** A partial reward for an accepted answer, in place of one that it had. */
  credit(answer: Answer, reward: number): void {
    this.#checkOpen("credit");
    const { responseId } = answer;
    if (this.#record.verdict(responseId) !== "accepted") {
      throw new AgentError(
        "invalid_argument",
        `answer ${responseId} was not accepted: it can have no reward`,
      );
    }
    const entry = { agent: this.#asker.agent, responseId, reward: finite("reward", reward) as number };
    this.#record.add({ type: "credited", ...entry });
  }

  /** Tells the policy at the next `ask` that compaction is wished for. */
  compact(): void {
    this.#checkOpen("compact");
    this.#demanded = true;
  }

  /**
   * Goes back to right after an accepted answer, or with null to the start: what is asked next is its child. The answers
   * after it are dropped from the outcome, or stand in it as a branch of their own with `keep`.
   */
  goBack(to: Answer | null, options: { readonly keep?: boolean; readonly reason?: string } = {}): void {
    this.#checkOpen("go back");
    this.#checkDecided("go back");
    const own = this.#state.path.slice(this.#state.inherited);
    if (to !== null && !own.some(({ answer }) => answer.responseId === to.responseId)) {
      throw new AgentError(
        "foreign_answer",
        `answer ${to.responseId} is no accepted answer of this conversation`,
      );
    }
    const { keep = false, reason = null } = options;
    const back = to?.responseId ?? this.accepted[this.#state.inherited - 1]?.responseId ?? null;
    this.#record.add({ type: "went_back", agent: this.#asker.agent, to: back, keep, reason });
    this.#asked = null;
  }

  /**
   * A sub-agent of the same rollout, under its own label: it asks, accepts and rejects beside this one, and what it
   * accepted stands in the one outcome. Over a journal the fork of this label goes on where it was.
   */
  fork(label: string, options: ForkOptions = {}): Conversation {
    this.#checkNotFinished("fork");
    nonEmpty("label", label);
    if (this.#root.#family.some(({ agent }) => agent === label)) {
      throw new AgentError(
        "invalid_argument",
        `there is a fork "${label}" already; each needs a label of its own`,
      );
    }
    const { system: _system, task: _task, messages: _messages, policy: _policy, ...shared } = this.#options;
    const { after: _after, ...own } = options;
    const whole: ConversationOptions = { ...shared, ...own };
    origins.set(whole, {
      root: this.#root,
      from: this.#state,
      forkOf: this.#asker.agent,
      label,
      fork: options,
    });
    return new Conversation(whole);
  }

  /** Drops all that this fork accepted, from the outcome too. */
  discard(reason?: string): void {
    this.#checkOpen("discard");
    if (this.#root === this) {
      throw new AgentError(
        "invalid_argument",
        "the first conversation is not discarded: post that it failed",
      );
    }
    this.#record.add({ type: "discarded", agent: this.#asker.agent, reason: reason ?? null });
  }

  /**
   * Posts the outcome, which ends the rollout. Throws `nothing_accepted` for a final form without an accepted answer,
   * `gateway_refused` where the gateway does not take it; the conversation is then still open.
   */
  async finish(options: FinishOptions = {}): Promise<GatewayAnswer> {
    this.#checkRoot("finish");
    this.#checkOpen("finish");
    for (const one of this.#family) one.#checkDecided("finish");
    this.#checkForksResumed();
    finite("reward", options.reward);
    const { form = "accepted", ...fields } = options;
    if (form === "accepted") return this.#post({ ...fields, accepted: this.kept });
    const final = this.accepted.at(-1)?.responseId;
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
    this.#checkRoot("fail");
    this.#checkOpen("fail");
    return this.#post({ ...options, failed: nonEmpty("reason", reason) });
  }

  /** Adds the reward to an outcome that was posted without one; once. */
  async addReward(reward: number): Promise<GatewayAnswer> {
    this.#checkRoot("add a reward");
    if (!this.#record.finished) {
      throw new AgentError("not_finished", "the outcome was not posted: give the reward to finish");
    }
    return postOutcome(this.rolloutId, { reward: finite("reward", reward) as number }, this.#asker.gateway);
  }

  async #post(fields: Parameters<typeof postOutcome>[1]): Promise<GatewayAnswer> {
    const busy = this.#family.find((one) => one.#busy);
    if (busy !== undefined) throw inFlight(`post the outcome while ${busy.agent ?? "it"} asks`);
    this.#busy = true;
    try {
      const answer = await postOutcome(this.rolloutId, fields, this.#asker.gateway);
      this.#record.add({ type: "finished", agent: "" });
      return answer;
    } finally {
      this.#busy = false;
    }
  }

  async #act<T>(verb: string, act: () => Promise<T>): Promise<T> {
    this.#checkOpen(verb);
    this.#checkDecided(verb);
    const { rejections, path, inherited } = this.#state;
    if (rejections > this.#maxRejections) {
      throw new AgentError(
        "too_many_rejections",
        `action ${path.length - inherited + 1} had ${rejections} answers rejected; maxRejections is ${this.#maxRejections}`,
      );
    }
    this.#busy = true;
    try {
      return await act();
    } finally {
      this.#busy = false;
    }
  }

  async #choose(observation: Observation | undefined): Promise<Asked> {
    const again = observation === undefined ? this.#asked : null;
    if (again !== null && !this.#demanded) return again;
    const told = again?.observation ?? toMessages(observation);
    const occasion = { contextFull: false, demanded: this.#demanded };
    const chosen = await chooseView(this.#asker, this.#state, told, occasion);
    this.#demanded = false;
    return chosen;
  }

  #seeded(options: AskOptions, add: number): AskOptions {
    const seed = options.request?.["seed"] ?? this.#asker.request["seed"];
    if (typeof seed !== "number" || add === 0) return options;
    return { ...options, stream: false, request: { ...options.request, seed: seed + add } };
  }

  #decidable(answer: Answer, verdict: "accepted" | "rejected"): string {
    const given = this.#record.answered(answer.responseId);
    if (given?.answer !== answer || given.agent !== this.#asker.agent || given.purpose === "policy") {
      throw new AgentError(
        "foreign_answer",
        `answer ${answer.responseId} was not given by this conversation of ${this.rolloutId}`,
      );
    }
    if (!this.#state.undecided.includes(given)) {
      const before = this.#record.verdict(answer.responseId);
      throw new AgentError(
        "already_decided",
        `answer ${answer.responseId} was ${before} before; it cannot be ${verdict} now`,
      );
    }
    this.#checkOpen(verdict === "accepted" ? "accept" : "reject");
    return answer.responseId;
  }

  #checkOpen(verb: string): void {
    this.#checkNotFinished(verb);
    if (this.#state.discarded)
      throw new AgentError("discarded", `cannot ${verb}: ${this.agent} was discarded`);
    if (this.#busy) throw inFlight(verb);
  }

  #checkNotFinished(verb: string): void {
    if (!this.#record.finished) return;
    throw new AgentError("finished", `cannot ${verb}: the outcome of ${this.rolloutId} was posted`);
  }

  #checkDecided(verb: string): void {
    if (this.#state.undecided.length === 0) return;
    const whose = this.agent === null ? "" : ` of ${this.agent}`;
    throw new AgentError(
      "answer_undecided",
      `cannot ${verb}: accept or reject the last answer${whose} first`,
    );
  }

  #checkRoot(verb: string): void {
    if (this.#root === this) return;
    throw new AgentError(
      "not_the_first",
      `the fork ${this.agent} cannot ${verb}: the conversation it was forked from posts the one outcome`,
    );
  }

  /** A fork that the journal has and nobody took up again may have answers that nobody decided on. */
  #checkForksResumed(): void {
    for (const label of this.#record.labels) {
      const open = this.#record.state(label)?.undecided.length ?? 0;
      if (open === 0) continue;
      throw new AgentError("answer_undecided", `cannot finish: the fork "${label}" has an undecided answer`);
    }
  }
}

function inFlight(verb: string): AgentError {
  return new AgentError("ask_in_flight", `cannot ${verb}: another request is under way`);
}
