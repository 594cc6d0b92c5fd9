// How much is under way at once: calls, and the bytes of their bodies. Checked before a body is read, by what its request
// says of it, and again once it is there, by what it unpacked to: a chunked body says nothing, a packed one too little.
import { CoppiceError } from "../errors.ts";

/** One call's share. */
export interface InFlight {
  /** The body has so many bytes in memory. Throws `unavailable` where they are more than there is room for. */
  readonly hold: (bytes: number) => void;
  /** Lets the call out; may be called again. */
  readonly leave: () => void;
}

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

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Lets one call in. Throws `unavailable` past a limit, or while the gateway shuts down.
   *
   * @param bodyBytes as the request says; 0 where it does not
   */
  enter(bodyBytes: number): InFlight {
    if (this.#closing) throw new CoppiceError("unavailable", "the gateway is shutting down");
    if (this.#calls >= this.#maxCalls) {
      throw new CoppiceError(
        "unavailable",
        `${this.#calls} calls are in flight, which is the limit; try again later`,
      );
    }
    this.#checkRoom(bodyBytes, this.#calls);
    this.#calls += 1;
    this.#bytes += bodyBytes;
    let held = bodyBytes;
    let isIn = true;
    return {
      hold: (bytes) => {
        if (!isIn || bytes <= held) return;
        this.#checkRoom(bytes - held, this.#calls - 1);
        this.#bytes += bytes - held;
        held = bytes;
      },
      leave: () => {
        if (!isIn) return;
        isIn = false;
        this.#calls -= 1;
        this.#bytes -= held;
      },
    };
  }

  /** One body alone always fits: its own limit is another. */
  #checkRoom(more: number, otherCalls: number): void {
    if (otherCalls === 0 || this.#bytes + more <= this.#maxBytes) return;
    throw new CoppiceError(
      "unavailable",
      `bodies of ${this.#bytes} bytes are in flight, and ${more} more are past the limit; try again later`,
    );
  }

  get closing(): boolean {
    return this.#closing;
  }

  /** From here on nobody comes in. */
  close(): void {
    this.#closing = true;
  }
}
