// What is known of the calls of the rollouts that are being called: one `RolloutIndex` a rollout, fed by this gateway's
// own settles and topped up from the ledger where another gateway (or an earlier process) did some. The ledger counts
// admissions and settles of an attempt without gaps, so a gap in what was told here is the sign that something is
// missing. Held for the rollouts called last, bounded by the number of calls; what is dropped is loaded again.
import { summaryOf, type Call, type CallId, type CallSummary, type RolloutId } from "../lineage/call.ts";
import { RolloutIndex } from "../lineage/record-call.ts";
import type { Admitted, Ledger } from "../ledger/ledger.ts";

/** About 1 KiB each. */
const DEFAULT_MAX_CALLS = 50_000;

/** Also of those that were opened and not called yet. */
const MAX_ROLLOUTS = 10_000;

interface AttemptIndex {
  readonly attempt: number;
  readonly index: RolloutIndex;
  readonly settled: Set<CallId>;
  /** Call ids and response ids, of calls in flight too. */
  readonly ids: Set<string>;
  /** Every order up to here was told. */
  through: number;
  /** Orders that were told beyond the first gap. */
  readonly ahead: Set<number>;
}

export class RolloutIndexes {
  readonly #ledger: Ledger;
  readonly #maxCalls: number;
  /** Newest attempts, least recently called first. */
  readonly #byRollout = new Map<RolloutId, AttemptIndex>();
  #calls = 0;

  constructor(ledger: Ledger, maxCalls: number = DEFAULT_MAX_CALLS) {
    this.#ledger = ledger;
    this.#maxCalls = maxCalls;
  }

  /** Calls held at the moment. */
  get size(): number {
    return this.#calls;
  }

  /** A rollout that was opened by request: its first call does not open it any more. */
  noteOpened(rolloutId: RolloutId, attempt: number): void {
    this.#touch(rolloutId, attempt);
  }

  /** True where this admission was the first that is heard of the attempt, and the attempt's first. */
  noteAdmitted(rolloutId: RolloutId, admitted: Admitted, responseId: string | null): boolean {
    const isNew = this.#byRollout.get(rolloutId)?.attempt !== admitted.attempt;
    const state = this.#touch(rolloutId, admitted.attempt);
    if (state === null) return false;
    state.ids.add(admitted.callId);
    if (responseId !== null) state.ids.add(responseId);
    noteOrder(state, admitted.admittedOrder);
    return isNew && admitted.admittedOrder === 1;
  }

  /** A call that this gateway settled. */
  noteSettled(call: Call): void {
    const state = this.#byRollout.get(call.rolloutId);
    if (state?.attempt !== call.attempt) return;
    this.#add(state, summaryOf(call));
    if (call.settledOrder !== null) noteOrder(state, call.settledOrder);
  }

  /** The index with every call of the attempt that settled before the given order. */
  async before(rolloutId: RolloutId, attempt: number, order: number): Promise<RolloutIndex> {
    const state = this.#touch(rolloutId, attempt);
    // An older attempt than the newest: its calls go to the late bin, where nothing has a parent.
    if (state === null) return new RolloutIndex();
    if (state.through < order - 1) await this.#load(state, rolloutId);
    return state.index;
  }

  /** True where a call of the rollout's newest attempt has this call id or response id. */
  async knows(rolloutId: RolloutId, id: string): Promise<boolean> {
    const state = this.#byRollout.get(rolloutId);
    if (state?.ids.has(id) === true) return true;
    const calls = await this.#ledger.summaries({ rolloutId, attempt: null }, 0);
    return calls.some((call) => call.callId === id || call.responseId === id);
  }

  drop(rolloutId: RolloutId): void {
    const state = this.#byRollout.get(rolloutId);
    if (state === undefined) return;
    this.#byRollout.delete(rolloutId);
    this.#calls -= state.settled.size;
  }

  async #load(state: AttemptIndex, rolloutId: RolloutId): Promise<void> {
    const calls = await this.#ledger.summaries({ rolloutId, attempt: state.attempt }, state.through);
    let last = state.through;
    for (const call of calls) {
      this.#add(state, call);
      last = Math.max(last, call.admittedOrder, call.settledOrder ?? 0);
    }
    // The ledger counts and stores in one step: what it told is whole up to the last order among it.
    // It may have gone on meanwhile.
    state.through = Math.max(state.through, last);
    for (const order of state.ahead) if (order <= state.through) state.ahead.delete(order);
    closeGap(state);
  }

  #add(state: AttemptIndex, call: CallSummary): void {
    state.ids.add(call.callId);
    if (call.responseId !== null) state.ids.add(call.responseId);
    if (call.settledOrder === null || state.settled.has(call.callId)) return;
    state.settled.add(call.callId);
    state.index.add(call);
    if (this.#byRollout.get(call.rolloutId) !== state) return;
    this.#calls += 1;
    for (const rolloutId of this.#byRollout.keys()) {
      if (this.#calls <= this.#maxCalls || rolloutId === call.rolloutId) break;
      this.drop(rolloutId);
    }
  }

  /** The attempt's index, made where there is none and moved to the end; null for an attempt that is not the newest. */
  #touch(rolloutId: RolloutId, attempt: number): AttemptIndex | null {
    let state = this.#byRollout.get(rolloutId);
    if (state !== undefined && state.attempt > attempt) return null;
    if (state?.attempt === attempt) this.#byRollout.delete(rolloutId);
    else {
      this.drop(rolloutId);
      state = {
        attempt,
        index: new RolloutIndex(),
        settled: new Set(),
        ids: new Set(),
        through: 0,
        ahead: new Set(),
      };
    }
    this.#byRollout.set(rolloutId, state);
    const oldest = this.#byRollout.keys().next().value as RolloutId;
    if (this.#byRollout.size > MAX_ROLLOUTS) this.drop(oldest);
    return state;
  }
}

function noteOrder(state: AttemptIndex, order: number): void {
  if (order <= state.through) return;
  state.ahead.add(order);
  closeGap(state);
}

function closeGap(state: AttemptIndex): void {
  while (state.ahead.delete(state.through + 1)) state.through += 1;
}
