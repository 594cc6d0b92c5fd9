// agent-lightning's events (schemas.py `Event`, 1.0): `model_request` with the request and the engine's whole answer, or
// trimmed by `?format=triplet` to the ids; `reward` with a value. One event a line, or the API's JSON array. Of several
// attempts the last counts, as in its own queries. It has no record of what the agent kept, so the outcome says `infer`.
import { z } from "zod";
import type { CallLine } from "../trace-format.ts";
import { callsOfAnswer } from "./choices.ts";
import { NotImportable, startLogged, type ImportOptions, type Logged, type LogLine } from "./logged.ts";

const eventSchema = z.object({
  event_type: z.string(),
  rollout_id: z.string().min(1),
  attempt_id: z.string().nullish(),
  data: z.record(z.string(), z.unknown()),
});

const tripletSchema = z.object({
  prompt_token_ids: z.array(z.number().int().min(0)).min(1),
  response_token_ids: z.array(z.number().int().min(0)),
  response_log_probs: z.array(z.number().nullable()).nullish(),
  server: z.object({ version: z.union([z.string(), z.number()]).nullish() }).nullish(),
});

interface Event {
  readonly line: number;
  readonly type: string;
  readonly rolloutId: string;
  readonly attempt: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export function readAgentLightningLog(lines: Iterable<LogLine>, options: ImportOptions): Logged {
  const { logged, take } = startLogged();
  const events = [...lines].flatMap(eventsOf);
  const lastAttempt = new Map(events.map(({ rolloutId, attempt }) => [rolloutId, attempt]));
  const counts = new Map<string, number>();
  const rewards = new Map<string, number | null>();
  for (const event of events) {
    const { rolloutId, attempt, type, line, data } = event;
    if (attempt !== lastAttempt.get(rolloutId)) continue;
    if (!rewards.has(rolloutId)) rewards.set(rolloutId, null);
    if (type === "reward") {
      take(rolloutId, line, () => {
        rewards.set(rolloutId, rewardOf(data));
        return [];
      });
    } else if (type === "model_request") {
      const index = (counts.get(rolloutId) ?? 0) + 1;
      counts.set(rolloutId, index);
      take(rolloutId, line, () => callsOf(event, `c${index}`, options));
    }
  }
  for (const [rolloutId, reward] of rewards) {
    logged.outcomes.push({ type: "outcome", rollout_id: rolloutId, reward, infer: true });
  }
  return logged;
}

function eventsOf({ line, value }: LogLine): Event[] {
  return (Array.isArray(value) ? value : [value]).map((one): Event => {
    const parsed = eventSchema.safeParse(one);
    // A line that is no event belongs to a rollout that nobody can tell.
    if (!parsed.success) return { line, type: "model_request", rolloutId: "unknown", attempt: "", data: {} };
    const { event_type: type, rollout_id: rolloutId, attempt_id: attempt, data } = parsed.data;
    return { line, type, rolloutId, attempt: attempt ?? "", data };
  });
}

function rewardOf(data: Event["data"]): number {
  const value = z.number().safeParse(data["value"]);
  if (!value.success)
    throw new NotImportable(`a reward's value is ${JSON.stringify(data["value"])}, not a number`);
  return value.data;
}

function callsOf({ rolloutId, data }: Event, fallbackId: string, options: ImportOptions): CallLine[] {
  if (data["status"] === "error") return [failedCall(rolloutId, fallbackId)];
  const triplet = tripletSchema.safeParse(data);
  if (triplet.success) {
    const { prompt_token_ids, response_token_ids, response_log_probs, server } = triplet.data;
    return [
      {
        type: "call",
        rollout_id: rolloutId,
        call_id: fallbackId,
        prompt_token_ids,
        generated_token_ids: response_token_ids,
        generated_logprobs: response_log_probs ?? [],
        weight_version: versionText(server?.version),
        logprobs_mode: options.logprobsMode ?? null,
      },
    ];
  }
  if (data["response"] === undefined) {
    throw new NotImportable(
      "neither an answer nor prompt_token_ids and response_token_ids; without ids there is no row",
    );
  }
  return callsOfAnswer({
    rolloutId,
    fallbackId,
    request: data["request"],
    response: data["response"],
    weightVersion: versionText(data["model_version"]),
    logprobsMode: options.logprobsMode ?? null,
  });
}

/** An error that the agent saw is complete: it stands in the record and in no row. */
function failedCall(rolloutId: string, callId: string): CallLine {
  return { type: "call", rollout_id: rolloutId, call_id: callId, status: "failed" };
}

function versionText(version: unknown): string | null {
  return typeof version === "number" || typeof version === "string" ? String(version) : null;
}
