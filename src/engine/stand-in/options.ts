// How a stand-in is started.
import type { Fault } from "./faults.ts";
import type { ModelMode } from "./model.ts";
import type { StandInRequest } from "./server.ts";
import type { TemplateOptions } from "./template.ts";

export interface StandInOptions extends Partial<TemplateOptions> {
  readonly host?: string;
  /** 0, the default, takes a free one. */
  readonly port?: number;
  /** The name of its one model, which `/v1/models` tells; `stand-in` by default. */
  readonly model?: string;
  /** Refuse other names than `model`, as vLLM does. By default any name is answered, and echoed. */
  readonly strictModel?: boolean;
  /**
   * - `sampler` (default): pseudo-random words by a hash of the prompt, seed, temperature and count of calls
   * - `counters`: the i-th choice of a `user` is the one word 1000 * (seed + 1) + i, as in the worked example
   */
  readonly mode?: ModelMode;
  /** The tokenizer merges neighbouring words, so echoed answers of more than one word drift. */
  readonly drift?: boolean;
  /** All words that the model samples read alike, whatever their ids: texts tell nothing of the tokens. */
  readonly sameTexts?: boolean;
  /** As --enable-scale-out: the routes that render, generate from ids and parse are open; true by default. */
  readonly scaleOut?: boolean;
  /** Reasoning is read out of the answers that are parsed; true by default. */
  readonly reasoningParser?: boolean;
  /** Milliseconds before each token; 0 by default. */
  readonly delayMs?: number;
  /** Longest sequence in tokens; 131072 by default. */
  readonly maxModelLength?: number;
  readonly apiKey?: string;
  /** Obey `@@fault:NAME@@` in the last message; true by default. */
  readonly markers?: boolean;
  /** What is to go wrong with a request, the `count`-th completion that its `user` asks for, from 1. */
  readonly script?: (request: StandInRequest, count: number) => Fault | readonly Fault[] | null;
  /** Requests that are remembered, the newest; 1000 by default. */
  readonly keepRequests?: number;
}
