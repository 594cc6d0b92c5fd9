// Which policy weights generate at the moment, as the trainer told it. Kept in memory so that a call costs no read of
// the ledger; looked up again once a second, since another gateway may have been told.
import type { Ledger } from "../ledger/ledger.ts";

const FRESH_MS = 1000;

export class WeightVersions {
  readonly #ledger: Ledger;
  #version: string | null = null;
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** Null until a trainer has told one. At most a second older than what another gateway was told. */
  async current(): Promise<string | null> {
    if (performance.now() - this.#readAt > FRESH_MS) {
      this.#reading ??= this.#read().finally(() => (this.#reading = null));
      await this.#reading;
    }
    return this.#version;
  }

  /** What was current when it was last read, without waiting. */
  get latest(): string | null {
    return this.#version;
  }

  async set(version: string): Promise<void> {
    await this.#ledger.setWeightVersion(version);
    this.#version = version;
    this.#readAt = performance.now();
  }

  async #read(): Promise<void> {
    this.#version = await this.#ledger.weightVersion();
    this.#readAt = performance.now();
  }
}
