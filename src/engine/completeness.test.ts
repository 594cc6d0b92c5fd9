import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { trueFinishReason, whyUntrainable, type ToldAnswer, type ToldChoice } from "./completeness.ts";

interface Told {
  readonly ids?: number | null;
  readonly logprobs?: readonly number[] | null;
  readonly usage?: number | null;
  readonly ending?: ToldAnswer["ending"];
  readonly finished?: boolean;
  readonly prompt?: Uint32Array | null;
}

function choice(told: Told, index = 0): ToldChoice {
  const ids = told.ids === undefined ? 3 : told.ids;
  const logprobs = told.logprobs === undefined ? [-0.1, -0.2, -0.3] : told.logprobs;
  return {
    index,
    tokenIds: ids === null ? null : Uint32Array.from({ length: ids }, (_, place) => place),
    logprobs: logprobs === null ? null : Float32Array.from(logprobs),
    finished: told.finished ?? true,
    fault: null,
  };
}

function answer(told: Told, choices: readonly ToldChoice[]): ToldAnswer {
  return {
    promptTokenIds: told.prompt === undefined ? Uint32Array.of(1) : told.prompt,
    promptFault: null,
    choices,
    completionTokens: told.usage === undefined ? 3 : told.usage,
    ending: told.ending ?? "whole",
  };
}

/** The verdict on the only choice of an answer that is complete but for what is given. */
function why(told: Told): string | null {
  const only = choice(told);
  return whyUntrainable(only, answer(told, [only]));
}

describe("whether an answer may train", () => {
  it("lets an answer train whose ids, log-probs and usage agree", () => {
    expect(why({})).toBeNull();
    expect(why({ ids: 0, logprobs: [], usage: 0 })).toBeNull();
    expect(why({ ids: 0, logprobs: null, usage: 0 })).toBeNull();
  });

  it("tells the three numbers where ids, log-probs and usage disagree, in each direction (vllm 27482, vime 70)", () => {
    expect(why({ ids: 2 })).toBe(
      "counts disagree: choices[0] has 2 ids and 3 log-probs, usage.completion_tokens is 3",
    );
    expect(why({ logprobs: [-0.1] })).toBe(
      "counts disagree: choices[0] has 3 ids and 1 log-probs, usage.completion_tokens is 3",
    );
    expect(why({ usage: 5 })).toBe(
      "counts disagree: choices[0] has 3 ids and 3 log-probs, usage.completion_tokens is 5",
    );
    expect(why({ usage: null })).toContain("usage.completion_tokens is not told");
  });

  it("never passes counts that disagree, whatever they are", () => {
    const count = fc.nat(6);
    fc.assert(
      fc.property(count, count, count, (ids, logprobs, usage) => {
        const told = { ids, logprobs: Array.from({ length: logprobs }, () => -1), usage };
        expect(why(told) === null).toBe(ids === logprobs && ids === usage);
      }),
    );
  });

  it.each([
    [Number.NaN, "NaN or null"],
    [Number.POSITIVE_INFINITY, "Infinity"],
    [Number.NEGATIVE_INFINITY, "-Infinity"],
    [-9999, "-9999"],
    [-12_345.5, "-12345.5"],
    [-1e300, "-Infinity"],
  ])("names the token whose log-prob is %d (sglang 5984)", (bad, told) => {
    expect(why({ logprobs: [-0.1, bad, -0.3] })).toBe(
      `choices[0] has no log-prob for generated token 1 (the engine told ${told})`,
    );
  });

  it("takes very small and zero log-probs for what they are", () => {
    expect(why({ logprobs: [0, -9998.5, -1e-30] })).toBeNull();
  });

  it("names the field that the engine did not tell", () => {
    expect(why({ prompt: null })).toBe("the engine told no prompt ids (prompt_token_ids is missing)");
    expect(why({ ids: null })).toBe("the engine told no generated ids (choices[0].token_ids is missing)");
    expect(why({ logprobs: null })).toBe(
      "the engine told no log-probs (choices[0].logprobs.content is missing)",
    );
  });

  it("wants a terminal event", () => {
    expect(why({ finished: false })).toBe(
      "the answer has no terminal event (choices[0].finish_reason was never told)",
    );
    // A break explains why other things are missing, so it is told before them.
    expect(why({ ending: "broken", ids: null, usage: null })).toContain("no terminal event");
  });

  it("judges an answer that was stopped on purpose by its tokens alone", () => {
    expect(why({ ending: "aborted", finished: false, usage: null })).toBeNull();
    expect(why({ ending: "aborted", finished: false, usage: null, logprobs: [-1] })).toContain(
      "3 ids and 1 log-probs",
    );
    expect(why({ ending: "aborted", finished: false, ids: 0, logprobs: [] })).toBeNull();
  });

  it("compares usage with the ids of all choices together", () => {
    const one = choice({}, 0);
    const other = choice({ ids: 2, logprobs: [-1, -1] }, 1);
    const told = answer({ usage: 5 }, [one, other]);
    expect([whyUntrainable(one, told), whyUntrainable(other, told)]).toEqual([null, null]);
    const wrong = answer({ usage: 4 }, [one, other]);
    expect(whyUntrainable(other, wrong)).toBe(
      "counts disagree: choices[1] has 2 ids and 2 log-probs, usage.completion_tokens is 4 with 3 ids in the other choices",
    );
  });

  it("passes on what could not be read of the ids", () => {
    const unread = { ...choice({}), fault: "choices[0].token_ids[1] is -4, which is no token id" };
    expect(whyUntrainable(unread, answer({}, [unread]))).toBe(unread.fault);
    const prompt = { ...answer({}, [choice({})]), promptFault: "prompt_token_ids is no list of token ids" };
    expect(whyUntrainable(choice({}), prompt)).toBe(prompt.promptFault);
  });
});

describe("the finish reason that the tokens bear out", () => {
  const cut = { tool_calls: [{ function: { name: "f", arguments: '{"cmd":"ls' } }] };
  const whole = { tool_calls: [{ function: { name: "f", arguments: '{"cmd":"ls"}' } }] };

  it("is length where the limit cut a tool call in half (vllm 47761)", () => {
    const finish = { reason: "tool_calls", generatedLength: 8, maxTokens: 8 };
    expect(trueFinishReason({ ...finish, message: cut })).toBe("length");
    expect(trueFinishReason({ ...finish, message: whole })).toBe("tool_calls");
    expect(trueFinishReason({ ...finish, generatedLength: 7, message: cut })).toBe("tool_calls");
    expect(trueFinishReason({ ...finish, maxTokens: null, message: cut })).toBe("tool_calls");
    expect(trueFinishReason({ ...finish, reason: "stop", message: cut })).toBe("stop");
    expect(trueFinishReason({ ...finish, reason: null, message: cut })).toBeNull();
  });
});
