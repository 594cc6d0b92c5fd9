// How much is under way at once, checked before a body is read: calls, and the bytes of their bodies. What a body
// unpacks to is bounded by its own limit; here counts what is sent.
import { CoppiceError } from "../errors.ts";

export class InFlightLimits {
  readonly #maxCalls: number;
  readonly #maxBytes: number;
  #calls = 0;
  #bytes = 0;
  #closing = false;

  constructor(limits: { readonly calls: number; readonly bytes: number }) {
    this.#maxCalls = limits.calls;
    this.#maxBytes = limits.bytes;
  }

  /**
   * Lets one call in and gives the function that lets it out, which may be called again. Throws `unavailable` past a
   * limit, or while the gateway shuts down.
   *
   * @param bodyBytes as the request says; 0 where it does not
   */
  enter(bodyBytes: number): () => void {
    if (this.#closing) throw new CoppiceError("unavailable", "the gateway is shutting down");
    if (this.#calls >= this.#maxCalls) {
      throw new CoppiceError(
        "unavailable",
        `${this.#calls} calls are in flight, which is the limit; try again later`,
      );
    }
    // One body alone always fits: its own limit is another.
    if (this.#calls > 0 && this.#bytes + bodyBytes > this.#maxBytes) {
      throw new CoppiceError(
        "unavailable",
        `bodies of ${this.#bytes} bytes are in flight, and ${bodyBytes} more are past the limit; try again later`,
      );
    }
    this.#calls += 1;
    this.#bytes += bodyBytes;
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      this.#calls -= 1;
      this.#bytes -= bodyBytes;
    };
  }

  /** From here on nobody comes in. */
  close(): void {
    this.#closing = true;
  }
}
