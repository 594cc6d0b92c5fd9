// What `coppice run` gives an agent: the variables that agents and clients read, a file for its outcome, and, for agents
// that read no variable, a folder with their configuration (docs/agents has the pages).
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rolloutBaseUrl } from "../agent/index.ts";

export type KnownAgent = "pi" | "codex";

export interface RunPlace {
  readonly gatewayUrl: string;
  readonly rolloutId: string;
  readonly key: string;
  readonly model: string;
}

export interface AgentFolder {
  readonly path: string;
  readonly agent: KnownAgent | null;
  readonly outcomeFile: string;
  /** The newest session file that the agent left; null where it has none. */
  transcript(): Promise<string | null>;
  remove(): Promise<void>;
}

export function agentVariables(place: RunPlace, folder: AgentFolder): Record<string, string> {
  const base = rolloutBaseUrl(place.gatewayUrl, place.rolloutId);
  return {
    OPENAI_BASE_URL: base,
    OPENAI_API_BASE: base,
    OPENAI_API_KEY: place.key,
    OPENAI_MODEL: place.model,
    // Anthropic's client adds the version itself.
    ANTHROPIC_BASE_URL: base.slice(0, -"/v1".length),
    ANTHROPIC_API_KEY: place.key,
    ANTHROPIC_MODEL: place.model,
    // Without these, agents post traces elsewhere, ask for titles, or change a line with every request.
    OPENAI_AGENTS_DISABLE_TRACING: "1",
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    CLAUDE_CODE_ATTRIBUTION_HEADER: "0",
    CLAUDE_CODE_GATEWAY_HINT_HEADERS: "1",
    COPPICE_GATEWAY: place.gatewayUrl,
    COPPICE_ROLLOUT: place.rolloutId,
    COPPICE_BASE_URL: base,
    COPPICE_KEY: place.key,
    COPPICE_OUTCOME: folder.outcomeFile,
    ...(folder.agent === "pi" ? { PI_CODING_AGENT_DIR: folder.path, PI_OFFLINE: "1" } : {}),
    ...(folder.agent === "codex" ? { CODEX_HOME: folder.path } : {}),
  };
}

export async function startFolder(agent: KnownAgent | null, place: RunPlace): Promise<AgentFolder> {
  const path = await mkdtemp(join(tmpdir(), "coppice-run-"));
  const outcomeFile = join(path, "outcome.json");
  await writeFile(outcomeFile, "");
  if (agent === "pi") await writeFile(join(path, "models.json"), piModels(place));
  if (agent === "codex") await writeFile(join(path, "config.toml"), codexConfig(place));
  const sessions = join(path, "sessions");
  await mkdir(sessions);
  return {
    path,
    agent,
    outcomeFile,
    transcript: () => (agent === null ? Promise.resolve(null) : newest(sessions)),
    remove: () => rm(path, { recursive: true, force: true }),
  };
}

function piModels(place: RunPlace): string {
  const model = {
    id: place.model,
    name: place.model,
    reasoning: false,
    input: ["text"],
    contextWindow: 32_768,
    maxTokens: 4096,
  };
  const provider = {
    baseUrl: rolloutBaseUrl(place.gatewayUrl, place.rolloutId),
    api: "openai-completions",
    apiKey: place.key,
    models: [model],
  };
  return JSON.stringify({ providers: { coppice: provider } }, null, 2);
}

function codexConfig(place: RunPlace): string {
  const base = rolloutBaseUrl(place.gatewayUrl, place.rolloutId);
  return [
    `model = ${JSON.stringify(place.model)}`,
    'model_provider = "coppice"',
    "",
    "[model_providers.coppice]",
    'name = "coppice"',
    `base_url = ${JSON.stringify(base)}`,
    'env_key = "COPPICE_KEY"',
    'wire_api = "responses"',
    "",
  ].join("\n");
}

async function newest(folder: string): Promise<string | null> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith(".jsonl"));
  let found: { readonly path: string; readonly at: number } | null = null;
  for (const file of files) {
    const path = join(file.parentPath, file.name);
    const { mtimeMs } = await stat(path);
    if (found === null || mtimeMs > found.at) found = { path, at: mtimeMs };
  }
  return found?.path ?? null;
}
