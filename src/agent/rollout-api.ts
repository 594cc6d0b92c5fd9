// The few requests of the gateway's management API that an agent needs: open a rollout, post its outcome.
// Plain fetch, so that any agent can use them beside whatever client it talks to the model with.
import { z } from "zod";
import { AgentError } from "./agent-error.ts";

export interface GatewayOptions {
  /** The gateway's address, e.g. `http://127.0.0.1:8080`; a path after it is kept. */
  readonly gatewayUrl: string;
  /** Sent as `authorization: Bearer`. */
  readonly apiKey?: string;
  readonly signal?: AbortSignal;
  /** Milliseconds until the request is given up; 30,000 by default. */
  readonly timeoutMs?: number;
}

export interface OpenRolloutFields {
  readonly groupId?: string;
  /** Rollouts in the group; its rows are complete once so many are sealed. */
  readonly groupSize?: number;
  readonly generationIndex?: number;
  /** A number above the newest attempt begins a new one. */
  readonly attempt?: number;
  /** Sampling settings that win over what the agent sends. */
  readonly sampling?: Readonly<Record<string, unknown>>;
  /** Seconds until the rollout is refused with `deadline`. */
  readonly deadlineS?: number;
  readonly tags?: Readonly<Record<string, string>>;
}

/** A reference to an answer: its response id, its call id, or a whole response item. */
export type Reference = string | Readonly<Record<string, unknown>>;

export interface OutcomeFields {
  readonly reward?: number;
  readonly accepted?: readonly Reference[];
  readonly final?: Reference;
  /** The agent failed, in its own words. */
  readonly failed?: string;
  readonly infer?: boolean;
  readonly groupId?: string;
  readonly generationIndex?: number;
}

/** What the gateway answers, as it came (snake_case). */
export type GatewayAnswer = Readonly<Record<string, unknown>>;

/** The base URL for any OpenAI client of one rollout; with `agent`, the calls are a sub-agent's of that name. */
export function rolloutBaseUrl(gatewayUrl: string, rolloutId: string, agent?: string): string {
  const label = agent === undefined ? "" : `/a/${encodeURIComponent(agent)}`;
  return `${gatewayUrl.replace(/\/+$/, "")}/r/${encodeURIComponent(rolloutId)}${label}/v1`;
}

/** Opens a rollout, or says again what it was opened with. Throws `gateway_refused` or `gateway_unreachable`. */
export function openRollout(
  rolloutId: string,
  fields: OpenRolloutFields,
  options: GatewayOptions,
): Promise<GatewayAnswer> {
  return request("PUT", `/rollouts/${encodeURIComponent(rolloutId)}`, options, {
    group_id: fields.groupId,
    group_size: fields.groupSize,
    generation_index: fields.generationIndex,
    attempt: fields.attempt,
    sampling: fields.sampling,
    deadline_s: fields.deadlineS,
    tags: fields.tags,
  });
}

/**
 * Posts the outcome, which seals the rollout. Throws `gateway_refused` with status 422 where a reference fails: the
 * rollout then stays open and the outcome can be corrected.
 */
export function postOutcome(
  rolloutId: string,
  fields: OutcomeFields,
  options: GatewayOptions,
): Promise<GatewayAnswer> {
  return request("POST", `/rollouts/${encodeURIComponent(rolloutId)}/outcome`, options, {
    reward: fields.reward,
    accepted: fields.accepted,
    final: fields.final,
    failed: fields.failed,
    infer: fields.infer,
    group_id: fields.groupId,
    generation_index: fields.generationIndex,
  });
}

/** Tokens of a Messages request as a prompt; nothing is sampled and nothing recorded. */
export async function countTokens(
  rolloutId: string,
  body: Readonly<Record<string, unknown>>,
  options: GatewayOptions,
): Promise<number> {
  const path = `/r/${encodeURIComponent(rolloutId)}/v1/messages/count_tokens`;
  const { input_tokens: tokens } = await request("POST", path, options, body);
  if (typeof tokens === "number") return tokens;
  throw new AgentError("gateway_refused", `POST ${path}: the answer has no input_tokens`);
}

async function request(
  method: string,
  path: string,
  options: GatewayOptions,
  body: Readonly<Record<string, unknown>>,
): Promise<GatewayAnswer> {
  const url = `${options.gatewayUrl.replace(/\/+$/, "")}${path}`;
  const timeout = AbortSignal.timeout(options.timeoutMs ?? 30_000);
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (options.apiKey !== undefined) headers["authorization"] = `Bearer ${options.apiKey}`;
  let status: number;
  let text: string;
  try {
    const response = await fetch(url, {
      method,
      headers,
      body: JSON.stringify(body),
      signal: options.signal === undefined ? timeout : AbortSignal.any([timeout, options.signal]),
    });
    status = response.status;
    text = await response.text();
  } catch (cause) {
    if (options.signal?.aborted === true) throw cause;
    throw new AgentError("gateway_unreachable", `${method} ${url} had no answer: ${reasonOf(cause)}`, {
      cause,
    });
  }
  return readAnswer(`${method} ${path}`, status, text);
}

const answerSchema = z.record(z.string(), z.unknown());
const errorSchema = z.looseObject({
  error: z.looseObject({ message: z.string(), detail: z.unknown().optional() }),
});

function readAnswer(request: string, status: number, text: string): GatewayAnswer {
  const json = parseJson(text);
  if (status >= 200 && status < 300) {
    const answer = answerSchema.safeParse(json);
    if (answer.success) return answer.data;
    throw new AgentError(
      "gateway_refused",
      `${request}: the answer is no JSON object: ${text.slice(0, 200)}`,
      {
        status,
      },
    );
  }
  const refusal = errorSchema.safeParse(json);
  const why = refusal.success ? refusal.data.error.message : text.slice(0, 500).trim();
  throw new AgentError("gateway_refused", `${request} was refused (${status}): ${why}`, {
    status,
    detail: refusal.success ? refusal.data.error.detail : null,
  });
}

/** Undefined where the text is no JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** fetch says no more than "fetch failed"; what happened stands in its cause. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message || cause.name : String(cause);
}
