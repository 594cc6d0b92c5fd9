// Records fixtures/vllm-0.32.0.json from a running server: node record-vllm.mjs http://127.0.0.1:PORT
// The server is the one that interop/engines/vllm-serve.sh starts. Ids, times and the set of tokens differ from run to
// run and machine to machine; the shapes are what the tests hold on to.
import { writeFileSync } from "node:fs";

const base = process.argv[2];
if (base === undefined) throw new Error("usage: node record-vllm.mjs http://127.0.0.1:PORT");
const file = new URL("fixtures/vllm-0.32.0.json", import.meta.url);
const recorded = [];

async function record(name, method, path, body, headers = {}) {
  const sent = typeof body === "string" ? body : JSON.stringify(body);
  const response = await fetch(base + path, {
    method,
    headers: { "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: sent }),
  });
  const text = Buffer.from(await response.arrayBuffer()).toString("utf8");
  recorded.push({
    name,
    request: { method, path, body: body ?? null },
    response: {
      status: response.status,
      content_type: response.headers.get("content-type"),
      // Where the model lies is nobody's business.
      body: text.replaceAll(/"root":"[^"]*"/g, '"root":"/models/smollm2"'),
    },
  });
}

const chat = "/v1/chat/completions";
const text = "/v1/completions";
const model = "smollm2";
const user = (content) => [{ role: "user", content }];
const ask = {
  model,
  messages: user("What is the capital of France?"),
  temperature: 0,
  max_tokens: 12,
  seed: 1,
};
const capture = { logprobs: true, return_token_ids: true };
const bash = {
  name: "bash",
  description: "run a command",
  parameters: { type: "object", properties: { cmd: { type: "string" } }, required: ["cmd"] },
};
const tools = [{ type: "function", function: bash }];
const usage = { stream_options: { include_usage: true } };

await record("models", "GET", "/v1/models");
await record("version", "GET", "/version");
await record("health", "GET", "/health");
await record("weight_info", "GET", "/weight_info");
await record("update_weight_version", "POST", "/update_weight_version", { new_version: "step-7" });
await record("weight_info_after", "GET", "/weight_info");
await record("update_weight_version_bad", "POST", "/update_weight_version", { nope: 1 });
const rendered = { model, messages: user("hi"), add_generation_prompt: true, return_token_strs: true };
await record("tokenize_messages", "POST", "/tokenize", rendered);
await record("tokenize_prompt", "POST", "/tokenize", { model, prompt: "Hello", add_special_tokens: false });
await record("detokenize", "POST", "/detokenize", { model, tokens: [504, 3575, 282, 4649] });
for (const kind of ["whole", "stream"]) {
  const stream = kind === "stream" ? { stream: true } : {};
  const withUsage = kind === "stream" ? { ...stream, ...usage } : {};
  const counted = { ...usage.stream_options, continuous_usage_stats: true };
  const continuous = kind === "stream" ? { ...stream, stream_options: counted } : {};
  const named = { type: "function", function: { name: "bash" } };
  const say = (name, fields) => record(`chat_${name}_${kind}`, "POST", chat, { ...ask, ...fields });
  await say("plain", stream);
  await say("capture", { ...capture, ...withUsage });
  await say("top2_length", { ...capture, top_logprobs: 2, max_tokens: 3, ...stream });
  await say("logprobs_only", { logprobs: true, max_tokens: 2, ...stream });
  await say("ids_only", { return_token_ids: true, max_tokens: 2, ...stream });
  await say("n2", { ...capture, temperature: 1, n: 2, max_tokens: 3, ...withUsage });
  await say("stop", { ...capture, stop: ["France is"], ...stream });
  await say("multibyte", {
    ...capture,
    messages: user("Repeat exactly: 世界 😀"),
    max_tokens: 16,
    ...stream,
  });
  await say("required_tool", { ...capture, tools, tool_choice: "required", max_tokens: 60, ...stream });
  await say("named_tool_cut", { ...capture, tools, tool_choice: named, max_tokens: 6, ...stream });
  await say("continuous", { ...capture, max_tokens: 1, ...continuous });
  const write = (name, fields) =>
    record(`completions_${name}_${kind}`, "POST", text, { model, temperature: 0, ...fields, ...stream });
  await write("ids", { prompt: [1, 4093, 198], max_tokens: 3, logprobs: 0, return_token_ids: true });
  await write("text_plain", { prompt: "The capital", max_tokens: 3 });
  await write("logprobs2", { prompt: "The capital", max_tokens: 2, logprobs: 2, ...withUsage });
}
const score = { model, prompt: [1, 4093, 198, 504], temperature: 0, prompt_logprobs: 0 };
await record("rescore", "POST", text, { ...score, max_tokens: 1 });
await record("rescore_no_max", "POST", text, { ...score, max_tokens: 0 });
await record("error_bad_model", "POST", chat, { ...ask, model: "nope" });
await record("error_bad_model_stream", "POST", chat, { ...ask, model: "nope", stream: true });
await record("error_too_long", "POST", text, { model, prompt: Array(2100).fill(504), max_tokens: 1 });
await record("error_bad_json", "POST", chat, '{"model":');
await record("error_bad_field", "POST", chat, { ...ask, max_tokens: "x" });
await record("error_max_tokens_zero", "POST", chat, { ...ask, max_tokens: 0 });
await record("error_no_messages", "POST", chat, { model });
await record("error_logprobs_50", "POST", chat, { ...ask, logprobs: true, top_logprobs: 50 });
await record("not_found", "GET", "/nope");
await record("request_id", "POST", chat, { ...ask, max_tokens: 1 }, { "x-request-id": "abc123" });
await record("model_omitted", "POST", chat, { ...ask, model: undefined, max_tokens: 1 });

writeFileSync(file, `${JSON.stringify(recorded, null, 1)}\n`);
