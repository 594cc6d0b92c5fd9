// What a ledger keeps and promises, as whole verbs; sqlite-ledger.ts is the embedded default. Every ledger passes
// testing/contract.ts. A ledger stores facts and counts; it does not find parents, select or build rows.
//
// Promises:
// - `settle` resolves when the call is on disk; settles that arrive together share one sync.
// - `admit` outlives the process (not the machine): no sync of its own.
// - One count per rollout attempt orders admissions and settles: 1, 2, 3 ... without gaps.
// - A call that a dead process admitted and never settled reads as `unknown`.
// - What a sealed or swept attempt receives later goes to its late bin and changes nothing else.
import type { CallClass, CallId, Call, CallSummary, RolloutId } from "../lineage/call.ts";
import type { PendingCall } from "../lineage/record-digest.ts";
import type { Outcome } from "../selection/outcome.ts";

export interface OpenRollout {
  readonly rolloutId: RolloutId;
  /** Null: the newest attempt if it is open, the first if there is none. A number above the newest begins a new one. */
  readonly attempt: number | null;
  readonly groupId: string | null;
  readonly groupSize: number | null;
  readonly generationIndex: number | null;
  /** Settings that win over what the agent sends. */
  readonly sampling: Readonly<Record<string, unknown>> | null;
  /** Milliseconds since the epoch at which the rollout is refused with `deadline`. */
  readonly deadlineAt: number | null;
  readonly tags: Readonly<Record<string, string>> | null;
  readonly openedAt: number;
}

export type RolloutState = "open" | "sealed" | "swept";

export interface CallCounts {
  readonly admitted: number;
  readonly committed: number;
  readonly failed: number;
  readonly aborted: number;
  readonly unknown: number;
  readonly late: number;
}

export interface Rollout {
  readonly rolloutId: RolloutId;
  readonly attempt: number;
  readonly state: RolloutState;
  readonly groupId: string | null;
  readonly groupSize: number | null;
  readonly generationIndex: number | null;
  readonly sampling: Readonly<Record<string, unknown>> | null;
  readonly deadlineAt: number | null;
  readonly tags: Readonly<Record<string, string>>;
  readonly openedAt: number;
  readonly sealedAt: number | null;
  /** As it was told; group and index are the rollout's, whoever told them. */
  readonly outcome: Outcome | null;
  /** The weight version that the ledger had when the rollout was opened. */
  readonly weightVersion: string | null;
  readonly counts: CallCounts;
}

export interface Admission {
  readonly rolloutId: RolloutId;
  readonly callId: CallId;
  readonly responseId: string | null;
  readonly admittedAt: number;
  readonly agent: string | null;
  readonly class: CallClass | null;
}

export interface Admitted {
  readonly callId: CallId;
  readonly attempt: number;
  readonly admittedOrder: number;
  /** The rollout is sealed or swept: the call is answered and its record goes to the late bin. */
  readonly late: boolean;
  readonly sampling: Readonly<Record<string, unknown>> | null;
  readonly deadlineAt: number | null;
  /** The weight version at the rollout's start. */
  readonly rolloutWeightVersion: string | null;
}

export interface Settled {
  readonly call: Call;
  /** The attempt was sealed, swept or deleted meanwhile: the record stands in the late bin. */
  readonly late: boolean;
}

export interface AttemptKey {
  readonly rolloutId: RolloutId;
  /** Null: the newest. */
  readonly attempt: number | null;
}

export interface RolloutFilter {
  readonly groupId?: string;
  readonly state?: RolloutState;
  readonly limit?: number;
}

export interface ClaimRequest {
  /** Minted by whoever asks; the same again tells the same claim. */
  readonly claimId: string;
  /** Who takes the group, for people. */
  readonly consumer: string;
  readonly claimedAt: number;
  readonly leaseMs: number;
}

/** - `expired`: the lease ran out before it was acknowledged; the group is given out again. */
export type ClaimState = "held" | "expired" | "acknowledged";

export interface ClaimMember {
  readonly rolloutId: RolloutId;
  readonly attempt: number;
}

export interface Claim {
  readonly claimId: string;
  /** A rollout without a group is a group of its own, named like it. */
  readonly groupId: string;
  readonly consumer: string;
  readonly state: ClaimState;
  readonly claimedAt: number;
  readonly expiresAt: number;
  readonly acknowledgedAt: number | null;
  /** What is delivered and, once acknowledged, swept; oldest opened first. */
  readonly members: readonly ClaimMember[];
}

/** What is too old to be kept: each a time before which it happened; null keeps all. */
export interface SweepPolicy {
  /** Rollouts that were opened before and have no outcome: swept. */
  readonly openBefore: number | null;
  /** Attempts that were published before, and their claims: forgotten, as if they had never been. */
  readonly publishedBefore: number | null;
  /** Records in late bins that are older: deleted. */
  readonly lateBefore: number | null;
  /** Count, and change nothing. */
  readonly dryRun: boolean;
}

