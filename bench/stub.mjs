// A stub engine in vLLM's shapes whose bodies are made beforehand: it costs as little as an HTTP server in Node can.
//   node bench/stub.mjs PORT
// "@@small@@" in the request: 1,024 prompt ids and 64 generated; "@@large@@": 32,768 and 512. Ids and log-probs are told
// only where the request asks with return_token_ids; "stream":true gives one event a token.
import http from "node:http";

let seed = 12345;
const random = () => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) / 2 ** 32;
const ids = (count) => Array.from({ length: count }, () => 100 + Math.floor(random() * 150_000));
const logprob = () => -Math.round(random() * 3e9) / 1e9;

function entry(id) {
  const token = ` t${id}`;
  return { token, logprob: logprob(), bytes: [...Buffer.from(token)], top_logprobs: [] };
}

function bodies(promptLength, generatedLength) {
  const prompt = ids(promptLength);
  const generated = ids(generatedLength);
  const content = generated.map(entry);
  const usage = {
    prompt_tokens: promptLength,
    total_tokens: promptLength + generatedLength,
    completion_tokens: generatedLength,
  };
  const head = { id: "chatcmpl-stub", object: "chat.completion", created: 1_760_000_000, model: "stub" };
  const message = { role: "assistant", content: content.map(({ token }) => token).join(""), refusal: null };
  const whole = (told) =>
    Buffer.from(
      JSON.stringify({
        ...head,
        choices: [
          {
            index: 0,
            message,
            logprobs: told ? { content } : null,
            finish_reason: "stop",
            stop_reason: null,
            token_ids: told ? generated : null,
          },
        ],
        usage,
        prompt_token_ids: told ? prompt : null,
      }),
    );
  const event = (json) => Buffer.from(`data: ${JSON.stringify(json)}\n\n`);
  const chunk = (choice, more = {}) =>
    event({
      ...head,
      object: "chat.completion.chunk",
      choices: [{ index: 0, finish_reason: null, ...choice }],
      ...more,
    });
  const stream = (told) => [
    chunk(
      { delta: { role: "assistant", content: "" }, logprobs: null },
      told ? { prompt_token_ids: prompt } : {},
    ),
    ...generated.map((id, at) =>
      chunk({
        delta: { content: content[at].token },
        logprobs: told ? { content: [content[at]] } : null,
        finish_reason: at === generatedLength - 1 ? "stop" : null,
        ...(told ? { token_ids: [id] } : {}),
      }),
    ),
    event({ ...head, object: "chat.completion.chunk", choices: [], usage }),
    Buffer.from("data: [DONE]\n\n"),
  ];
  const textChunk = (choice) =>
    event({
      id: "cmpl-stub",
      object: "text_completion",
      created: head.created,
      model: "stub",
      choices: [{ index: 0, finish_reason: null, ...choice }],
    });
  const textStream = [
    ...generated.map((id, at) =>
      textChunk({
        text: content[at].token,
        logprobs: {
          text_offset: [at],
          token_logprobs: [content[at].logprob],
          tokens: [content[at].token],
          top_logprobs: [{}],
        },
        finish_reason: at === generatedLength - 1 ? "stop" : null,
        token_ids: [id],
        prompt_token_ids: at === 0 ? prompt : null,
      }),
    ),
    event({ id: "cmpl-stub", object: "text_completion", choices: [], usage }),
    Buffer.from("data: [DONE]\n\n"),
  ];
  return {
    told: whole(true),
    plain: whole(false),
    toldStream: stream(true),
    plainStream: stream(false),
    textStream,
  };
}

const SHAPES = { small: bodies(1024, 64), large: bodies(32_768, 512) };
const JSON_TYPE = { "content-type": "application/json" };

const server = http.createServer((request, response) => {
  if (request.method === "GET") {
    response.writeHead(200, JSON_TYPE);
    response.end('{"object":"list","data":[{"id":"stub","object":"model","max_model_len":131072}]}');
    return;
  }
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const body = Buffer.concat(parts);
    const shape = body.includes("@@large@@") ? SHAPES.large : SHAPES.small;
    const told = body.includes("return_token_ids");
    if (body.includes('"stream":true') || body.includes('"stream": true')) {
      response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
      const text = request.url.startsWith("/v1/completions");
      for (const part of text ? shape.textStream : told ? shape.toldStream : shape.plainStream)
        response.write(part);
      response.end();
      return;
    }
    const answer = told ? shape.told : shape.plain;
    response.writeHead(200, { ...JSON_TYPE, "content-length": answer.length });
    response.end(answer);
  });
});
server.keepAliveTimeout = 75_000;
server.listen(Number(process.argv[2]), "127.0.0.1", () => process.stdout.write("ready\n"));
