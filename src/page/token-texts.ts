// Texts of token ids, asked of the engine one id at a time (that is how an engine tells them) and remembered. Without
// an engine, or where it cannot tell, a token has its id alone.
import { setMaxListeners } from "node:events";
import type { Engine } from "../engine/engine.ts";
import { Recent } from "./recent.ts";

/** Ids of one request; a page asks for what it shows. */
export const MOST_TEXTS = 1024;

const MOST_KNOWN = 300_000;
const AT_ONCE = 8;
const WITHIN_MS = 3000;

export class TokenTexts {
  readonly #engine: Pick<Engine, "detokenize"> | null;
  readonly #known = new Recent<string>(MOST_KNOWN, () => 1);

  constructor(engine: Pick<Engine, "detokenize"> | null) {
    this.#engine = engine;
  }

  /** By id; null where the engine could not tell in time. */
  async texts(ids: readonly number[]): Promise<Record<string, string | null>> {
    const texts: Record<string, string | null> = {};
    const asked: number[] = [];
    for (const id of new Set(ids.slice(0, MOST_TEXTS))) {
      const known = this.#known.get(String(id));
      texts[id] = known ?? null;
      if (known === undefined) asked.push(id);
    }
    const engine = this.#engine;
    if (engine === null) return texts;
    const signal = AbortSignal.timeout(WITHIN_MS);
    // Each question listens to it for as long as it is open.
    setMaxListeners(0, signal);
    const ask = async (): Promise<void> => {
      for (let id = asked.pop(); id !== undefined && !signal.aborted; id = asked.pop()) {
        const text = await engine.detokenize(Uint32Array.of(id), signal);
        if (text === null) continue;
        texts[id] = text;
        this.#known.set(String(id), text);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, ask));
    return texts;
  }
}
