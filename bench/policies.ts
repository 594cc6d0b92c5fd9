// Plays one task of eight actions under each policy through a gateway that runs, and prints for each the figures and the
// forest: calls, trees, rows, tokens sent, tokens from the engine's prefix cache, wall time. docs/policies is made from it.
//   node --import ./test/typescript/register.mjs bench/policies.ts GATEWAY [policy ...]
import OpenAI from "openai";
import {
  afterActions,
  compose,
  Conversation,
  everyActions,
  none,
  onDemand,
  overTokens,
  recency,
  rolloutBaseUrl,
  scheduled,
  summarise,
  tokenBudget,
  type Policy,
} from "../src/agent/index.ts";
import { readCalls } from "../src/cli/demo-report.ts";
import { drawForest } from "../src/cli/draw-forest.ts";

const ACTIONS = 8;

const POLICIES: Readonly<Record<string, () => Policy>> = {
  none,
  "every-actions": () => everyActions(3, { keep: "observation" }),
  recency: () => recency({ first: 1, last: 2, when: afterActions(3) }),
  "recency-sliding": () => recency(2),
  "token-budget": () => tokenBudget(200, { to: 120 }),
  summarise: () => summarise({ when: afterActions(3), request: { max_tokens: 16 }, train: true }),
  compose: () => compose(scheduled(overTokens(200), recency({ last: 2 })), tokenBudget(260)),
  "on-demand": () => recency({ last: 2, when: onDemand() }),
};

interface Usage {
  prompt: number;
  cached: number;
}

/** A client that adds up the usage that the engine tells. */
function counting(baseURL: string, usage: Usage): OpenAI {
  return new OpenAI({
    baseURL,
    apiKey: "none",
    timeout: 120_000,
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      const told = (await response.clone().json()) as {
        readonly usage?: {
          readonly prompt_tokens?: number;
          readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
        };
      };
      usage.prompt += told.usage?.prompt_tokens ?? 0;
      usage.cached += told.usage?.prompt_tokens_details?.cached_tokens ?? 0;
      return response;
    },
  });
}

async function play(gatewayUrl: string, name: string): Promise<void> {
  const usage: Usage = { prompt: 0, cached: 0 };
  const rolloutId = `${name}-${Date.now()}`;
  const chat = new Conversation({
    client: counting(rolloutBaseUrl(gatewayUrl, rolloutId), usage),
    rolloutId,
    model: "policy",
    system: "You tell a story, a sentence or two at a time.",
    task: "Begin a story about a lighthouse keeper.",
    policy: (POLICIES[name] as () => Policy)(),
    request: { max_tokens: 12, temperature: 1 },
  });
  const startedAt = performance.now();
  for (let action = 1; action <= ACTIONS; action++) {
    if (name === "on-demand" && action === 5) chat.compact();
    let answer = await chat.ask(
      action === 1 ? undefined : `Go on with part ${action}, and mention the sea, the lamp and the weather.`,
    );
    if (action === 6) {
      chat.reject(answer, "asked again");
      answer = await chat.ask();
    }
    chat.accept(answer);
  }
  const wallS = (performance.now() - startedAt) / 1000;
  await chat.finish({ reward: 1 });
  const signal = AbortSignal.timeout(30_000);
  const calls = await readCalls(gatewayUrl, rolloutId, signal);
  const answered = await fetch(`${gatewayUrl}/rollouts/${rolloutId}/rows?format=jsonl`, { signal });
  const rows = (await answered.text())
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { row_id: string; spans: { call_id: string; trained: boolean }[] })
    .map((row) => ({
      rowId: row.row_id.replace(/^.*_g0_/, ""),
      spans: row.spans.map((span) => ({ callId: span.call_id, trained: span.trained })),
      tokenIds: [],
      lossMask: [],
      advantage: null,
    }));
  const trees = calls.filter(({ parentCallId }) => parentCallId === null).length;
  const figures = [name, calls.length, trees, rows.length, usage.prompt, usage.cached, wallS.toFixed(1)];
  process.stdout.write(`| ${figures.join(" | ")} |\n`);
  const style = { color: false, unicode: true, width: 110 };
  const drawn = drawForest({ title: name, calls, rows, refusal: null }, style);
  process.stdout.write(`${drawn.join("\n")}\n\n`);
}

const [gatewayUrl = "", ...names] = process.argv.slice(2);
for (const name of names.length > 0 ? names : Object.keys(POLICIES)) await play(gatewayUrl, name);
