// Texts of the tokens on screen: asked for in batches, each id once, kept for as long as the page is open.
import { useEffect, useState } from "preact/hooks";
import type { PageData } from "./page-data.ts";
import type { Source } from "./route.ts";

const AT_ONCE = 512;
const WAIT_MS = 16;

export class TextBook {
  readonly #data: PageData;
  readonly #source: Source;
  readonly #known = new Map<number, string | null>();
  readonly #wanted = new Set<number>();
  readonly #listeners = new Set<(told: ReadonlySet<number>) => void>();
  #timer = 0;

  constructor(data: PageData, source: Source) {
    this.#data = data;
    this.#source = source;
  }

  /** Null where the id has no text or it is not here yet. */
  text(id: number): string | null {
    return this.#known.get(id) ?? null;
  }

  want(ids: Iterable<number>): void {
    for (const id of ids) if (!this.#known.has(id)) this.#wanted.add(id);
    if (this.#wanted.size === 0 || this.#timer !== 0) return;
    this.#timer = window.setTimeout(() => {
      this.#timer = 0;
      void this.#ask([...this.#wanted].slice(0, AT_ONCE));
    }, WAIT_MS);
  }

  /** Calls back with the ids that were just told. */
  onTold(listener: (told: ReadonlySet<number>) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async #ask(ids: readonly number[]): Promise<void> {
    for (const id of ids) {
      this.#wanted.delete(id);
      // Asked once: an answer that does not come leaves the id to speak for itself.
      this.#known.set(id, null);
    }
    try {
      const { texts } = await this.#data.texts(this.#source, ids);
      for (const id of ids) this.#known.set(id, texts[id] ?? null);
    } catch (error) {
      console.debug("no texts of tokens:", error);
    }
    const told = new Set(ids);
    for (const listener of this.#listeners) listener(told);
    this.want([]);
  }
}

/** Draws anew when texts arrive that the ids are waiting for. */
export function useTexts(book: TextBook, ids: readonly number[]): void {
  const [, tell] = useState(0);
  const missing = ids.some((id) => book.text(id) === null);
  useEffect(() => {
    if (!missing) return undefined;
    const again = (): void => tell((times) => times + 1);
    // They may have come between the drawing and now.
    if (ids.every((id) => book.text(id) !== null)) {
      again();
      return undefined;
    }
    const stop = book.onTold((told) => {
      if (ids.some((id) => told.has(id))) again();
    });
    book.want(ids);
    return stop;
  }, [book, ids]);
}

/** What is seen of a text: line ends and tabs as signs, so that every token shows. */
export function visibleText(text: string): string {
  return text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll("\r", "␍");
}
