// For agents that a framework runs: which answers came, by response id, so that the outcome can name those that stayed.
// Adapters note the answers here; the agent's code takes out what it threw away.
import { AgentError } from "./agent-error.ts";

export interface AnswerLog {
  /** Response ids that were not rejected, in the order in which they came. */
  readonly accepted: readonly string[];
  readonly rejected: readonly string[];
  /** The newest answer; null where there is none. */
  readonly last: string | null;
  note(responseId: string): void;
  /** Throws `foreign_answer` for an id that was not noted. */
  reject(responseId: string): void;
}

export function answerLog(): AnswerLog {
  const noted = new Map<string, "accepted" | "rejected">();
  const withVerdict = (verdict: string): string[] =>
    [...noted].filter(([, one]) => one === verdict).map(([id]) => id);
  return {
    get accepted() {
      return withVerdict("accepted");
    },
    get rejected() {
      return withVerdict("rejected");
    },
    get last() {
      return [...noted.keys()].at(-1) ?? null;
    },
    note: (id) => void noted.set(id, noted.get(id) ?? "accepted"),
    reject(id) {
      if (!noted.has(id)) throw new AgentError("foreign_answer", `no answer ${id} was noted`);
      noted.set(id, "rejected");
    },
  };
}

/** Headers by which the gateway knows whose call it is. */
export function callHeaders(rolloutId: string, agent?: string): Readonly<Record<string, string>> {
  return { "x-coppice-rollout": rolloutId, ...(agent === undefined ? {} : { "x-coppice-agent": agent }) };
}
