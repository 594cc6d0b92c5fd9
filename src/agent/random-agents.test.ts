// Random agents over the real gateway and the stand-in, both ways: whatever they do, each kept answer trains once, no
// other does, and the gateway's forest is the one that the conversation has in mind.
import fc from "fast-check";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { startUnderTest, type Json, type UnderTest } from "../gateway/testing/gateway-under-test.ts";
import {
  afterActions,
  anyOf,
  compose,
  Conversation,
  everyActions,
  memoryJournal,
  none,
  onDemand,
  recency,
  rolloutBaseUrl,
  scheduled,
  summarise,
  tokenBudget,
  type Journal,
  type Policy,
} from "./index.ts";

type Step =
  | { readonly do: "act"; readonly rejections: number; readonly words: number; readonly afresh: boolean }
  | { readonly do: "best"; readonly of: number; readonly words: number }
  | { readonly do: "back"; readonly by: number; readonly keep: boolean }
  | { readonly do: "fork"; readonly afresh: boolean; readonly acts: number; readonly discard: boolean }
  | { readonly do: "crash"; readonly undecided: boolean }
  | { readonly do: "compact" };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("act" as const),
      rejections: fc.integer({ min: 0, max: 2 }),
      words: fc.integer({ min: 1, max: 12 }),
      afresh: fc.boolean(),
    }),
  },
  fc.record({
    do: fc.constant("best" as const),
    of: fc.integer({ min: 2, max: 3 }),
    words: fc.integer({ min: 1, max: 6 }),
  }),
  fc.record({
    do: fc.constant("back" as const),
    by: fc.integer({ min: 1, max: 3 }),
    keep: fc.boolean(),
  }),
  fc.record({
    do: fc.constant("fork" as const),
    afresh: fc.boolean(),
    acts: fc.integer({ min: 1, max: 3 }),
    discard: fc.boolean(),
  }),
  fc.record({ do: fc.constant("crash" as const), undecided: fc.boolean() }),
  fc.record({ do: fc.constant("compact" as const) }),
);

const POLICIES: Readonly<Record<string, () => Policy>> = {
  none,
  everyActions: () => everyActions(2),
  recency: () => recency({ first: 1, last: 1 }),
  scheduledRecency: () => recency({ last: 1, when: anyOf(afterActions(3), onDemand()) }),
  tokenBudget: () => tokenBudget(60),
  summarise: () => summarise({ when: afterActions(2), instruction: "t5", preface: "t6 ", train: true }),
  summariseAside: () => summarise({ when: onDemand(), instruction: "t5", preface: "t6 ", keepLast: 1 }),
  composed: () => compose(scheduled(afterActions(4), recency(2)), tokenBudget(80)),
  own: () => (input) => (input.actionsSinceRewrite < 3 ? input.continued : [...input.head]),
};

let words = 0;
function observe(count: number): string {
  return Array.from({ length: count }, () => `t${100 + (words++ % 800)}`).join(" ");
}

class Player {
  readonly #under: UnderTest;
  readonly #id: string;
  readonly #policy: () => Policy;
  readonly #journal = memoryJournal();
  #forks = 0;
  chat: Conversation;

  constructor(under: UnderTest, id: string, policy: () => Policy) {
    this.#under = under;
    this.#id = id;
    this.#policy = policy;
    this.chat = this.#start(this.#journal);
  }

