// Whether the engine can be asked token-in at the moment: the verdict of one short call, asked for at start and again
// some time after it was no, since an engine may be started later or anew.
import { messageOf } from "../errors.ts";
import type { TokenIn } from "../engine/token-in.ts";
import { checkTokenIn } from "../engine/self-check.ts";
import type { Log } from "./log.ts";

export type Way = "text" | "token-in" | "auto";

const CHECK_WITHIN_MS = 60_000;
const AGAIN_AFTER_MS = 30_000;
/** A call waits no longer for the verdict of a check that is under way. */
const WAIT_MS = 5_000;

/** Null: it can; else why not, in words. */
type Verdict = string | null;

export interface TokenInCheckParts {
  readonly tokenIn: TokenIn;
  /** The engine's name for the policy. */
  readonly model: () => Promise<string>;
  readonly log: Log;
}

export class TokenInCheck {
  readonly #parts: TokenInCheckParts;
  #verdict: Verdict | undefined;
  #checkedAt = 0;
  #checking: Promise<Verdict> | null = null;

  constructor(parts: TokenInCheckParts) {
    this.#parts = parts;
  }

  /** Why calls cannot go token-in now; null where they can. Waits a little for a check that is under way. */
  async whyNot(): Promise<Verdict> {
    if (this.#verdict === null) return null;
    if (this.#verdict !== undefined && performance.now() - this.#checkedAt < AGAIN_AFTER_MS)
      return this.#verdict;
    const checking = this.check();
    if (this.#verdict !== undefined) return this.#verdict;
    return Promise.race([checking, later(WAIT_MS)]);
  }

  /** Contract: must not throw. */
  check(): Promise<Verdict> {
    this.#checking ??= this.#ask().finally(() => (this.#checking = null));
    return this.#checking;
  }

  /** The engine refused a step that it had taken before. */
  lost(why: string): void {
    this.#set(why);
  }

  async #ask(): Promise<Verdict> {
    try {
      const signal = AbortSignal.timeout(CHECK_WITHIN_MS);
      await checkTokenIn(this.#parts.tokenIn, await this.#parts.model(), signal);
      this.#set(null);
    } catch (error) {
      this.#set(messageOf(error));
    }
    this.#parts.log("token_in_checked", { able: this.#verdict === null, why: this.#verdict ?? null });
    return this.#verdict ?? null;
  }

  #set(verdict: Verdict): void {
    this.#verdict = verdict;
    this.#checkedAt = performance.now();
  }
}

function later(ms: number): Promise<Verdict> {
  return new Promise((resolve) => {
    setTimeout(() => resolve("the engine's self-check is still under way"), ms).unref();
  });
}
