// The adapter for SGLang. Both ways ask for whole answers: its chat route tells ids only there. Written from its
// documentation and from exchanges recorded with its real HTTP front end, version 0.5.23 (testing/fixtures); no SGLang
// engine has run it.
import { CoppiceError } from "../errors.ts";
import { isRecord } from "../lineage/message.ts";
import { askJson } from "./ask-json.ts";
import { EngineHttp, type EngineHttpOptions } from "./engine-http.ts";
import type { Engine, EngineReply, EngineRequest } from "./engine.ts";
import { SglangTokenIn, weightVersionsOf } from "./sglang-token-in.ts";
import { readTokenIds } from "./told-tokens.ts";
import { readWholeAnswer } from "./vllm-answer.ts";
import { vllmEngine } from "./vllm.ts";
import { asError } from "./vllm-generate.ts";

const QUESTION_TIMEOUT_MS = 10_000;

export interface SglangOptions extends EngineHttpOptions {
  /** As the server tells them: before top-k, top-p and min-p, after the temperature. */
  readonly logprobsMode?: "raw" | "processed";
}

export function sglangEngine(options: SglangOptions): Engine {
  const http = new EngineHttp(options);
  const models = vllmEngine({ ...options, kind: "sglang" });
  return {
    kind: "sglang",
    url: http.url,
    logprobsMode: options.logprobsMode ?? "processed",
    tokenIn: new SglangTokenIn(http),
    chat: (request) => chat(http, request),
    models: (signal) => models.models(signal),
    detokenize: (ids, signal) => detokenize(http, ids, signal),
    rescore: (ids, signal) => rescore(http, ids, signal ?? new AbortController().signal),
    async close() {
      await Promise.all([models.close(), http.close()]);
    },
  };
}

async function chat(http: EngineHttp, { body, signal }: EngineRequest): Promise<EngineReply> {
  const { stream_options: _options, ...asked } = body;
  const sent = { ...asked, stream: false, logprobs: true, return_token_ids: true, return_meta_info: true };
  const limit = body["max_completion_tokens"] ?? body["max_tokens"];
  try {
    const json = await askJson(http, { path: "/v1/chat/completions", body: sent, signal });
    const { told, spans } = asVllmTells(json);
    const reply = readWholeAnswer(told, {
      body: "",
      keepIds: body["return_token_ids"] === true,
      maxTokens: typeof limit === "number" ? limit : null,
    });
    const choices = reply.choices.map((choice, place) => ({ ...choice, weightVersions: spans[place] ?? [] }));
    return { ...reply, choices };
  } catch (error) {
    if (!signal.aborted) throw error;
    const none = { promptTokenIds: null, choices: [], usage: null, json: null };
    return { ...none, ending: "aborted", error: asError(signal.reason) };
  }
}

/** The same answer with ids where vLLM has them, and without what was asked for beside them. */
function asVllmTells(json: Readonly<Record<string, unknown>>): {
  readonly told: Record<string, unknown>;
  readonly spans: readonly ReturnType<typeof weightVersionsOf>[];
} {
  const choices = (Array.isArray(json["choices"]) ? (json["choices"] as unknown[]) : []).filter(isRecord);
  const told = choices.map((choice) => {
    const { prompt_token_ids: _prompt, response_token_ids: ids, meta_info: _meta, ...rest } = choice;
    return { ...rest, token_ids: ids };
  });
  return {
    told: { ...json, choices: told, prompt_token_ids: choices[0]?.["prompt_token_ids"] },
    spans: choices.map(({ meta_info: meta }) => (isRecord(meta) ? weightVersionsOf(meta) : [])),
  };
}

async function detokenize(
  http: EngineHttp,
  ids: Uint32Array,
  signal: AbortSignal = AbortSignal.timeout(QUESTION_TIMEOUT_MS),
): Promise<string | null> {
  if (ids.length === 0) return "";
  try {
    const json = await askJson(http, { path: "/detokenize", body: { tokens: [...ids] }, signal });
    return typeof json["text"] === "string" ? json["text"] : null;
  } catch (error) {
    if (error instanceof CoppiceError || signal.aborted) return null;
    throw error;
  }
}

async function rescore(http: EngineHttp, ids: Uint32Array, signal: AbortSignal): Promise<Float32Array> {
  const told = new Float32Array(ids.length).fill(Number.NaN);
  if (ids.length < 2) return told;
  const body = {
    input_ids: [...ids],
    sampling_params: { max_new_tokens: 1, temperature: 0 },
    return_logprob: true,
    logprob_start_len: 0,
  };
  const json = await askJson(http, { path: "/generate", body, signal });
  const meta = isRecord(json["meta_info"]) ? json["meta_info"] : {};
  const triples = Array.isArray(meta["input_token_logprobs"])
    ? (meta["input_token_logprobs"] as unknown[])
    : [];
  const { ids: scored } = readTokenIds(
    triples.map((triple) => (Array.isArray(triple) ? (triple[1] as unknown) : null)),
    "input_token_logprobs",
  );
  if (scored === null || scored.length !== ids.length || scored.some((id, at) => id !== ids[at])) {
    throw new CoppiceError(
      "engine_error",
      `the engine at ${http.url} told ${triples.length} prompt log-probs for ${ids.length} ids, or those of others`,
    );
  }
  for (let at = 1; at < ids.length; at++) {
    const logprob: unknown = (triples[at] as readonly unknown[])[0];
    told[at] = typeof logprob === "number" ? logprob : Number.NaN;
  }
  return told;
}
