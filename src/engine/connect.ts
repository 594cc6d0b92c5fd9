// Finds out which engine stands behind a URL, and makes its adapter. Each server answers a question that the others
// do not know; what cannot be recognised is taken for an OpenAI-compatible server that tells ids as vLLM does.
import { CoppiceError } from "../errors.ts";
import { isRecord } from "../lineage/message.ts";
import { askJson } from "./ask-json.ts";
import { EngineHttp, type EngineHttpOptions } from "./engine-http.ts";
import type { Engine } from "./engine.ts";
import { llamaEngine } from "./llama.ts";
import { loadRendering } from "./local-rendering.ts";
import { sglangEngine } from "./sglang.ts";
import { vllmEngine } from "./vllm.ts";

export type EngineKind = Engine["kind"];

export const ENGINE_KINDS: readonly EngineKind[] = ["vllm", "sglang", "llama.cpp", "openai", "stand-in"];

export interface FoundEngine {
  readonly kind: EngineKind;
  /** Null where it does not say. */
  readonly version: string | null;
}

export interface ConnectOptions extends EngineHttpOptions {
  readonly kind?: EngineKind;
  /** How the server was started, where it does not tell by itself. */
  readonly logprobsMode?: "raw" | "processed";
  /** A folder with the model's tokenizer and chat template, to render with where the engine cannot. */
  readonly tokenizer?: string;
}

const FIND_WITHIN_MS = 5_000;

/** Null where nothing answers there. */
export async function findEngine(options: EngineHttpOptions): Promise<FoundEngine | null> {
  const http = new EngineHttp(options);
  try {
    const [version, props, info, models] = await Promise.all(
      ["/version", "/props", "/model_info", "/v1/models"].map((path) => answerTo(http, path)),
    );
    const all = [version, props, info, models];
    if (all.every((answer) => answer === "silent")) return null;
    if (isRecord(info) && "tokenizer_path" in info)
      return { kind: "sglang", version: await sglangVersion(http) };
    if (isRecord(props) && "default_generation_settings" in props) {
      return { kind: "llama.cpp", version: textOrNull(props["build_info"]) };
    }
    if (isRecord(version) && typeof version["version"] === "string") {
      const told = version["version"];
      return { kind: told.includes("stand-in") ? "stand-in" : "vllm", version: told };
    }
    return { kind: "openai", version: null };
  } finally {
    await http.close();
  }
}

/**
 * The adapter of the engine at the URL; one that cannot be reached now is taken for vLLM. Throws `invalid_request` for a
 * tokenizer that cannot be read, or that the engine has no use for.
 */
export async function connectEngine(options: ConnectOptions): Promise<Engine> {
  const kind = options.kind ?? (await findEngine(options))?.kind ?? "vllm";
  const mode = options.logprobsMode === undefined ? {} : { logprobsMode: options.logprobsMode };
  if (options.tokenizer !== undefined && (kind === "llama.cpp" || kind === "sglang")) {
    throw new CoppiceError("invalid_request", `a tokenizer is given, but ${kind} renders chats by itself`, {
      param: "tokenizer",
    });
  }
  switch (kind) {
    case "llama.cpp":
      return llamaEngine(options);
    case "sglang":
      return sglangEngine({ ...options, ...mode });
    case "vllm":
    case "stand-in":
    case "openai": {
      const { tokenizer } = options;
      const rendering = tokenizer === undefined ? {} : { rendering: await loadRendering(tokenizer) };
      return vllmEngine({ ...options, kind, ...mode, ...rendering });
    }
  }
}

/** `silent` where there is nobody, null where the answer is none. */
async function answerTo(
  http: EngineHttp,
  path: string,
): Promise<Readonly<Record<string, unknown>> | "silent" | null> {
  const signal = AbortSignal.timeout(FIND_WITHIN_MS);
  try {
    return await askJson(http, { path, body: null, signal });
  } catch (error) {
    if (signal.aborted) return "silent";
    if (!(error instanceof CoppiceError)) throw error;
    return error.code === "engine_unreachable" ? "silent" : null;
  }
}

async function sglangVersion(http: EngineHttp): Promise<string | null> {
  for (const path of ["/server_info", "/get_server_info"]) {
    const answer = await answerTo(http, path);
    if (isRecord(answer) && typeof answer["version"] === "string") return answer["version"];
  }
  return null;
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
