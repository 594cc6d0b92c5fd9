// What the page is sent: read-only JSON, snake_case, columns where there are many. Made by list-view.ts,
// calls-view.ts, kept-view.ts and call-view.ts from the ledger's records; read by `web/`, which imports these types
// and no code of this room. A call is named by its place in the rollout's count (`order`), which is short and unique.
import type { CallClass, CallStatus, Message, Way, WeightVersionSpan } from "../lineage/call.ts";
import type { RefusalReason } from "../selection/outcome.ts";

export type AlarmKind = "all_roots" | "drift" | "incomplete" | "untrainable" | "late";

/** Something that a person should look at; `calls` is how many calls it is about. */
export interface AlarmView {
  readonly kind: AlarmKind;
  readonly calls: number;
}

export interface RefusalView {
  readonly reason: RefusalReason;
  readonly detail: string;
}

/** What only the calls tell; made once for a sealed rollout. */
export interface MeasuredView {
  readonly trees: number;
  readonly leaves: number;
  readonly alarms: readonly AlarmView[];
  /** Null until the rollout is sealed, and for one too large to build unasked. */
  readonly rows: number | null;
  readonly trained_tokens: number | null;
  readonly refusal: RefusalView | null;
  /** Null until the group is complete. */
  readonly advantage: number | null;
}

export type OutcomeForm = "accepted" | "final" | "accepted_and_final" | "infer" | "failed" | "none";

export interface RolloutLine {
  readonly rollout_id: string;
  readonly attempt: number;
  readonly state: "open" | "sealed" | "swept";
  readonly group_id: string;
  readonly generation_index: number;
  readonly group_size: number | null;
  readonly opened_at: number;
  readonly sealed_at: number | null;
  readonly reward: number | null;
  readonly outcome: OutcomeForm | null;
  readonly admitted: number;
  readonly committed: number;
  readonly failed: number;
  readonly aborted: number;
  readonly unknown: number;
  readonly late: number;
  readonly tags: Readonly<Record<string, string>>;
  readonly measured: MeasuredView | null;
}

export interface RolloutListView {
  readonly weight_version: string | null;
  readonly rollouts: readonly RolloutLine[];
  /** Rollouts whose `measured` is still being made. */
  readonly pending: number;
}

/** Code of each call's root reason in `CallColumns.root`. */
const ROOT_WORDS = [
  "child",
  "first",
  "rewrite",
  "drift",
  "asked_again",
  "other_agent",
  "unknown",
  "no_place",
] as const;
export type RootCode = (typeof ROOT_WORDS)[number];
export const ROOT_CODES: readonly RootCode[] = ROOT_WORDS;

export const STATUS_CODES: readonly CallStatus[] = ["admitted", "committed", "aborted", "failed", "unknown"];

export const IN_FLIGHT = -1;
export const UNTIMED = -2;

/** All calls by admission, a column a field. Texts that repeat stand in `names` and are told by index, -1 for none. */
export interface CallColumns {
  readonly order: readonly number[];
  readonly call_id: readonly string[];
  readonly response_id: readonly (string | null)[];
  /** Order of the parent; 0 for none. */
  readonly parent: readonly number[];
  readonly root: readonly number[];
  readonly status: readonly number[];
  /** 0 while it is not settled. */
  readonly settled: readonly number[];
  readonly carried: readonly number[];
  readonly generated: readonly number[];
  readonly admitted_at: readonly number[];
  /** Milliseconds; `IN_FLIGHT` while it is not settled, `UNTIMED` where nobody told the time. */
  readonly took_ms: readonly number[];
  readonly finish: readonly number[];
  readonly agent: readonly number[];
  readonly class: readonly number[];
  readonly names: readonly string[];
  /** By order: why the call must not train. */
  readonly untrainable: Readonly<Record<string, string>>;
  /** By order: why it was aborted, failed or is unknown. */
  readonly detail: Readonly<Record<string, string>>;
  /** By order of a drifted or repeated root: the call that it should have followed or repeats. */
  readonly follows: Readonly<Record<string, string>>;
  /** Groups of calls (by order) whose sequences are the same; always all of them. */
  readonly twins: readonly (readonly number[])[];
}

export interface RolloutView {
  readonly line: RolloutLine;
  readonly calls: CallColumns;
  /** The highest place in the count that this view knows: what to ask for more from. */
  readonly until: number;
  /** There is more to ask for now. */
  readonly more: boolean;
}

/** One call's place in a row. */
export interface SpanView {
  readonly order: number;
  readonly start: number;
  readonly carried: number;
  readonly generated: number;
  readonly trained: boolean;
}

