// Records that could not be written: the mark that an answer is missing must not be lost, so it is tried again until the
// ledger takes it. Until then the ledger has the call as admitted, which reads as `unknown` once this process is gone;
// only sealing could turn it into something harmless, and sealing waits for `flush`.
import { CoppiceError, messageOf } from "../errors.ts";
import type { RolloutId } from "../lineage/call.ts";
import type { PendingCall } from "../lineage/record-digest.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Log } from "./log.ts";

const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 30_000;

export class UnrecordedMarks {
  readonly #ledger: Ledger;
  readonly #log: Log;
  readonly #marks = new Set<PendingCall>();
  /** Being written: a second try beside the first would leave a copy in the late bin. */
  readonly #writing = new Map<PendingCall, Promise<unknown>>();
  #timer: NodeJS.Timeout | null = null;
  #retryMs = FIRST_RETRY_MS;

  constructor(ledger: Ledger, log: Log) {
    this.#ledger = ledger;
    this.#log = log;
  }

  /** Marks that are not on disk yet. */
  get size(): number {
    return this.#marks.size;
  }

  add(mark: PendingCall): void {
    this.#marks.add(mark);
    this.#schedule();
  }

  /** Writes the rollout's marks now. Throws `ledger_error` where one can't be written. */
  async flush(rolloutId: RolloutId): Promise<void> {
    for (const mark of this.#marks) {
      if (mark.rolloutId !== rolloutId) continue;
      const fault = await this.#write(mark);
      if (fault === null) continue;
      throw new CoppiceError(
        "ledger_error",
        `the answer of call ${mark.callId} could not be recorded, nor that it is missing: ${messageOf(fault)}`,
        { cause: fault },
      );
    }
  }

  /** One last try, then no more. */
  async close(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    for (const mark of this.#marks) await this.#write(mark);
    if (this.#marks.size > 0) this.#log("marks_left_to_the_admitted_records", { calls: this.#marks.size });
    this.#marks.clear();
  }

  /** Null, or what went wrong. */
  #write(mark: PendingCall): Promise<unknown> {
    const under = this.#writing.get(mark);
    if (under !== undefined) return under;
    const writing = this.#ledger
      .settle(mark)
      .then(
        () => {
          this.#marks.delete(mark);
          return null;
        },
        (error: unknown) => error ?? new Error("the ledger failed without a reason"),
      )
      .finally(() => this.#writing.delete(mark));
    this.#writing.set(mark, writing);
    return writing;
  }

  #schedule(): void {
    if (this.#timer !== null || this.#marks.size === 0) return;
    this.#timer = setTimeout(() => void this.#retry(), this.#retryMs);
    this.#timer.unref();
  }

  async #retry(): Promise<void> {
    for (const mark of this.#marks) {
      const fault = await this.#write(mark);
      if (fault === null) {
        this.#retryMs = FIRST_RETRY_MS;
        continue;
      }
      this.#retryMs = Math.min(this.#retryMs * 2, LAST_RETRY_MS);
      this.#log("mark_not_written", { call_id: mark.callId, reason: messageOf(fault) });
      break;
    }
    this.#timer = null;
    this.#schedule();
  }
}
