// What an engine can do for a gateway, found by asking it: a few short calls, each of which may fail by itself. This is
// what `coppice doctor` prints.
import { messageOf } from "../errors.ts";
import { connectEngine, findEngine, type ConnectOptions, type EngineKind } from "./connect.ts";
import type { Engine, EngineModel } from "./engine.ts";
import { checkTokenIn } from "./self-check.ts";

export interface Ability {
  readonly name: "text" | "token_in" | "tools" | "rescore" | "detokenize" | "weight_versions" | "cache_salt";
  readonly able: boolean;
  /** What it gives, or why it is missing. */
  readonly says: string;
}

export interface Examination {
  readonly url: string;
  /** Null where nothing answers there. */
  readonly kind: EngineKind | null;
  readonly version: string | null;
  readonly models: readonly EngineModel[];
  readonly abilities: readonly Ability[];
  /** Which way `--way auto` takes; null where no answer could train. */
  readonly way: "token-in" | "text" | null;
  /** How to start the engine so that it can more; null where nothing is missing, or nothing would help. */
  readonly startWith: string | null;
}

const EXAMINE_WITHIN_MS = 60_000;
const TOOLS = [
  {
    type: "function",
    function: { name: "look", description: "Looks.", parameters: { type: "object", properties: {} } },
  },
];

/** Contract: must not throw for anything that an engine does. Throws `invalid_request` for a URL that is none. */
export async function examineEngine(
  options: ConnectOptions & { readonly model?: string },
): Promise<Examination> {
  const found = await findEngine(options);
  const nothing = { models: [], abilities: [], way: null, startWith: null };
  if (found === null) return { url: options.url, kind: null, version: null, ...nothing };
  const kind = options.kind ?? found.kind;
  const engine = await connectEngine({ ...options, kind });
  try {
    const models = await engine.models().catch(() => []);
    const model = options.model ?? models[0]?.id;
    const abilities = model === undefined ? [] : await askAll(engine, model);
    const able = (name: Ability["name"]): boolean => abilities.some((one) => one.name === name && one.able);
    return {
      url: engine.url,
      kind,
      version: found.version,
      models,
      abilities,
      way: able("token_in") ? "token-in" : able("text") ? "text" : null,
      startWith: startWith(kind, able),
    };
  } finally {
    await engine.close();
  }
}

async function askAll(engine: Engine, model: string): Promise<readonly Ability[]> {
  const signal = AbortSignal.timeout(EXAMINE_WITHIN_MS);
  const ids: { told: Uint32Array | null } = { told: null };
  const text = await ability("text", () => askText(engine, model, signal));
  const tokenIn = await ability("token_in", async () => {
    if (engine.tokenIn === undefined)
      throw new Error(`no way is known to ask ${engine.kind} engines from ids`);
    const reply = await checkTokenIn(engine.tokenIn, model, signal);
    ids.told = reply.promptTokenIds;
    return "prompts begin with recorded ids: a conversation stays one tree";
  });
  const prompt = ids.told ?? Uint32Array.of(1, 2, 3);
  const others = await Promise.all([
    ability("tools", () => askTools(engine, model, signal)),
    ability("rescore", async () => {
      const told = await engine.rescore(prompt, signal);
      if (!told.subarray(1).every(Number.isFinite)) throw new Error("some prompt log-probs are missing");
      return "log-probs of a prompt: rows can be verified";
    }),
    ability("detokenize", async () => {
      if ((await engine.detokenize(prompt, signal)) === null)
        throw new Error("ids cannot be turned into text");
      return "ids are turned into text: drifts can be shown";
    }),
  ]);
  return [text, tokenIn, ...others, ...staticAbilities(engine, tokenIn.able)];
}

/** What an adapter knows of its engine without asking. */
function staticAbilities(engine: Engine, tokenIn: boolean): readonly Ability[] {
  const tells = tokenIn && engine.tokenIn?.tellsWeightVersions === true;
  const salt = engine.kind !== "llama.cpp" && engine.kind !== "openai";
  return [
    {
      name: "weight_versions",
      able: tells,
      says: tells
        ? "told with the tokens, as spans"
        : "not told: the trainer tells the gateway (PUT /weights), and where in an answer they change is not known",
    },
    {
      name: "cache_salt",
      able: salt,
      says: salt
        ? "a prefix cache is kept apart by weight version"
        : "not taken: reset the prefix cache with new weights",
    },
  ];
}

async function ability(name: Ability["name"], ask: () => Promise<string>): Promise<Ability> {
  try {
    return { name, able: true, says: await ask() };
  } catch (error) {
    return { name, able: false, says: messageOf(error) };
  }
}

async function askText(engine: Engine, model: string, signal: AbortSignal): Promise<string> {
  const messages = [{ role: "user", content: "Hello" }];
  const reply = await engine.chat({ body: { model, messages, max_tokens: 1 }, stream: false, signal });
  const [choice] = reply.choices;
  if (choice === undefined) throw new Error("the engine gave no choice");
  if (choice.untrainable !== null) throw new Error(choice.untrainable);
  return "ids and log-probs come with each answer";
}

async function askTools(engine: Engine, model: string, signal: AbortSignal): Promise<string> {
  const messages = [{ role: "user", content: "Hello" }];
  const body = { model, messages, max_tokens: 1, tools: TOOLS, tool_choice: "auto" };
  await engine.chat({ body, stream: false, signal });
  return "requests with tools are taken";
}

function startWith(kind: EngineKind, able: (name: Ability["name"]) => boolean): string | null {
  switch (kind) {
    case "vllm": {
      const flags = [
        ...(able("token_in") ? [] : ["--enable-scale-out"]),
        ...(able("tools") ? [] : ["--enable-auto-tool-choice --tool-call-parser PARSER"]),
      ];
      return flags.length === 0 ? null : `vllm serve MODEL ${flags.join(" ")}`;
    }
    case "sglang":
      return able("tools") ? null : "sglang serve MODEL --tool-call-parser PARSER --reasoning-parser PARSER";
    case "llama.cpp":
      return able("token_in") ? null : "llama-server -m MODEL --jinja --props";
    case "openai":
      return able("text") ? null : "another engine: this one does not tell token ids (return_token_ids)";
    case "stand-in":
      return null;
  }
}
