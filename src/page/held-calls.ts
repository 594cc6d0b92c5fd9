// Summaries of one rollout's calls as they were read, in the order in which they took their last places: what a page has
// not been told yet is one run of them. Grown a piece at a time; a call that is told again replaces what it was.
import { standsInForest, type CallId, type CallSummary } from "../lineage/call.ts";
import { buildForest, type Forest } from "../lineage/forest.ts";

export class HeldCalls {
  readonly #byId = new Map<CallId, CallSummary>();
  /** As they were read; an entry that was replaced later is passed over. */
  readonly #read: CallSummary[] = [];
  readonly #bySequence = new Map<string, number[]>();
  #forest: Forest | null = null;

  get size(): number {
    return this.#byId.size;
  }

  /** The latest place in the count that is known. */
  get until(): number {
    const last = this.#read.at(-1);
    return last === undefined ? 0 : lastOrder(last);
  }

  /** @param fresh by their last places, all after `until` */
  add(fresh: readonly CallSummary[]): void {
    for (const call of fresh) {
      this.#byId.set(call.callId, call);
      this.#read.push(call);
      if (standsInForest(call) && call.generatedLength > 0) this.#noteSequence(call);
    }
    if (fresh.length > 0) this.#forest = null;
  }

  #noteSequence(call: CallSummary): void {
    const same = this.#bySequence.get(call.address as string);
    if (same === undefined) this.#bySequence.set(call.address as string, [call.admittedOrder]);
    else same.push(call.admittedOrder);
  }

  all(): CallSummary[] {
    return [...this.#byId.values()];
  }

  forest(): Forest {
    return (this.#forest ??= buildForest(this.all()));
  }

  orderOf(id: CallId): number | undefined {
    return this.#byId.get(id)?.admittedOrder;
  }

  /** Groups of calls, by order of admission, whose sequences are the same. */
  twins(): number[][] {
    return [...this.#bySequence.values()].filter((same) => same.length > 1);
  }

  /** At most `most` calls whose last place is after `since`, the earliest first. */
  after(since: number, most: number): CallSummary[] {
    let low = 0;
    let high = this.#read.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lastOrder(this.#read[middle] as CallSummary) <= since) low = middle + 1;
      else high = middle;
    }
    const found: CallSummary[] = [];
    for (let at = low; at < this.#read.length && found.length < most; at++) {
      const call = this.#read[at] as CallSummary;
      if (this.#byId.get(call.callId) === call) found.push(call);
    }
    return found;
  }
}

/** The latest place in the rollout's count that a call took. */
export function lastOrder(call: CallSummary): number {
  return Math.max(call.admittedOrder, call.settledOrder ?? 0);
}
