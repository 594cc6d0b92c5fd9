// Usage: node conversations.mjs --gateway URL --conversations N --turns N [--temperature T] [--prefix NAME]
//          [--rerender ENGINE_URL] [--outcome]
//
// Plays N conversations through a gateway, at a temperature at which a model writes what tokenizers would write
// otherwise, with emoji and Chinese in what it is asked, and prints one JSON object: how many trees, drifts and ways
// the gateway recorded. The agent sends plain messages and names no parent. With --rerender the same conversations are
// held against what the text way of a llama.cpp server would have asked: each history rendered and tokenised anew. With
// --outcome each rollout ends with its last answer as the final one, so that it has a row.
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    gateway: { type: "string" },
    conversations: { type: "string", default: "40" },
    turns: { type: "string", default: "6" },
    temperature: { type: "string", default: "1.3" },
    "max-tokens": { type: "string", default: "24" },
    prefix: { type: "string", default: "chat" },
    rerender: { type: "string" },
    outcome: { type: "boolean" },
    concurrency: { type: "string", default: "8" },
  },
});
const gateway = values.gateway;
const turns = Number(values.turns);

const TOPICS = [
  "Tell me about rain 🌧️ in one line.",
  "写一句关于茶的话。",
  "What is 12 × 13? Show it with emoji 🧮.",
  "請用「世界」造句，and then translate it.",
  "Write a haiku about 🐈 and naïve café owners.",
  "Say something odd in code: `print('😀')`.",
];
const FOLLOW_UPS = [
  "Go on 🎉",
  "再来一个。",
  "Why? Use ≤ 10 words.",
  "Now with more 🚀🚀 and a number like 3.14159.",
  "Repeat that in another language: 日本語？",
];

async function ask(method, url, body) {
  const response = await fetch(url, {
    method,
    headers: { "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(300_000),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${text.slice(0, 300)}`);
  return JSON.parse(text);
}

async function converse(number) {
  const rollout = `${values.prefix}-${number}`;
  const messages = [];
  let final = null;
  if (number % 3 === 0) messages.push({ role: "system", content: "You answer shortly. 简短回答。" });
  for (let turn = 0; turn < turns; turn++) {
    const content =
      turn === 0 ? TOPICS[number % TOPICS.length] : FOLLOW_UPS[(number + turn) % FOLLOW_UPS.length];
    messages.push({ role: "user", content });
    const answer = await ask("POST", `${gateway}/r/${rollout}/v1/chat/completions`, {
      messages,
      temperature: Number(values.temperature),
      // Some answers come to their own end, some are cut off.
      max_tokens: turn % 3 === 2 ? 6 : Number(values["max-tokens"]),
      seed: 1000 * number + turn,
    });
    messages.push(answer.choices[0].message);
    final = answer.id;
  }
  if (values.outcome) await ask("POST", `${gateway}/rollouts/${rollout}/outcome`, { reward: 1, final });
  return { rollout, messages };
}

async function inTurns(count, work) {
  const results = [];
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const number = next++;
      results[number] = await work(number);
    }
  };
  await Promise.all(Array.from({ length: Number(values.concurrency) }, worker));
  return results;
}

/** Roots of the text way: prompts that do not start with what the call before had recorded. */
async function rerenderedRoots({ messages, calls }) {
  let roots = 0;
  let previous = null;
  let tokens = 0;
  let row = 0;
  for (const [turn, call] of calls.entries()) {
    const asked = messages.slice(0, messages.length - 2 * (calls.length - turn) + 1);
    const { prompt } = await ask("POST", `${values.rerender}/apply-template`, { messages: asked });
    const rendered = await ask("POST", `${values.rerender}/tokenize`, {
      content: prompt,
      add_special: true,
      parse_special: true,
    });
    const ids = rendered.tokens;
    const goesOn = previous !== null && previous.every((id, at) => ids[at] === id);
    if (!goesOn) {
      roots += 1;
      tokens += row;
    }
    previous = [...ids, ...call.generated_token_ids];
    row = previous.length;
  }
  return { roots, tokens: tokens + row };
}

const began = performance.now();
const played = await inTurns(Number(values.conversations), converse);
const seconds = (performance.now() - began) / 1000;

const sum = {
  conversations: played.length,
  turns,
  temperature: Number(values.temperature),
  calls: 0,
  trees: 0,
  one_tree: 0,
  drifts: 0,
  ways: {},
  misfits: 0,
  untrainable: 0,
  generated_tokens: 0,
  row_tokens: 0,
  non_ascii_answers: 0,
  notes: {},
  unchanged_prefixes: 0,
};
const text = { trees: 0, one_tree: 0, row_tokens: 0 };
for (const { rollout, messages } of played) {
  const { calls: listed, drifts } = await ask("GET", `${gateway}/rollouts/${rollout}`);
  const calls = [];
  for (const { call_id: id } of listed) calls.push(await ask("GET", `${gateway}/calls/${id}`));
  const roots = calls.filter((call) => call.parent_call_id === null).length;
  sum.calls += calls.length;
  sum.trees += roots;
  sum.one_tree += roots === 1 ? 1 : 0;
  sum.drifts += drifts;
  for (const [at, call] of calls.entries()) {
    sum.ways[call.way] = (sum.ways[call.way] ?? 0) + 1;
    sum.misfits += call.named_parent_misfit ? 1 : 0;
    sum.untrainable += call.untrainable === null ? 0 : 1;
    sum.generated_tokens += call.generated_token_ids.length;
    sum.non_ascii_answers += /\P{ASCII}/u.test(call.answer?.content ?? "") ? 1 : 0;
    for (const note of call.notes) {
      const kind = note.slice(0, 60);
      sum.notes[kind] = (sum.notes[kind] ?? 0) + 1;
    }
    const before = calls[at - 1];
    // Read off the tokens themselves, not off what the gateway says of them.
    const expected = before === undefined ? [] : [...before.prompt_token_ids, ...before.generated_token_ids];
    if (before !== undefined && expected.every((id, index) => call.prompt_token_ids[index] === id)) {
      sum.unchanged_prefixes += 1;
    }
    const isLeaf = !calls.some((other) => other.parent_call_id === call.call_id);
    if (isLeaf) sum.row_tokens += call.sequence_length;
  }
  if (values.rerender !== undefined) {
    const rerendered = await rerenderedRoots({ messages, calls });
    text.trees += rerendered.roots;
    text.one_tree += rerendered.roots === 1 ? 1 : 0;
    text.row_tokens += rerendered.tokens;
  }
}
process.stdout.write(
  `${JSON.stringify({ ...sum, seconds: Math.round(seconds * 10) / 10, ...(values.rerender === undefined ? {} : { text }) })}\n`,
);
