import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Message } from "../lineage/call.ts";
import { PromptMaker, type PromptParent } from "./prompt.ts";
import { commonPrefix, joinIds } from "./splice.ts";
import type { RenderAsk } from "./token-in.ts";
import {
  CHATML,
  FAMILIES,
  FamilyEngine,
  LLAMA3,
  REASONING,
  ROLE_MARKER,
  type TemplateFamily,
} from "./testing/templates.ts";

/** What a model did for one answer, beyond its words. */
interface Turn {
  readonly answer: Message;
  /** The words are sampled as other ids than their text tokenises to. */
  readonly drifts: boolean;
  readonly cutOff: boolean;
  /** What the agent says next: a tool's result for each call, or a user's words. */
  readonly next: string;
}

const words = fc
  .array(fc.constantFrom("a", "the", "世界", "😀", "x = 1", "é", "\n", ".", " ", "```", "{}", "Go", "1e5"), {
    minLength: 1,
    maxLength: 8,
  })
  .map((parts) => parts.join("").trim())
  .filter((text) => text !== "");

const call = fc.record({ name: fc.constantFrom("bash", "search"), cmd: words }).map(({ name, cmd }) => ({
  id: `call_${name}`,
  type: "function",
  function: { name, arguments: JSON.stringify({ cmd }) },
}));

function answers(withReasoning: boolean): fc.Arbitrary<Message> {
  return fc
    .record({
      content: fc.option(words, { nil: null }),
      calls: fc.array(call, { maxLength: 2 }),
      reasoning: withReasoning ? fc.option(words, { nil: null }) : fc.constant(null),
    })
    .map(({ content, calls, reasoning }): Message => ({
      role: "assistant",
      content: calls.length === 0 ? (content ?? "yes") : content,
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
      ...(reasoning === null ? {} : { reasoning_content: reasoning }),
    }));
}

function turns(family: TemplateFamily): fc.Arbitrary<Turn[]> {
  const turn = fc
    .record({
      answer: answers(family === REASONING),
      drifts: fc.boolean(),
      cutOff: fc.integer({ min: 0, max: 4 }).map((n) => n === 0),
      next: words,
    })
    // An answer that was cut off has no tool calls that anybody could read.
    .map((turn) => (turn.cutOff ? { ...turn, answer: { role: "assistant", content: turn.next } } : turn));
  return fc.array(turn, { minLength: 1, maxLength: 4 });
}

function following({ answer, next }: Turn): Message[] {
  const calls = (answer["tool_calls"] ?? []) as { readonly id: string }[];
  return calls.length === 0
    ? [{ role: "user", content: next }]
    : calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: next }));
}

/** The ids of an answer as it was sampled: those of its text, or the same text in single characters. */
function sample(engine: FamilyEngine, turn: Turn): number[] {
  const text = engine.family.sampled(turn.answer);
  const ids = turn.drifts
    ? engine.pieces(text).flatMap((piece) => engine.tokenize(piece))
    : engine.tokenize(text);
  return turn.cutOff ? ids : [...ids, ...engine.tokenize(engine.family.stop(turn.answer))];
}

/** A maker asks nothing but renderings. */
function makerOf(engine: FamilyEngine): PromptMaker {
  return new PromptMaker(engine.tokenIn as never);
}

const signal = new AbortController().signal;

/** Plays the conversation token-in and hands each prompt to `check`. */
async function play(
  engine: FamilyEngine,
  conversation: {
    readonly first: readonly Message[];
    readonly turns: readonly Turn[];
    readonly tools: unknown;
  },
  check: (prompt: Uint32Array, parent: PromptParent, messages: readonly Message[]) => void,
): Promise<void> {
  const maker = makerOf(engine);
  let messages = [...conversation.first];
  let parent: PromptParent | null = null;
  const body = { tools: conversation.tools };
  for (const turn of conversation.turns) {
    const prompt = await maker.make({ body, messages, contextDigest: "", parent, signal });
    if (prompt.kind === "no_join") throw new Error(prompt.why);
    if (parent !== null) check(prompt.ids, parent, messages);
    const generated = Uint32Array.from(sample(engine, turn));
    parent = {
      answerIndex: messages.length,
      sequence: joinIds(prompt.ids, generated),
      generatedLength: generated.length,
      cutOff: turn.cutOff,
    };
    messages = [...messages, turn.answer, ...following(turn)];
  }
  const last = await maker.make({ body, messages, contextDigest: "", parent, signal });
  if (last.kind === "no_join") throw new Error(last.why);
  check(last.ids, parent as PromptParent, messages);
}

