// What one key may have under way and how often it may call, so that one agent that runs wild does not take the others'
// place. Counted in this gateway alone: behind three gateways a key has three times as much.
import { CoppiceError } from "../errors.ts";

export interface KeyLimitsOptions {
  /** Calls in flight of one key. */
  readonly callsInFlight: number;
  /** Calls of one key in a minute; as many may come at once. */
  readonly callsPerMinute: number;
}

interface Use {
  inFlight: number;
  /** Calls that may come now; grows with time up to a minute's. */
  tokens: number;
  at: number;
}

/** Keys that are remembered; those that have nothing in flight and a full minute are forgotten first. */
const MOST_KEYS = 10_000;

export class KeyLimits {
  readonly #options: KeyLimitsOptions;
  readonly #now: () => number;
  readonly #uses = new Map<string, Use>();

  /** @param now milliseconds that never go back */
  constructor(options: KeyLimitsOptions, now: () => number = () => performance.now()) {
    this.#options = options;
    this.#now = now;
  }

  /**
   * Lets one call of the key in and gives the function that lets it out, which may be called again. Throws
   * `too_many_requests` past a limit, with the seconds after which it is worth trying again.
   *
   * @param key the key's name; null where nobody needs a key: then there is no limit
   */
  enter(key: string | null): () => void {
    const { callsInFlight, callsPerMinute } = this.#options;
    if (key === null || (callsInFlight === Infinity && callsPerMinute === Infinity)) return () => undefined;
    const use = this.#use(key);
    if (use.inFlight >= callsInFlight) {
      throw tooMany(`${use.inFlight} calls of this key are in flight, which is the limit`, 1);
    }
    if (use.tokens < 1) {
      const waitS = Math.ceil(((1 - use.tokens) * 60) / callsPerMinute);
      throw tooMany(`this key made ${callsPerMinute} calls within a minute, which is the limit`, waitS);
    }
    use.tokens -= 1;
    use.inFlight += 1;
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      use.inFlight -= 1;
    };
  }

  #use(key: string): Use {
    const now = this.#now();
    const most = this.#options.callsPerMinute;
    const known = this.#uses.get(key);
    if (known !== undefined) {
      // Infinity less Infinity is no number: without a limit the tokens stay as they are.
      if (most !== Infinity) known.tokens = Math.min(most, known.tokens + ((now - known.at) * most) / 60_000);
      known.at = now;
      return known;
    }
    if (this.#uses.size >= MOST_KEYS) this.#forget(now);
    const use = { inFlight: 0, tokens: most, at: now };
    this.#uses.set(key, use);
    return use;
  }

  #forget(now: number): void {
    for (const [key, use] of this.#uses) {
      if (use.inFlight === 0 && now - use.at >= 60_000) this.#uses.delete(key);
    }
  }
}

function tooMany(what: string, retryAfterS: number): CoppiceError {
  return new CoppiceError("too_many_requests", `${what}; try again later`, {
    detail: { retry_after: String(retryAfterS) },
  });
}
