// The agent's own record at the end of a rollout, and the reasons for which a rollout gives no rows. Where outcomes
// come from (HTTP, a trace) they are parsed there; here they are values.
import type { RolloutId } from "../lineage/call.ts";

/** A response id or call id; or a whole response item (an answer without an id), matched by its content. */
export type Reference = string | { readonly item: Readonly<Record<string, unknown>> };

export interface Outcome {
  readonly rolloutId: RolloutId;
  /** Null: the rollout is a group of its own, named like it. */
  readonly groupId: string | null;
  readonly generationIndex: number | null;
  /** Null until it is told; a rollout without a reward has rows without an advantage. */
  readonly reward: number | null;
  /** What the agent kept, in order; null where it does not say. */
  readonly accepted: readonly Reference[] | null;
  /** The response that the agent ended on, or the one that was scored. */
  readonly final: Reference | null;
  /** The agent says that it failed, in its own words. */
  readonly failed: string | null;
  /** With neither form: find the kept leaf strictly, or refuse. */
  readonly infer: boolean;
}

export const REFUSAL_REASONS = [
  "no_calls",
  "no_outcome",
  "nothing_accepted",
  "unknown_reference",
  "duplicate_reference",
  "ambiguous_reference",
  "witness_disagreement",
  "ambiguous",
  "capture_incomplete",
  "corrupt_record",
  "no_trainable_tokens",
  "deadline",
  "failed_by_agent",
] as const;

export type RefusalReason = (typeof REFUSAL_REASONS)[number];

/** Why a rollout gives no rows. Data, never thrown. */
export interface Refusal {
  readonly reason: RefusalReason;
  /** One sentence that names the index or call at fault. */
  readonly detail: string;
}

const REFERENCE_FAULTS: ReadonlySet<RefusalReason> = new Set([
  "unknown_reference",
  "duplicate_reference",
  "ambiguous_reference",
  "witness_disagreement",
]);

/** Refusals that lie in the outcome's references: the agent may correct them, so the rollout stays open. */
export function isReferenceFault(reason: RefusalReason): boolean {
  return REFERENCE_FAULTS.has(reason);
}
