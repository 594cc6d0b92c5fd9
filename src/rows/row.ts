// What a trainer gets: rows and failures, as values. Arrays of one row have one length and are unshifted: position i
// of mask and log-probs belongs to token i. Writing them down is export's work.
import type { CallId, RolloutId } from "../lineage/call.ts";
import type { Refusal } from "../selection/outcome.ts";

/** One call's place in a row, in tokens from the row's start. */
export interface CallSpan {
  readonly callId: CallId;
  readonly start: number;
  /** Context tokens that the call added before what it generated. */
  readonly carried: number;
  readonly generated: number;
  /** False where the call is context in this row: rejected, aborted, untrainable, or trained in an earlier row. */
  readonly trained: boolean;
  readonly temperature: number | null;
}

/** Weights that generated tokens `start` to `end` (exclusive), in tokens from the row's start. */
export interface RowWeightSpan {
  readonly version: string;
  readonly start: number;
  readonly end: number;
}

export interface Row {
  /** `{group}_g{generation_index}_s{segment_index}` */
  readonly rowId: string;
  readonly rolloutId: RolloutId;
  readonly groupId: string;
  readonly generationIndex: number;
  /** Index of the row within its rollout. */
  readonly segmentIndex: number;
  readonly segmentCount: number;
  readonly tokenIds: Uint32Array;
  /** 1 where the token trains. */
  readonly lossMask: Uint8Array;
  /** Log-prob of token i as sampled; 0.0 wherever the mask is 0. */
  readonly logprobs: Float32Array;
  /** The root's carried tokens. */
  readonly promptLength: number;
  readonly callIds: readonly CallId[];
  readonly spans: readonly CallSpan[];
  readonly weightVersions: readonly RowWeightSpan[];
  readonly reward: number | null;
  /** One value for the rollout, on each of its rows undivided; null until its group is complete. */
  readonly advantage: number | null;
  readonly rowTrainableTokens: number;
  readonly rolloutTrainableTokens: number;
  readonly treesNotWalked: number;
  /** The leaf's. */
  readonly finishReason: string | null;
  /** Null where the row's calls differ or did not say. */
  readonly temperature: number | null;
  /** `raw`, `processed`, or null where the row's calls differ or nobody told. */
  readonly logprobsMode: string | null;
  /** Weight of each trained token for the loss aggregation that was asked for; null where none was. */
  readonly tokenWeight: number | null;
}

export interface Failure extends Refusal {
  readonly rolloutId: RolloutId;
  readonly groupId: string;
  readonly generationIndex: number;
}

/** One rollout's rows before its group is known, or its refusal. */
export type RolloutRows =
  | { readonly kind: "rows"; readonly rows: readonly Row[]; readonly reward: number | null }
  | { readonly kind: "failure"; readonly failure: Failure };
