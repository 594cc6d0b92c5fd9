// What all conversations of one rollout have come to: their histories and paths, each call with its parent as the agent's
// side sees it, and what was kept, in order. Everything is an entry that is applied here, first written to the journal,
// so that replaying the journal gives the same record.
import { AgentError } from "./agent-error.ts";
import type { Answer } from "./answer.ts";
import { frozenMessage, type ChatMessage } from "./chat-client.ts";
import { readEntry, writeEntry, type Entry, type EntryOf, type Journal, type RootKind } from "./journal.ts";

/** An answer with what it was asked with. */
export interface Answered {
  readonly agent: string;
  readonly purpose: "action" | "policy";
  readonly view: readonly ChatMessage[];
  readonly observation: readonly ChatMessage[];
  readonly goesOn: boolean;
  readonly answer: Answer;
  /** The answer as it goes back to the model. */
  readonly said: ChatMessage;
}

export interface RejectedAnswer {
  readonly answer: Answer;
  readonly reason: string | null;
}

/** A call as the agent's side sees it; the gateway's forest has the same parents where texts tell the tokens. */
export interface CallNote {
  readonly responseId: string;
  /** The fork's label; null for the first conversation. */
  readonly agent: string | null;
  /** A policy's calls are its own, such as for a summary. */
  readonly purpose: "action" | "policy";
  /** Response id of the call that this one's view goes on from; null: it is a root. */
  readonly parent: string | null;
  readonly root: RootKind | null;
  /** A policy's call that is not asked to train stays undecided. */
  readonly verdict: "undecided" | "accepted" | "rejected";
}

/** One agent's place in the rollout: where its history stands now. */
export interface AgentState {
  readonly forkOf: string | null;
  readonly head: readonly ChatMessage[];
  /** The history that it began with: the head, and what a fork that goes on inherited. */
  readonly start: readonly ChatMessage[];
  history: ChatMessage[];
  /** Accepted answers that lead here, a fork's inherited ones first. */
  path: Answered[];
  /** How many of the path were inherited. */
  readonly inherited: number;
  readonly rejected: RejectedAnswer[];
  /** Actions that were answered and wait for the agent's word: more than one among siblings. */
  undecided: Answered[];
  rejections: number;
  /** The rejected answer in whose place another is to be asked. */
  again: Answered | null;
  discarded: boolean;
}

export class RolloutRecord {
  readonly #journal: Journal | null;
  readonly #said: (message: ChatMessage) => ChatMessage;
  readonly #answered = new Map<string, Answered>();
  readonly #verdicts = new Map<string, "accepted" | "rejected">();
  readonly #notes: Omit<CallNote, "verdict">[] = [];
  readonly #states = new Map<string, AgentState>();
  /** In the order in which they were accepted. */
  readonly #kept = new Set<string>();
  readonly #rewards = new Map<string, number>();
  #finished = false;