export interface RowView {
  readonly row_id: string;
  readonly segment_index: number;
  readonly segment_count: number;
  readonly tokens: number;
  readonly trained: number;
  readonly prompt_length: number;
  readonly spans: readonly SpanView[];
  readonly reward: number | null;
  readonly advantage: number | null;
  readonly finish_reason: string | null;
  readonly temperature: number | null;
  readonly logprobs_mode: string | null;
  readonly weight_versions: readonly {
    readonly version: string;
    readonly start: number;
    readonly end: number;
  }[];
  readonly trees_not_walked: number;
}

/** The check that each kept token trains once, as it was run over these rows. */
export interface TrainsOnceView {
  readonly holds: boolean;
  /** Generated tokens of kept calls, each looked for in every row. */
  readonly tokens: number;
  readonly calls: number;
  readonly rows: number;
  /** The first few faults, in words. */
  readonly faults: readonly string[];
}

export type KeptView =
  | { readonly kind: "open" }
  /** So large that its rows are built only where a person asks. */
  | { readonly kind: "unasked"; readonly calls: number }
  | { readonly kind: "refused"; readonly refusal: RefusalView }
  | {
      readonly kind: "rows";
      readonly rows: readonly RowView[];
      readonly rollout_trainable_tokens: number;
      readonly trains_once: TrainsOnceView;
    };

export interface RowTokensView {
  readonly row_id: string;
  readonly ids: readonly number[];
  readonly mask: readonly number[];
  readonly logprobs: readonly number[];
}

/** Where a root's prompt leaves the sequence that it is compared with. */
export interface PartingView {
  readonly other_call_id: string;
  readonly other_order: number;
  /** Tokens that both share from the start. */
  readonly index: number;
  readonly other_length: number;
  /** A few shared tokens before `index`, then what each goes on with. */
  readonly shared: readonly number[];
  readonly recorded: readonly number[];
  readonly sent: readonly number[];
}

/** What a root's request holds of the history before it, message by message. */
export interface RewriteView {
  readonly other_call_id: string;
  readonly other_order: number;
  readonly entries: readonly { readonly fate: "kept" | "dropped" | "added"; readonly message: Message }[];
}

export interface CallView {
  readonly call_id: string;
  readonly order: number;
  readonly settled: number | null;
  readonly response_id: string | null;
  readonly status: CallStatus;
  readonly status_detail: string | null;
  readonly parent_call_id: string | null;
  readonly named_parent: string | null;
  readonly named_parent_misfit: boolean;
  readonly root: RootCode;
  readonly root_follows: string | null;
  readonly carried: readonly number[];
  readonly generated: readonly number[];
  /** One a generated token; null where it is not a finite number. */
  readonly logprobs: readonly (number | null)[];
  readonly sequence_length: number;
  readonly address: string | null;
  readonly finish_reason: string | null;
  readonly untrainable: string | null;
  readonly weight_versions: readonly WeightVersionSpan[];
  readonly way: Way;
  readonly notes: readonly string[];
  readonly sampling: {
    readonly asked: Readonly<Record<string, unknown>>;
    readonly used: Readonly<Record<string, unknown>>;
  };
  readonly logprobs_mode: string | null;
  readonly agent: string | null;
  readonly class: CallClass | null;
  readonly admitted_at: number;
  readonly settled_at: number | null;
  readonly media_digests: readonly string[];
  readonly digest: string;
  /** Null where only tokens are kept. */
  readonly messages: readonly Message[] | null;
  /** Index in the request at which `messages` begin: the parent has those before. */
  readonly messages_from: number;
  readonly answer: Message | null;
  readonly twins: readonly string[];
  /** Children of the same parent; for a root, the roots that were asked with the same messages. */
  readonly siblings: readonly string[];
  readonly children: readonly string[];
  readonly parting: PartingView | null;
  readonly rewrite: RewriteView | null;
}

/** Texts by token id; an id whose text cannot be told is null. */
export interface TextsView {
  readonly texts: Readonly<Record<string, string | null>>;
}

export interface ExampleFacts {
  readonly trees: number;
  readonly leaves: readonly string[];
  readonly leaves_walked: readonly string[];
  readonly outcome: OutcomeForm;
  readonly rows: number;
  readonly row_tokens: readonly number[];
  readonly trained_tokens: number;
  readonly rejected: readonly string[];
  readonly reward: number | null;
  readonly advantage: number | null;
}

/** The worked example in both of its states: facts of real runs of this code over `vectors/seed-*.json`. */
export interface ExampleView {
  readonly off: { readonly rollout_id: string; readonly facts: ExampleFacts };
  readonly on: { readonly rollout_id: string; readonly facts: ExampleFacts };
}

/** What a page that was saved as one file carries in place of a server. */
export interface SavedView {
  readonly saved_at: number;
  readonly product: string;
  readonly rollout: RolloutView;
  readonly kept: KeptView;
  readonly rows: readonly RowTokensView[];
  readonly calls: readonly CallView[];
  readonly texts: Readonly<Record<string, string | null>>;
}
