// From a prompt to the choices of one completion: what is planned for each, and its sampling. It holds the two counts
// that the stand-in keeps from call to call, by the request's `user`.
import { generate, planAnswer, planWords, type Generated, type Plan } from "./answer.ts";
import { findFault, type Fault } from "./faults.ts";
import {
  contextOf,
  extendContext,
  hashText,
  mix,
  type Context,
  type Model,
  type ModelMode,
} from "./model.ts";
import type { Sampling } from "./request.ts";
import type { TurnEnds } from "./template.ts";
import type { Tokenizer } from "./tokenizer.ts";

/** Answers in sampler mode end by themselves within so many tokens. */
const LONGEST_ANSWER = 24;

export interface SamplerOptions {
  readonly mode: ModelMode;
  readonly model: Model;
  readonly tokenizer: Tokenizer;
  /** What the model samples as its stop token. */
  readonly turnEnds: TurnEnds;
}

export interface SampledCall {
  readonly faults: readonly Fault[];
  /** Makes the ids of tool calls unique. */
  readonly serial: string;
  /** False for a call that only re-scores: it must not shift what is sampled for others. */
  readonly counts: boolean;
  /** Tokens that the sequence may still have. */
  readonly room: number;
}

/** Which choice of which call is planned. */
interface Place {
  readonly context: Context;
  readonly sampling: Sampling;
  readonly count: number;
  readonly index: number;
}

export class Sampler {
  readonly #options: SamplerOptions;
  /** Choices sampled so far, by user. */
  readonly #sampled = new Map<string, number>();

  constructor(options: SamplerOptions) {
    this.#options = options;
  }

  /** All choices of one call. */
  sample(promptIds: readonly number[], sampling: Sampling, call: SampledCall): Generated[] {
    const { model, tokenizer } = this.#options;
    const context = contextOf(promptIds);
    const abort = findFault(call.faults, "abort");
    return Array.from({ length: sampling.n }, (_, index) => {
      const count = (this.#sampled.get(sampling.user) ?? 0) + 1;
      if (call.counts) this.#sampled.set(sampling.user, count);
      const plan = this.#plan({ context, sampling, count, index }, call);
      const maxTokens = Math.min(sampling.limits.maxTokens, call.room, abort?.afterTokens ?? Infinity);
      const generated = generate(
        plan,
        { ...sampling.limits, maxTokens },
        { index, context, model, tokenizer },
      );
      const stopped = abort !== undefined && abort.afterTokens <= generated.tokens.length;
      return stopped ? { ...generated, finishReason: "abort", stopReason: null } : generated;
    });
  }

  #plan(at: Place, call: SampledCall): Plan {
    const { mode, tokenizer, turnEnds } = this.#options;
    const scripted = findFault(call.faults, "answer");
    if (scripted !== undefined) {
      const idPrefix = `chatcmpl-tool-${call.serial}${at.index}`;
      return planAnswer(scripted.answer, tokenizer, { turnEnds, idPrefix });
    }
    if (mode === "counters") {
      return planWords([1_000 * ((at.sampling.seed ?? 0) + 1) + at.count], turnEnds.afterText);
    }
    return this.#planSampled(at);
  }

  /** Ids by a hash of the prompt, the seed, the temperature and, where neither fixes the answer, the count. */
  #planSampled(at: Place): Plan {
    const { model, turnEnds } = this.#options;
    const { seed, temperature, limits, ignoreEos, minTokens } = at.sampling;
    const fixed = seed !== null || temperature === 0;
    const salt = hashText(JSON.stringify([seed, temperature, at.index, fixed ? null : at.count]));
    const natural = 1 + ((mix(at.context.b, salt) >>> 0) % LONGEST_ANSWER);
    const length = ignoreEos ? limits.maxTokens : Math.max(natural, minTokens);
    const ids: number[] = [];
    let { context } = at;
    for (let place = 0; place < Math.min(length, limits.maxTokens + 1); place++) {
      const id = model.next(context, salt);
      ids.push(id);
      context = extendContext(context, id);
    }
    const plan = planWords(ids, ignoreEos ? null : turnEnds.afterText);
    return ignoreEos ? { ...plan, finishReason: "length" } : plan;
  }
}
