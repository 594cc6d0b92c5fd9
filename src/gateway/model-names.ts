// Which of the engine's models a call means. Agents send names that no engine knows (from background calls, say); any
// name is the policy's unless the operator's mapping says otherwise, and the answer echoes the name that was asked for.
import { CoppiceError } from "../errors.ts";
import type { Engine } from "../engine/engine.ts";

export class ModelNames {
  readonly #engine: Engine;
  readonly #mapping: ReadonlyMap<string, string>;
  #served: string | null;
  /** Null: the engine was not asked yet. */
  #lengths: Promise<ReadonlyMap<string, number | null>> | null = null;

  /** @param served the engine's name for the policy; null: the first model that the engine lists */
  constructor(engine: Engine, served: string | null, mapping: Readonly<Record<string, string>>) {
    this.#engine = engine;
    this.#served = served;
    this.#mapping = new Map(Object.entries(mapping));
  }

  /** The engine's name for the model that was asked for. Throws where the engine must be asked and does not answer. */
  async resolve(asked: string | null): Promise<string> {
    const mapped = asked === null ? undefined : this.#mapping.get(asked);
    return mapped ?? this.#served ?? (await this.#askEngine());
  }

  /**
   * Longest sequence of a model, in tokens; null where the engine does not tell. Asked once; where that fails, again
   * with the next call.
   */
  async maxModelLength(model: string): Promise<number | null> {
    this.#lengths ??= this.#askLengths();
    const asking = this.#lengths;
    try {
      return (await asking).get(model) ?? null;
    } catch (error) {
      if (!(error instanceof CoppiceError)) throw error;
      // The call itself will say what is wrong with the engine.
      if (this.#lengths === asking) this.#lengths = null;
      return null;
    }
  }

  async #askLengths(): Promise<ReadonlyMap<string, number | null>> {
    const models = await this.#engine.models();
    return new Map(models.map(({ id, maxModelLength }) => [id, maxModelLength]));
  }

  async #askEngine(): Promise<string> {
    const first = (await this.#engine.models())[0];
    if (first === undefined) {
      throw new CoppiceError("engine_error", `the engine at ${this.#engine.url} lists no model`);
    }
    this.#served = first.id;
    return first.id;
  }
}
