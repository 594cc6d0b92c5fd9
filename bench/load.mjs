// A bounded load of chat calls from one process. Sent by gateway.mjs as a child, so that its CPU is not the subject's.
//   node bench/load.mjs URL SHAPE CONCURRENCY CALLS IDS STREAM [DIALECT]   prints one JSON line
// A rollout gets 20 calls; its id is fresh for each.
import http from "node:http";

const [url, shape, concurrencyText, callsText, idsText, streamText, dialect] = process.argv.slice(2);
const concurrency = Number(concurrencyText);
const calls = Number(callsText);
const agent = new http.Agent({ keepAlive: true, maxSockets: concurrency });
const text = "lorem ipsum dolor sit amet consectetur ".repeat(shape === "large" ? 3360 : 105);
const messages = [
  { role: "system", content: `@@${shape}@@ you are an agent` },
  { role: "user", content: text },
];
const DIALECTS = {
  chat: { messages, max_tokens: 512 },
  responses: { input: messages, max_output_tokens: 512 },
  messages: { system: messages[0].content, messages: messages.slice(1), max_tokens: 512 },
  completions: { prompt: messages.map(({ content }) => content).join("\n"), max_tokens: 512 },
};
const body = Buffer.from(
  JSON.stringify({
    model: "stub",
    ...DIALECTS[dialect ?? "chat"],
    temperature: 1,
    ...(idsText === "1" ? { return_token_ids: true, logprobs: true } : {}),
    ...(streamText === "1" ? { stream: true } : {}),
  }),
);
const latencies = [];
let sent = 0;
let failed = 0;
let bytes = 0;

function ask() {
  const number = sent++;
  const rollout = `b${process.pid}-${Math.floor(number / 20)}`;
  const target = new URL(url.replace("{rollout}", rollout));
  return new Promise((resolve) => {
    const start = performance.now();
    const request = http.request(
      target,
      {
        method: "POST",
        agent,
        headers: { "content-type": "application/json", "content-length": body.length },
      },
      (answer) => {
        if (answer.statusCode !== 200) failed += 1;
        answer.on("data", (part) => (bytes += part.length));
        answer.on("end", () => {
          latencies.push(performance.now() - start);
          resolve();
        });
        answer.on("error", () => resolve((failed += 1)));
      },
    );
    request.on("error", () => resolve((failed += 1)));
    request.end(body);
  });
}

const start = performance.now();
await Promise.all(
  Array.from({ length: concurrency }, async () => {
    while (sent < calls) await ask();
  }),
);
const seconds = (performance.now() - start) / 1000;
latencies.sort((one, other) => one - other);
const at = (part) => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * part))];
process.stdout.write(
  `${JSON.stringify({ calls: sent, failed, per_second: sent / seconds, p50_ms: at(0.5), p99_ms: at(0.99), bytes: bytes / sent })}\n`,
);
agent.destroy();
