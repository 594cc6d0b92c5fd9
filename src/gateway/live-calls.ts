// Calls that are admitted and not settled yet, by rollout. A client that goes away and asks again at once must find its
// first call settled, or the second could not know what came before it.
import { setImmediate as immediate, setTimeout as delay } from "node:timers/promises";
import type { RolloutId } from "../lineage/call.ts";

/** Nobody waits longer than this for calls whose client has gone. */
const SETTLE_GONE_WITHIN_MS = 5000;

export interface LiveCall {
  readonly rolloutId: RolloutId;
  /** True once nobody waits for the answer any more. */
  readonly isGone: () => boolean;
  readonly settled: Promise<void>;
  readonly markSettled: () => void;
}

export class LiveCalls {
  readonly #byRollout = new Map<RolloutId, Set<LiveCall>>();

  inFlight(rolloutId: RolloutId): number {
    return this.#byRollout.get(rolloutId)?.size ?? 0;
  }

  add(rolloutId: RolloutId, isGone: () => boolean): LiveCall {
    let markSettled = (): void => undefined;
    const settled = new Promise<void>((resolve) => (markSettled = resolve));
    const live = { rolloutId, isGone, settled, markSettled };
    const calls = this.#byRollout.get(rolloutId);
    if (calls === undefined) this.#byRollout.set(rolloutId, new Set([live]));
    else calls.add(live);
    return live;
  }

  remove(live: LiveCall): void {
    live.markSettled();
    const calls = this.#byRollout.get(live.rolloutId);
    calls?.delete(live);
    if (calls?.size === 0) this.#byRollout.delete(live.rolloutId);
  }

  /** Waits, in bounds, until the rollout's calls whose client has gone are settled; false where they were not. */
  async settleGone(rolloutId: RolloutId): Promise<boolean> {
    const live = this.#byRollout.get(rolloutId);
    if (live === undefined) return true;
    // A close that came with this request in one batch of the event loop has yet to be seen.
    await immediate();
    const gone = [...live].filter((call) => call.isGone()).map((call) => call.settled);
    if (gone.length === 0) return true;
    const stop = new AbortController();
    const bound = delay(SETTLE_GONE_WITHIN_MS, false, { signal: stop.signal, ref: false }).catch(() => false);
    const inTime = await Promise.race([Promise.all(gone).then(() => true), bound]);
    stop.abort();
    return inTime;
  }
}