export interface SweepReport {
  readonly openRollouts: number;
  readonly publishedAttempts: number;
  readonly lateCalls: number;
}

/** Carries words between the gateways of one ledger. Nothing may rest on a word: it can be lost. */
export interface LedgerWire {
  /** To every other gateway. Contract: must not throw. */
  send(text: string): void;
  /** Words of the others from now on; `onGap` where some may have been lost. Gives what stops it. Must not throw. */
  listen(told: (text: string) => void, onGap: () => void): Promise<() => void>;
}

export interface Ledger {
  /** Where it is, for people; without secrets. */
  readonly location: string;
  /** None where one process alone serves the ledger. */
  readonly wire?: LedgerWire;

  /**
   * Opens a rollout or says that it is open already with the same fields (the first words stand; a field that was
   * null may be filled in). Throws `conflict` where fields differ, where group and index belong to another rollout,
   * or where the attempt asked for is older than the newest; `conflict` too for a sealed or swept newest attempt
   * when no newer attempt is asked for.
   */
  open(request: OpenRollout): Promise<Rollout>;

  /**
   * Records that the engine is about to be asked. Opens a rollout that was never opened. In list order, all or none:
   * throws `conflict` for a call id that was used before.
   */
  admit(admissions: readonly Admission[]): Promise<readonly Admitted[]>;

  /**
   * Settles an admitted call: gives its place in the count and its digest, and resolves when that is on disk.
   * A call that was settled already (sealed while in flight) or whose attempt is gone goes to the late bin. Throws
   * `not_found` for a call that was never admitted there.
   */
  settle(call: PendingCall): Promise<Settled>;

  /**
   * Seals the newest attempt with its outcome. In-flight calls become `aborted` with detail `sealed`. The same outcome
   * again is fine; a missing reward, group or index may be added once; anything else is a `conflict` and the first
   * stands. Throws `not_found` for a rollout that nobody opened and `conflict` for a swept one, or where group and
   * index belong to another rollout.
   */
  seal(outcome: Outcome, sealedAt: number): Promise<Rollout>;

  /** Null where no such rollout or attempt was ever opened. A swept one is still told, without its calls. */
  rollout(key: AttemptKey): Promise<Rollout | null>;

  /** Newest attempts, oldest opened first. A rollout without a group is a group of its own, named like it. */
  rollouts(filter: RolloutFilter): Promise<readonly Rollout[]>;

  /**
   * Settled and admitted calls with a place in the count after `sinceOrder`, by their last place; without payload, late
   * ones left out. With `most` the first so many of them: the rest is asked for from the last one's place on, so that a
   * long rollout is read a piece at a time and commits pass between.
   */
  summaries(key: AttemptKey, sinceOrder: number, most?: number): Promise<readonly CallSummary[]>;

  /** All calls of the attempt in order of admission, late ones left out. */
  calls(key: AttemptKey): Promise<readonly Call[]>;

  call(callId: CallId): Promise<Call | null>;

  /**
   * The late bin of one attempt, by its own count of late admissions and settles, which goes on from where the attempt's
   * count stands.
   */
  lateCalls(key: AttemptKey): Promise<readonly Call[]>;

  /**
   * Prompt and generated ids of one call, joined from its ancestors. Null where it has none, and for a late call whose
   * ancestors were swept.
   */
  sequence(callId: CallId): Promise<Uint32Array | null>;

  /**
   * Deletes the attempt's calls, the late bin too; the rollout stays known as `swept`, with its counts and outcome. False
   * where it is not there or was swept before (what came late since then is deleted all the same).
   */
  sweep(key: AttemptKey): Promise<boolean>;

  /**
   * Gives a complete group (claim-rules.ts) that nobody holds to a consumer, the longest opened first, until the lease runs
   * out; null where there is none. Its rollouts that are past their deadline are sealed without an outcome.
   */
  claim(request: ClaimRequest): Promise<Claim | null>;

  /** The claim as it is at that time; null where it never was, or was forgotten. */
  claimOf(claimId: string, now: number): Promise<Claim | null>;

  /**
   * The consumer has the claim's rows safe: its members are swept and never given out again. The same claim again is
   * fine. Throws `not_found` for a claim that never was, `conflict` for one whose lease ran out.
   */
  acknowledge(claimId: string, now: number): Promise<Claim>;

  /** Deletes what is too old, and says how much that was, or would be. */
  sweepOld(policy: SweepPolicy): Promise<SweepReport>;

  setWeightVersion(version: string): Promise<void>;
  /** Null until the trainer has told one. */
  weightVersion(): Promise<string | null>;

  /** Waits for what is under way, then lets go of the file or the connections. */
  close(): Promise<void>;
}