const conversationOf = (
  family: TemplateFamily,
): fc.Arbitrary<{
  readonly first: readonly Message[];
  readonly turns: readonly Turn[];
  readonly tools: unknown;
}> =>
  fc.record({
    first: fc
      .record({ system: fc.option(words, { nil: null }), user: words })
      .map(({ system, user }) => [
        ...(system === null ? [] : [{ role: "system", content: system }]),
        { role: "user", content: user },
      ]),
    turns: turns(family),
    tools: fc.constantFrom(null, [{ type: "function", function: { name: "bash", parameters: {} } }]),
  });

describe.each(FAMILIES.map((family) => [family.name, family] as const))(
  "a prompt of the %s family",
  (_name, family) => {
    const engine = new FamilyEngine(family);

    it("starts with the parent's sequence, whatever was sampled", async () => {
      await fc.assert(
        fc.asyncProperty(conversationOf(family), async (conversation) => {
          await play(engine, conversation, (prompt, parent) => {
            expect(commonPrefix(prompt, parent.sequence)).toBe(parent.sequence.length);
            expect(prompt.length).toBeGreaterThan(parent.sequence.length);
          });
        }),
        { numRuns: 60 },
      );
    });

    it("is the engine's own rendering where nothing drifted", async () => {
      await fc.assert(
        fc.asyncProperty(conversationOf(family), async (conversation) => {
          const exact = conversation.turns.map((turn) => ({
            ...turn,
            drifts: false,
            answer: plain(turn.answer),
          }));
          await play(engine, { ...conversation, turns: exact }, (prompt, _parent, messages) => {
            const text = engine.text(messages, { generationPrompt: true, tools: conversation.tools });
            expect([...prompt]).toEqual(engine.tokenize(text));
          });
        }),
        { numRuns: 60 },
      );
    });
  },
);

/** Without the reasoning that a template would drop: that is no drift of tokens. */
function plain(answer: Message): Message {
  const { reasoning_content: _reasoning, ...rest } = answer;
  return rest;
}

