// What asking token-in costs beside asking with messages, on the same gateway and engine.
//   node bench/token-in.mjs                  on the stand-in: the added latency of a call that goes on from another, at
//                                            prompts of about 1k and 8k tokens, as a ratio to the text way
//   node bench/token-in.mjs --engine URL     end to end on a vLLM: whole conversations, with what its prefix cache gave
// Run after a build. Ends with one JSON line.
import { parseArgs } from "node:util";
import { connectEngine } from "../dist/engine/connect.js";
import { startStandIn } from "../dist/engine/stand-in.js";
import { startGateway } from "../dist/gateway/server.js";
import { openSqliteLedger } from "../dist/ledger/sqlite-ledger.js";
import { interleave, machine, round, show, spread } from "./measure.mjs";

const { values } = parseArgs({
  options: { engine: { type: "string" }, conversations: { type: "string", default: "6" } },
});

async function serve(url, way) {
  const engine = await connectEngine({ url });
  const ledger = await openSqliteLedger(":memory:");
  const options = { engine, ledger, way, host: "127.0.0.1", port: 0, log: () => undefined };
  const gateway = await startGateway(options);
  return {
    url: gateway.url,
    async close() {
      await gateway.close();
      await ledger.close();
      await engine.close();
    },
  };
}

let serial = 0;

async function chat(gateway, rollout, messages, fields = {}) {
  const response = await fetch(`${gateway.url}/r/${rollout}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ messages, ...fields }),
  });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return response.json();
}

const words = (count) => Array.from({ length: count }, (_, at) => `t${1000 + at}`).join(" ");

/** A conversation whose next call is asked again and again: each a sibling that goes on from one parent. */
async function goingOn(gateway, promptTokens) {
  const rollout = `r${(serial += 1)}`;
  const messages = [{ role: "user", content: words(promptTokens) }];
  const first = await chat(gateway, rollout, messages, { max_tokens: 8 });
  messages.push(first.choices[0].message, { role: "user", content: "t5 t6 t7" });
  return () => chat(gateway, rollout, messages, { max_tokens: 8 });
}

async function onStandIn() {
  const results = {};
  for (const name of ["plain text", "parsed"]) {
    const options = { reasoningParser: name === "parsed" };
    const standIn = await startStandIn({ template: "chatml", ...options });
    const gateways = {
      text: await serve(standIn.url, "text"),
      "token-in": await serve(standIn.url, "token-in"),
    };
    for (const tokens of [1_000, 8_000]) {
      const subjects = {};
      for (const [way, gateway] of Object.entries(gateways)) subjects[way] = await goingOn(gateway, tokens);
      const measured = await interleave(subjects, { rounds: 9, minMs: 60 });
      for (const [way, figures] of Object.entries(measured))
        show(`${way}, ${tokens} tokens, ${name}`, figures);
      results[`${name}, ${tokens} tokens`] = {
        text_ms: round(measured.text.ms.median),
        token_in_ms: round(measured["token-in"].ms.median),
        ratio: round(measured["token-in"].ratio.median),
      };
    }
    for (const gateway of Object.values(gateways)) await gateway.close();
    await standIn.close();
  }
  return results;
}

async function prefixCache(url) {
  const text = await (await fetch(`${url}/metrics`)).text();
  const read = (name) =>
    Number(new RegExp(`^${name}(?:\\{[^}]*\\})? ([0-9.e+]+)$`, "m").exec(text)?.[1] ?? NaN);
  return { queries: read("vllm:prefix_cache_queries_total"), hits: read("vllm:prefix_cache_hits_total") };
}

/** A conversation long enough for prefix-cache blocks: 128 tokens each on a CPU. */
async function converse(gateway, number) {
  const rollout = `r${(serial += 1)}`;
  const messages = [
    { role: "system", content: `You are number ${number}. ${"Answer in few words. ".repeat(60)}` },
  ];
  for (let turn = 0; turn < 6; turn++) {
    messages.push({ role: "user", content: `Say something new about rain, number ${turn}.` });
    const fields = {
      temperature: 1.3,
      seed: 100 * number + turn,
      max_tokens: 32,
      min_tokens: 32,
      ignore_eos: true,
    };
    const answer = await chat(gateway, rollout, messages, fields);
    messages.push(answer.choices[0].message);
  }
}

async function onEngine(url) {
  const ways = ["text", "token-in"];
  const gateways = Object.fromEntries(
    await Promise.all(ways.map(async (way) => [way, await serve(url, way)])),
  );
  const measured = {
    text: { seconds: [], hits: 0, queries: 0 },
    "token-in": { seconds: [], hits: 0, queries: 0 },
  };
  for (const way of ways) await converse(gateways[way], 900 + ways.indexOf(way));
  for (let number = 0; number < Number(values.conversations); number++) {
    for (const way of ways) {
      const before = await prefixCache(url);
      const began = performance.now();
      // Numbers of their own, so that neither way finds the other's prefixes.
      await converse(gateways[way], 10 * number + ways.indexOf(way));
      measured[way].seconds.push((performance.now() - began) / 1000);
      const after = await prefixCache(url);
      measured[way].hits += after.hits - before.hits;
      measured[way].queries += after.queries - before.queries;
    }
  }
  for (const gateway of Object.values(gateways)) await gateway.close();
  const { text } = measured;
  const ratios = measured["token-in"].seconds.map((seconds, at) => seconds / text.seconds[at]);
  return {
    conversations: Number(values.conversations),
    text_seconds: round(spread(text.seconds).median),
    token_in_seconds: round(spread(measured["token-in"].seconds).median),
    ratio: round(spread(ratios).median),
    ratio_range: [round(spread(ratios).min), round(spread(ratios).max)],
    prefix_cache_hit_rate: Object.fromEntries(
      ways.map((way) => [way, round(measured[way].hits / measured[way].queries)]),
    ),
  };
}

const results =
  values.engine === undefined ? { stand_in: await onStandIn() } : { engine: await onEngine(values.engine) };
process.stdout.write(`${JSON.stringify({ bench: "token-in", ...results, machine: machine() })}\n`);