  /** Replays the journal. Throws `invalid_journal`. */
  constructor(rolloutId: string, journal: Journal | null, said: (message: ChatMessage) => ChatMessage) {
    this.#journal = journal;
    this.#said = said;
    for (const [index, line] of (journal?.lines ?? []).entries()) {
      const entry = readEntry(line, index + 1, (agent) => this.#states.get(agent)?.history ?? []);
      if (entry.type === "conversation" && entry.rolloutId !== rolloutId) {
        throw new AgentError(
          "invalid_journal",
          `the journal is of rollout ${entry.rolloutId}, the conversation of ${rolloutId}`,
        );
      }
      this.#apply(entry);
    }
  }

  get finished(): boolean {
    return this.#finished;
  }

  get calls(): readonly CallNote[] {
    return this.#notes.map((note) => ({
      ...note,
      verdict: this.#verdicts.get(note.responseId) ?? "undecided",
    }));
  }

  /** Response ids in the order in which they were accepted. */
  get kept(): readonly string[] {
    return [...this.#kept];
  }

  /** Partial rewards by response id, of what is kept. */
  get rewards(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#rewards].filter(([id]) => this.#kept.has(id)));
  }

  get labels(): readonly string[] {
    return [...this.#states.keys()];
  }

  state(agent: string): AgentState | undefined {
    return this.#states.get(agent);
  }

  verdict(responseId: string): "undecided" | "accepted" | "rejected" | undefined {
    return this.#verdicts.get(responseId) ?? (this.#answered.has(responseId) ? "undecided" : undefined);
  }

  answered(responseId: string): Answered | undefined {
    return this.#answered.get(responseId);
  }

  /** Writes the entry down, then applies it. */
  add(entry: Entry): void {
    if (entry.type === "answered" && this.#answered.has(entry.answer.responseId)) {
      throw new AgentError(
        "incomplete_answer",
        `the response id ${entry.answer.responseId} was given before: only a gateway's ids tell answers apart`,
      );
    }
    const known = entry.type === "answered" ? (this.#states.get(entry.agent)?.history ?? []) : [];
    this.#journal?.append(
      writeEntry(entry, entry.type === "answered" ? [...known, ...entry.observation] : known),
    );
    this.#apply(entry);
  }

  #apply(entry: Entry): void {
    if (entry.type === "finished") this.#finished = true;
    else if (entry.type === "conversation") this.#open(entry);
    else {
      const state = this.#states.get(entry.agent);
      if (state === undefined) {
        throw new AgentError("invalid_journal", `the journal has no conversation of agent "${entry.agent}"`);
      }
      this.#applyTo(state, entry);
    }
  }

  #applyTo(state: AgentState, entry: Exclude<Entry, EntryOf<"conversation"> | EntryOf<"finished">>): void {
    switch (entry.type) {
      case "answered":
        return this.#answer(state, entry);
      case "accepted":
        return this.#accept(state, entry);
      case "rejected":
        return this.#reject(state, entry);
      case "credited":
        this.#rewards.set(entry.responseId, entry.reward);
        return;
      case "went_back":
        return this.#goBack(state, entry);
      case "discarded":
        state.discarded = true;
        state.undecided = [];
        for (const { agent, answer } of this.#answered.values()) {
          if (agent === entry.agent) this.#drop(answer.responseId);
        }
        return;
    }
  }

  #open({ agent, forkOf, head, before, path }: EntryOf<"conversation">): void {
    const inherited = path.flatMap((id) => this.#answered.get(id) ?? []);
    this.#states.set(agent, {
      forkOf,
      head,
      start: [...head, ...before],
      history: [...head, ...before],
      path: inherited,
      inherited: inherited.length,
      rejected: [],
      undecided: [],
      rejections: 0,
      again: null,
      discarded: false,
    });
  }

  #answer(state: AgentState, entry: EntryOf<"answered">): void {
    const { agent, purpose, view, observation, goesOn, answer, parent, root } = entry;
    const said = this.#said(answer.message);
    const answered = { agent, purpose, view, observation, goesOn, answer, said };
    this.#answered.set(answer.responseId, answered);
    this.#notes.push({ responseId: answer.responseId, agent: agent || null, purpose, parent, root });
    if (purpose === "policy") return;
    state.undecided.push(answered);
  }

  #accept(state: AgentState, { responseId, reward }: EntryOf<"accepted">): void {
    const answered = this.#known(responseId);
    this.#verdicts.set(responseId, "accepted");
    this.#kept.add(responseId);
    if (reward !== null) this.#rewards.set(responseId, reward);
    if (answered.purpose === "policy") return;
    state.path.push(answered);
    state.history.push(...answered.observation, answered.said);
    state.undecided = state.undecided.filter((one) => one !== answered);
    state.rejections = 0;
    state.again = null;
  }

  #reject(state: AgentState, { responseId, reason, counts }: EntryOf<"rejected">): void {
    const answered = this.#known(responseId);
    this.#verdicts.set(responseId, "rejected");
    state.rejected.push(Object.freeze({ answer: answered.answer, reason }));
    state.undecided = state.undecided.filter((one) => one !== answered);
    if (!counts) return;
    state.rejections += 1;
    state.again = answered;
  }

  #goBack(state: AgentState, { to, keep, reason }: EntryOf<"went_back">): void {
    const end = to === null ? 0 : state.path.findIndex(({ answer }) => answer.responseId === to) + 1;
    const left = state.path.slice(end);
    state.path = state.path.slice(0, end);
    state.history = [...state.start];
    for (const { observation, said } of state.path.slice(state.inherited)) {
      state.history.push(...observation, said);
    }
    state.rejections = 0;
    state.again = null;
    if (keep) return;
    for (const { answer } of left) {
      this.#drop(answer.responseId);
      state.rejected.push(Object.freeze({ answer, reason }));
    }
  }

  #drop(responseId: string): void {
    this.#kept.delete(responseId);
    this.#verdicts.set(responseId, "rejected");
  }

  #known(responseId: string): Answered {
    const answered = this.#answered.get(responseId);
    if (answered !== undefined) return answered;
    throw new AgentError("invalid_journal", `the journal decides on ${responseId}, which it does not have`);
  }
}

/** Fields that engines tell a model's reasoning in. */
const REASONING = ["reasoning", "reasoning_content", "reasoning_details"] as const;

/** The message without its reasoning; the same object where it has none. */
export function withoutReasoning(message: ChatMessage): ChatMessage {
  if (!REASONING.some((field) => field in message)) return message;
  const kept = Object.entries(message).filter(([field]) => !(REASONING as readonly string[]).includes(field));
  return frozenMessage(Object.fromEntries(kept) as unknown as ChatMessage);
}
