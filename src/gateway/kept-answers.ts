// Answers that may have to be given again: a client that lost its connection after its call was committed, or that names
// its request with an Idempotency-Key, asks once more with the same body and gets the same answer, which is recorded
// once. Every other repeat is sampled anew: agents do ask the same again on purpose. What retry counters of SDKs say is
// not looked at; many are wrong. Held in this process alone and in bounds: after a restart a repeat is sampled anew.
import { createHash } from "node:crypto";
import { canonicalJson } from "../lineage/message.ts";
import type { RolloutId } from "../lineage/call.ts";

/** Whose request it is; a body says too little, since the first ones of two rollouts are often equal. */
export interface RequestKey {
  readonly rolloutId: RolloutId;
  readonly agent: string | null;
  readonly namedParent: string | null;
  /** Last part of the path: which API was called. */
  readonly api: string;
  /** The `Idempotency-Key` header. */
  readonly idempotencyKey: string | null;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface KeptAnswer {
  readonly attempt: number;
  readonly streamed: boolean;
  /** Headers that name the call. */
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

export interface KeptLimits {
  /** Of all answers that are kept, in UTF-16 units. */
  readonly length: number;
  readonly withinMs: number;
}

const DEFAULT_LIMITS: KeptLimits = { length: 64 * 1024 * 1024, withinMs: 600_000 };

/** What stands around a request and changes from try to try. */
const ASIDE = ["client_metadata", "metadata"] as const;

interface Kept {
  readonly answer: KeptAnswer;
  readonly rolloutId: RolloutId;
  readonly until: number;
  /** Without an Idempotency-Key it is given again until one copy arrives. */
  readonly once: boolean;
}

export class KeptAnswers {
  readonly #limits: KeptLimits;
  /** Oldest first. */
  readonly #kept = new Map<string, Kept>();
  readonly #byRollout = new Map<RolloutId, Set<string>>();
  readonly #inFlight = new Map<string, Promise<void>>();
  #length = 0;

  constructor(limits: Partial<KeptLimits> = {}) {
    this.#limits = { ...DEFAULT_LIMITS, ...limits };
  }

  /** UTF-16 units that are held. */
  get length(): number {
    return this.#length;
  }

  /** The rollout is over: nobody is to be given anything of it. */
  forgetRollout(rolloutId: RolloutId): void {
    for (const name of this.#byRollout.get(rolloutId) ?? []) this.#drop(name);
  }

  /** One request, on its way in. Costs nothing where it has no key and nothing is kept of its rollout. */
  open(key: RequestKey): KeptRequest {
    let digest: string | null = null;
    const name = (): string => (digest ??= nameOf(key));
    const once = key.idempotencyKey === null;
    let release = (): void => undefined;
    return {
      keyed: !once,
      find: async (signal) => {
        let other = once ? undefined : this.#inFlight.get(name());
        while (other !== undefined && !signal.aborted) {
          await unlessAborted(other, signal);
          other = this.#inFlight.get(name());
        }
        const kept = this.#byRollout.has(key.rolloutId) ? this.#get(name()) : null;
        // In one step with the look: nobody else begins between the two.
        if (kept === null && !once) release = this.#begin(name());
        return kept;
      },
      release: () => release(),
      keep: (answer) => this.#keep(name(), key.rolloutId, once, answer),
      arrived: () => {
        if (once) this.#drop(name());
      },
      forget: () => this.#drop(name()),
    };
  }

  #begin(name: string): () => void {
    let over = (): void => undefined;
    const promise = new Promise<void>((resolve) => (over = resolve));
    this.#inFlight.set(name, promise);
    return () => {
      if (this.#inFlight.get(name) === promise) this.#inFlight.delete(name);
      over();
    };
  }

  #get(name: string): KeptAnswer | null {
    const kept = this.#kept.get(name);
    if (kept === undefined) return null;
    if (kept.until > performance.now()) return kept.answer;
    this.#drop(name);
    return null;
  }

  #keep(name: string, rolloutId: RolloutId, once: boolean, answer: KeptAnswer): void {
    this.#drop(name);
    const until = performance.now() + this.#limits.withinMs;
    this.#kept.set(name, { answer, rolloutId, until, once });
    this.#length += answer.text.length;
    const names = this.#byRollout.get(rolloutId);
    if (names === undefined) this.#byRollout.set(rolloutId, new Set([name]));
    else names.add(name);
    for (const [oldest, kept] of this.#kept) {
      if (this.#length <= this.#limits.length && kept.until > performance.now()) break;
      this.#drop(oldest);
    }
  }

  #drop(name: string): void {
    const kept = this.#kept.get(name);
    if (kept === undefined) return;
    this.#kept.delete(name);
    this.#length -= kept.answer.text.length;
    const names = this.#byRollout.get(kept.rolloutId);
    names?.delete(name);
    if (names?.size === 0) this.#byRollout.delete(kept.rolloutId);
  }
}

export interface KeptRequest {
  /** It came under an Idempotency-Key: its answer is kept even where it arrives. */
  readonly keyed: boolean;
  /**
   * The answer to give again, if there is one; waits for a request of the same key that is in flight. Null: it is to be
   * sampled, and under a key others wait for it from here on, until `release`.
   */
  find(signal: AbortSignal): Promise<KeptAnswer | null>;
  /** Its answer is kept, or will not be. May be called at any time, and again. */
  release(): void;
  keep(answer: KeptAnswer): void;
  /** A copy was delivered whole. */
  arrived(): void;
  /** It belongs to a rollout, or an attempt, that is over. */
  forget(): void;
}

/** One name a request by what it means: key order, spaces and numbers' spelling aside. */
function nameOf({ rolloutId, agent, namedParent, api, idempotencyKey, body }: RequestKey): string {
  const asked: Record<string, unknown> = { ...body };
  for (const field of ASIDE) delete asked[field];
  const meaning = canonicalJson([rolloutId, agent, namedParent, api, idempotencyKey, asked]);
  return createHash("sha256").update(meaning).digest("hex");
}

function unlessAborted(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const stop = (): void => resolve();
    signal.addEventListener("abort", stop, { once: true });
    void promise.then(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    });
  });
}