  #start(journal: Journal): Conversation {
    return new Conversation({
      client: new OpenAI({ baseURL: rolloutBaseUrl(this.#under.url, this.#id), apiKey: "k", maxRetries: 0 }),
      rolloutId: this.#id,
      model: "policy",
      system: "t1 t2",
      task: "t3",
      policy: this.#policy(),
      request: { max_tokens: 3, seed: 7 },
      journal,
    });
  }

  async play(step: Step): Promise<void> {
    switch (step.do) {
      case "act":
        return this.#act(this.chat, step);
      case "best":
        await this.chat.bestOf(step.of, (answers) => answers.length - 1, observe(step.words));
        return;
      case "back": {
        const { accepted } = this.chat;
        if (accepted.length > 0) this.chat.goBack(accepted.at(-1 - step.by) ?? null, { keep: step.keep });
        return;
      }
      case "fork":
        return this.#fork(step);
      case "compact":
        return this.chat.compact();
      case "crash": {
        const before = step.undecided ? await this.chat.ask(observe(2)) : null;
        this.chat = this.#start(memoryJournal(this.#journal.written));
        // The journal goes on where it was.
        this.#rejournal();
        const [after] = this.chat.undecided;
        expect(after?.responseId).toBe(before?.responseId);
        if (after !== undefined) this.chat.accept(after);
      }
    }
  }

  #rejournal(): void {
    const { written } = this.#journal;
    const lines = [...written];
    this.chat = this.#start({ lines, append: (line) => void written.push(line), close: () => undefined });
  }

  async #act(chat: Conversation, { rejections, words: count, afresh }: Step & { do: "act" }): Promise<void> {
    let answer = await chat.ask(observe(count));
    for (let again = 0; again < rejections; again++) {
      chat.reject(answer, "no good");
      answer = await chat.ask(afresh ? observe(count) : undefined);
    }
    chat.accept(answer, { reward: 0.5 });
  }

  async #fork({ afresh, acts, discard }: Step & { do: "fork" }): Promise<void> {
    const label = `sub-${++this.#forks}`;
    const task = observe(3);
    const sub = this.chat.fork(label, afresh ? { system: "t9", task, policy: everyActions(2) } : {});
    const other = this.chat.fork(`${label}-beside`, { task: observe(2) });
    const work = async (one: Conversation): Promise<void> => {
      for (let act = 0; act < acts; act++) {
        await this.#act(one, { do: "act", rejections: act % 2, words: 2, afresh: false });
      }
    };
    await Promise.all([work(sub), work(other)]);
    if (discard) other.discard("not needed");
  }
}

async function rowsOf(under: UnderTest, id: string): Promise<readonly Json[]> {
  const { text } = await under.send("GET", `/rollouts/${id}/rows?format=jsonl`);
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Json);
}

async function check(under: UnderTest, id: string, chat: Conversation): Promise<void> {
  const { json } = await under.send("GET", `/rollouts/${id}`);
  const calls = json["calls"] as readonly Json[];
  const responseOf = new Map(calls.map((call) => [call["call_id"], call["response_id"]]));
  const forest = calls.map((call) => [call["response_id"], responseOf.get(call["parent_call_id"]) ?? null]);
  const idea = new Map(chat.calls.map(({ responseId, parent }) => [responseId, parent]));
  expect(forest.length).toBe(idea.size);
  for (const [response, parent] of forest)
    expect([response, idea.get(response as string)]).toEqual([response, parent]);
  const count = (kind: string): number => chat.calls.filter(({ root }) => root === kind).length;
  const mainAsked = chat.calls.some(({ agent }) => agent === null);
  const trees = forest.filter(([, parent]) => parent === null).length;
  expect(trees).toBe(count("rewrite") + count("sub_agent") + count("asked_again") + 1 - (mainAsked ? 0 : 1));
  const trained = (await rowsOf(under, id)).flatMap((row) =>
    (row["spans"] as readonly Json[])
      .filter((span) => span["trained"] === true)
      .map((span) => span["call_id"]),
  );
  expect(trained.map((call) => String(responseOf.get(call))).sort()).toEqual([...chat.kept].sort());
  const accepted = chat.calls.filter(({ verdict }) => verdict === "accepted");
  expect(accepted.map(({ responseId }) => responseId).sort()).toEqual([...chat.kept].sort());
}

describe.each(["text", "token-in"] as const)("random agents, %s way", (way) => {
  test("every kept call trains once, no other does, and both sides see one forest", async () => {
    const under = await startUnderTest({ gateway: { way }, standIn: { template: "chatml" } });
    let run = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...Object.keys(POLICIES)),
        fc.array(step, { minLength: 1, maxLength: 10 }),
        async (policy, steps) => {
          const id = `${way}-${run++}`;
          const player = new Player(under, id, POLICIES[policy] as () => Policy);
          for (const one of steps) await player.play(one);
          if (player.chat.kept.length === 0) player.chat.accept(await player.chat.ask(observe(2)));
          await player.chat.finish({ reward: 1 });
          await check(under, id, player.chat);
        },
      ),
      { numRuns: Number(process.env["RANDOM_AGENTS"] ?? 12) },
    );
  });
});