describe("what a child carries", () => {
  const question: Message = { role: "user", content: "Why?" };
  const next: Message = { role: "user", content: "And?" };

  async function carried(
    family: TemplateFamily,
    answer: Message,
    options: {
      readonly generated?: readonly number[];
      readonly cutOff?: boolean;
      readonly follow?: Message;
    } = {},
  ): Promise<string> {
    const engine = new FamilyEngine(family);
    const generated = options.generated ?? sample(engine, { answer, drifts: false, cutOff: false, next: "" });
    const prompt = engine.tokenize(engine.text([question], { generationPrompt: true }));
    const sequence = Uint32Array.from([...prompt, ...generated]);
    const made = await makerOf(engine).make({
      body: {},
      messages: [question, answer, options.follow ?? next],
      contextDigest: "",
      parent: {
        answerIndex: 1,
        sequence,
        generatedLength: generated.length,
        cutOff: options.cutOff ?? false,
      },
      signal,
    });
    if (made.kind === "no_join") throw new Error(made.why);
    const wanted = made.ids.subarray(sequence.length);
    return pieces(engine, wanted);
  }

  /** Ids back to text, by looking each special up. */
  function pieces(engine: FamilyEngine, ids: Uint32Array): string {
    for (const text of CANDIDATES) {
      const tokens = engine.tokenize(text);
      if (tokens.length === ids.length && tokens.every((id, at) => id === ids[at])) return text;
    }
    return `none of the candidates: ${[...ids].join(" ")}`;
  }

  const CANDIDATES = [
    "\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n",
    "<|start_header_id|>user<|end_header_id|>\n\nAnd?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAnd?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    "\nAnd?<|assistant|>",
    "<|user|>\nAnd?<|assistant|>",
    "\nls<|assistant|>",
    "<|observation|>\nls<|assistant|>",
  ];

  const answer: Message = { role: "assistant", content: "Because." };

  it("has the turn-end token of ChatML neither twice nor not at all", async () => {
    const engine = new FamilyEngine(CHATML);
    expect(await carried(CHATML, answer)).toBe(CANDIDATES[0]);
    expect(await carried(CHATML, answer, { generated: engine.tokenize("Because"), cutOff: true })).toBe(
      CANDIDATES[1],
    );
  });

  it("has Llama 3's end of turn once", async () => {
    const engine = new FamilyEngine(LLAMA3);
    expect(await carried(LLAMA3, answer)).toBe(CANDIDATES[2]);
    expect(await carried(LLAMA3, answer, { generated: engine.tokenize("Because"), cutOff: true })).toBe(
      CANDIDATES[3],
    );
  });

  it("does not repeat a role marker that was sampled as the stop token (slime 514)", async () => {
    const engine = new FamilyEngine(ROLE_MARKER);
    expect(await carried(ROLE_MARKER, answer)).toBe(CANDIDATES[4]);
    expect(
      await carried(ROLE_MARKER, answer, { generated: engine.tokenize("\nBecause"), cutOff: true }),
    ).toBe(CANDIDATES[5]);
  });

  it("takes the marker of the role that really follows", async () => {
    const tools: Message = {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c1", type: "function", function: { name: "bash", arguments: '{"cmd":"ls"}' } }],
    };
    const follow: Message = { role: "tool", tool_call_id: "c1", content: "ls" };
    expect(await carried(ROLE_MARKER, tools, { follow })).toBe(CANDIDATES[6]);
    // The model expected the user's turn, and a tool's came.
    const engine = new FamilyEngine(ROLE_MARKER);
    const generated = engine.tokenize('\n<tool_call>bash\n{"cmd": "ls"}\n</tool_call><|user|>');
    expect(await carried(ROLE_MARKER, tools, { follow, generated })).toBe(CANDIDATES[7]);
  });

  it("is not taken for a stop token where the agent's words begin as the answer ends", async () => {
    const engine = new FamilyEngine(CHATML);
    // Contents one after the other, each tokenised by itself, and no mark between them.
    const bare = {
      render: async ({ messages }: RenderAsk) => ({
        ids: Uint32Array.from(messages.flatMap(({ content }) => engine.tokenize(String(content)))),
        sampling: null,
      }),
    };
    const generated = engine.tokenize("5");
    const sequence = Uint32Array.from([...engine.tokenize("Why?"), ...generated]);
    const made = await new PromptMaker(bare as never).make({
      body: {},
      messages: [question, { role: "assistant", content: "5" }, { role: "user", content: "5 more" }],
      contextDigest: "",
      parent: { answerIndex: 1, sequence, generatedLength: 1, cutOff: false },
      signal,
    });
    expect(made.kind === "prompt" && [...made.ids.subarray(sequence.length)]).toEqual(
      engine.tokenize("5 more"),
    );
  });

  it("is nothing where an unfinished answer is to be gone on with", async () => {
    const engine = new FamilyEngine(CHATML);
    const sequence = Uint32Array.from(engine.tokenize("anything"));
    const parent = { answerIndex: 1, sequence, generatedLength: 1, cutOff: true };
    const ask = {
      body: { continue_final_message: true },
      messages: [question, answer],
      contextDigest: "",
      signal,
    };
    const made = await makerOf(engine).make({ ...ask, parent });
    expect(made).toMatchObject({ kind: "prompt", ids: sequence, spliced: true });
    const finished = await makerOf(engine).make({ ...ask, parent: { ...parent, cutOff: false } });
    expect(finished).toMatchObject({ kind: "prompt", spliced: false });
  });

  it("is not guessed where an earlier turn is rendered otherwise than it was", async () => {
    const moving: TemplateFamily = {
      ...CHATML,
      name: "counts its messages",
      template: `{{ messages | length }} messages{%- for message in messages %}{{ '<|im_start|>' + message.content + '<|im_end|>' }}{%- endfor %}`,
    };
    const engine = new FamilyEngine(moving);
    const made = await makerOf(engine).make({
      body: {},
      messages: [question, answer, next],
      contextDigest: "",
      parent: { answerIndex: 1, sequence: Uint32Array.of(1, 2), generatedLength: 1, cutOff: false },
      signal,
    });
    expect(made).toMatchObject({
      kind: "no_join",
      why: expect.stringMatching(/^the renderings part at token 0 before the join at \d+$/) as string,
    });
  });
});
