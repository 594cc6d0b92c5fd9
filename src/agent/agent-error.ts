// The one error class of the agent's side. Misuse of a conversation and refusals by the gateway have a stable code;
// errors of the inference client (a timeout, a 429 after its retries) are the client's own and pass through unchanged.

export type AgentErrorCode =
  /** A model answer waits for `accept` or `reject`. */
  | "answer_undecided"
  /** The answer was accepted or rejected before. */
  | "already_decided"
  /** The answer was given by another conversation. */
  | "foreign_answer"
  /** An `ask` is under way. */
  | "ask_in_flight"
  /** More answers of one action were rejected than `maxRejections` allows. */
  | "too_many_rejections"
  /** The outcome was posted: nothing more can be asked, decided or posted. */
  | "finished"
  /** The final form names the last accepted response, and there is none. */
  | "nothing_accepted"
  /** The outcome was not posted yet. */
  | "not_finished"
  /** A fork has no outcome of its own. */
  | "not_the_first"
  /** What was done before cannot be done with this fork: it was discarded. */
  | "discarded"
  /** The view does not fit the engine's context, and the policy has no shorter one. */
  | "context_full"
  /** The journal cannot be read, or is of another conversation. */
  | "invalid_journal"
  /** What an agent left of its work cannot be read as a transcript. */
  | "invalid_transcript"
  /** An argument is not what it must be. */
  | "invalid_argument"
  /** A policy's view is empty, lost the system message, edits an answer or breaks a pair of tool call and result. */
  | "invalid_view"
  /** The answer cannot be read, or its stream ended without saying why it finished. */
  | "incomplete_answer"
  /** The gateway answered with an error; `status` and the message are the gateway's. */
  | "gateway_refused"
  | "gateway_unreachable";

export class AgentError extends Error {
  override readonly name = "AgentError";
  readonly code: AgentErrorCode;
  /** HTTP status of a `gateway_refused`; null for all others. */
  readonly status: number | null;
  /** What the gateway told for programs, e.g. `{reason: "unknown_reference", index: 3}`; null where it told nothing. */
  readonly detail: unknown;

  constructor(
    code: AgentErrorCode,
    message: string,
    options: { readonly cause?: unknown; readonly status?: number; readonly detail?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.status = options.status ?? null;
    this.detail = options.detail ?? null;
  }
}
