// Usage: node token-in.mjs --gateway URL --engine URL
//
// Two things that only the token-in way of a real vLLM can show, through a gateway in front of it: weights that change
// in the middle of an answer stand in the row as two spans, and a conversation with tool calls comes back parsed and
// stays one tree. Prints one JSON object. The engine needs VLLM_SERVER_DEV_MODE=1 and a chat template that keeps tool
// calls (chatml-tools.jinja).
import { parseArgs } from "node:util";

const { values } = parseArgs({ options: { gateway: { type: "string" }, engine: { type: "string" } } });
const { gateway, engine } = values;

async function send(method, url, body) {
  const response = await fetch(url, {
    method,
    headers: { "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(300_000),
  });
  if (!response.ok)
    throw new Error(`${method} ${url}: ${response.status} ${(await response.text()).slice(0, 300)}`);
  return response;
}

async function ask(method, url, body) {
  const text = await (await send(method, url, body)).text();
  return text === "" ? null : JSON.parse(text);
}

/** Changes the engine's weight version once so many chunks have come, as a trainer does: pause, relabel, resume. */
async function changeWeights() {
  await ask("POST", `${engine}/update_weight_version`, { new_version: "step-7" });
  const body = {
    messages: [{ role: "user", content: "Count from one to a hundred." }],
    max_tokens: 120,
    ignore_eos: true,
    stream: true,
  };
  const response = await send("POST", `${gateway}/r/weights/v1/chat/completions`, body);
  const callId = response.headers.get("x-coppice-call-id");
  let chunks = 0;
  let changed = null;
  const decoder = new TextDecoder();
  for await (const piece of response.body) {
    chunks += (decoder.decode(piece, { stream: true }).match(/^data: /gm) ?? []).length;
    if (chunks < 20 || changed !== null) continue;
    changed = (async () => {
      await send("POST", `${engine}/pause?mode=keep`);
      await send("POST", `${engine}/update_weight_version`, { new_version: "step-8" });
      await send("POST", `${engine}/resume`);
    })();
  }
  await changed;
  await ask("POST", `${gateway}/rollouts/weights/outcome`, { reward: 1, final: callId });
  const call = await ask("GET", `${gateway}/calls/${callId}`);
  const rows = await (await send("GET", `${gateway}/rollouts/weights/rows`)).text();
  const row = JSON.parse(rows.trim().split("\n")[0]);
  return {
    call_weight_versions: call.weight_versions,
    row_weight_versions: row.weight_versions,
    tokens: call.generated_tokens,
  };
}

const TOOLS = [
  {
    type: "function",
    function: {
      name: "weather",
      description: "The weather of a city.",
      strict: true,
      parameters: {
        type: "object",
        properties: { city: { type: "string", enum: ["Paris", "Rome", "北京"] } },
        required: ["city"],
        additionalProperties: false,
      },
    },
  },
];

/** A model of this size calls no tool by itself, so the request forces it to; the turns between are free text. */
async function callTools() {
  const messages = [{ role: "user", content: "What is the weather in Paris? ☀️" }];
  const calls = [];
  const finishReasons = [];
  for (let turn = 0; turn < 6; turn++) {
    const forced = turn % 2 === 0;
    const answer = await ask("POST", `${gateway}/r/tools/v1/chat/completions`, {
      messages,
      tools: TOOLS,
      tool_choice: forced ? "required" : "auto",
      temperature: 1.3,
      seed: turn,
      max_tokens: forced ? 80 : 16,
    });
    const [{ message, finish_reason: reason }] = answer.choices;
    finishReasons.push(reason);
    const made = message.tool_calls ?? [];
    if (forced) calls.push(made.map(({ function: { name, arguments: given } }) => [name, JSON.parse(given)]));
    // As agents do: the arguments are parsed and written anew.
    const tool_calls = made.map((call) => ({
      ...call,
      function: { ...call.function, arguments: JSON.stringify(JSON.parse(call.function.arguments), null, 2) },
    }));
    messages.push(made.length === 0 ? message : { ...message, tool_calls });
    if (made.length === 0) messages.push({ role: "user", content: "Look again, 请再看一次。" });
    for (const { id } of made)
      messages.push({ role: "tool", tool_call_id: id, content: '{"sky": "clear", "°C": 21}' });
  }
  const { calls: recorded } = await ask("GET", `${gateway}/rollouts/tools`);
  return {
    calls: recorded.length,
    trees: recorded.filter((call) => call.parent_call_id === null).length,
    ways: Object.fromEntries(
      [...new Set(recorded.map(({ way }) => way))].map((way) => [
        way,
        recorded.filter((call) => call.way === way).length,
      ]),
    ),
    notes: recorded.flatMap(({ notes }) => notes),
    untrainable: recorded.filter(({ untrainable }) => untrainable !== null).length,
    tool_calls: calls,
    finish_reasons: finishReasons,
  };
}

process.stdout.write(`${JSON.stringify({ weights: await changeWeights(), tools: await callTools() })}\n`);
