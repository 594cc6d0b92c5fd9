// Live events for whoever watches (`GET /events`): server-sent, one JSON object each. A listener that reads too slowly
// loses events, never the gateway its memory: past the bound it is told how many it missed. Gateways that share a ledger
// tell one another theirs over its wire, as long as somebody listens at one of the others.
import type { ServerResponse } from "node:http";
import type { LedgerWire } from "../ledger/ledger.ts";

export type EventType =
  | "rollout_opened"
  | "rollout_sealed"
  | "rollout_swept"
  | "group_claimed"
  | "group_acknowledged"
  | "call_admitted"
  | "call_settled"
  | "weights_set";

export type EventFields = Readonly<Record<string, string | number | boolean | null>>;

/** Events that wait for one listener; a few hundred bytes each. */
const MAX_WAITING = 1024;
const KEEP_ALIVE_MS = 15_000;
/** Words between gateways: somebody listens at mine; I am new, who listens? Any other word is an event. */
const LISTENED = "listened";
const HELLO = "hello";
/** A gateway that has listeners says so, and is believed for so long. */
const INTEREST_MS = 30_000;
const TELL_INTEREST_MS = 10_000;

/** How many, nobody knows. */
const MISSED_SOME = `event: missed\ndata: ${JSON.stringify({ type: "missed", count: null })}\n\n`;

interface Listener {
  readonly response: ServerResponse;
  readonly waiting: string[];
  missed: number;
  isFull: boolean;
}

export class EventHub {
  readonly #listeners = new Set<Listener>();
  readonly #maxWaiting: number;
  #keepAlive: NodeJS.Timeout | null = null;
  readonly #wire: LedgerWire | null;
  #stopHearing: (() => void) | null = null;
  #tellInterest: NodeJS.Timeout | null = null;
  #othersListenUntil = Number.NEGATIVE_INFINITY;

  constructor(maxWaiting: number = MAX_WAITING, wire: LedgerWire | null = null) {
    this.#maxWaiting = maxWaiting;
    this.#wire = wire;
  }

  /** Joins the other gateways of the ledger. */
  async join(): Promise<void> {
    const wire = this.#wire;
    if (wire === null) return;
    this.#stopHearing = await wire.listen(
      (word) => this.#hear(word),
      () => {
        for (const listener of this.#listeners) this.#send(listener, MISSED_SOME);
        wire.send(HELLO);
        if (this.#listeners.size > 0) wire.send(LISTENED);
      },
    );
    wire.send(HELLO);
    this.#tellInterest = setInterval(() => {
      if (this.#listeners.size > 0) wire.send(LISTENED);
    }, TELL_INTEREST_MS).unref();
  }

  #hear(word: string): void {
    if (word === LISTENED) this.#othersListenUntil = performance.now() + INTEREST_MS;
    else if (word === HELLO) {
      if (this.#listeners.size > 0) this.#wire?.send(LISTENED);
    } else for (const listener of this.#listeners) this.#send(listener, word);
  }

  /** Fields are made only where somebody listens. */
  publish(type: EventType, fields: () => EventFields): void {
    const othersListen = this.#othersListenUntil > performance.now();
    if (this.#listeners.size === 0 && !othersListen) return;
    const text = `event: ${type}\ndata: ${JSON.stringify({ type, ...fields() })}\n\n`;
    for (const listener of this.#listeners) this.#send(listener, text);
    if (othersListen) this.#wire?.send(text);
  }

  /** Takes the response over until its client goes away or `close`. */
  listen(response: ServerResponse): void {
    const listener: Listener = { response, waiting: [], missed: 0, isFull: false };
    response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
    });
    response.write(": listening\n\n");
    response.on("drain", () => this.#drain(listener));
    response.on("close", () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#stopKeepAlive();
    });
    this.#listeners.add(listener);
    this.#wire?.send(LISTENED);
    this.#keepAlive ??= setInterval(() => {
      for (const one of this.#listeners)
        if (!one.isFull) one.isFull = !one.response.write(": keep-alive\n\n");
    }, KEEP_ALIVE_MS).unref();
  }

  close(): void {
    for (const { response } of this.#listeners) response.end();
    this.#listeners.clear();
    this.#stopKeepAlive();
    this.#stopHearing?.();
    if (this.#tellInterest !== null) clearInterval(this.#tellInterest);
  }

  #send(listener: Listener, text: string): void {
    if (!listener.isFull) {
      listener.isFull = !listener.response.write(text);
    } else if (listener.waiting.length < this.#maxWaiting) {
      listener.waiting.push(text);
    } else {
      listener.missed += 1;
    }
  }

  #drain(listener: Listener): void {
    listener.isFull = false;
    for (const text of listener.waiting.splice(0)) {
      if (listener.isFull) listener.waiting.push(text);
      else listener.isFull = !listener.response.write(text);
    }
    if (listener.isFull || listener.missed === 0) return;
    const { missed } = listener;
    listener.missed = 0;
    this.#send(listener, `event: missed\ndata: ${JSON.stringify({ type: "missed", count: missed })}\n\n`);
  }

  #stopKeepAlive(): void {
    if (this.#keepAlive !== null) clearInterval(this.#keepAlive);
    this.#keepAlive = null;
  }
}
