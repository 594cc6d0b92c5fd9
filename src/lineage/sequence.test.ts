import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { CallId, SequenceAddress } from "./call.ts";
import {
  addressOf,
  emptySequence,
  extendSequence,
  SequenceIndex,
  tokenBytes,
  tokensFromBytes,
  type Candidate,
} from "./sequence.ts";

function candidate(id: string, sequence: number[], order: number, more: Partial<Candidate> = {}): Candidate {
  const state = extendSequence(emptySequence(), Uint32Array.from(sequence));
  return {
    callId: id as CallId,
    responseId: `resp-${id}`,
    settledOrder: order,
    sequenceLength: sequence.length,
    generatedLength: 1,
    address: addressOf(state, more.mediaDigests ?? []),
    fingerprint: state.fingerprint,
    mediaDigests: [],
    ...more,
  };
}

function find(
  candidates: Candidate[],
  prompt: number[],
  more: { media?: string[]; order?: number; named?: string } = {},
) {
  const index = new SequenceIndex<Candidate>();
  for (const one of candidates) index.add(one);
  return index.find({
    prompt: Uint32Array.from(prompt),
    mediaDigests: more.media ?? [],
    admittedOrder: more.order ?? 1000,
    namedParent: more.named ?? null,
  });
}

describe("a sequence's address", () => {
  test("is its length and the SHA-256 of its ids as unsigned 32-bit little-endian", () => {
    const ids = Buffer.from([1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    const digest = createHash("sha256").update(ids).digest("hex");
    expect(addressOf(extendSequence(emptySequence(), Uint32Array.of(1, 0xffffffff)), [])).toBe(`2-${digest}`);
  });

  test("is the same however the sequence was put together", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 0xffffffff })), fc.nat(), (ids, cut) => {
        const at = ids.length === 0 ? 0 : cut % ids.length;
        const whole = extendSequence(emptySequence(), Uint32Array.from(ids));
        const first = extendSequence(emptySequence(), Uint32Array.from(ids.slice(0, at)));
        const joined = extendSequence(first, Uint32Array.from(ids.slice(at)));
        expect(addressOf(joined, [])).toBe(addressOf(whole, []));
        expect(joined.fingerprint).toBe(whole.fingerprint);
      }),
    );
  });

  test("differs under other images, and where one digest is cut into two", () => {
    const state = extendSequence(emptySequence(), Uint32Array.of(1, 2));
    const addresses = [[], ["ab"], ["a", "b"], ["b"]].map((media) => addressOf(state, media));
    expect(new Set(addresses).size).toBe(4);
  });

  test("token bytes read back to the same ids", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 0xffffffff })), (ids) => {
        expect([...tokensFromBytes(tokenBytes(Uint32Array.from(ids)))]).toEqual(ids);
      }),
    );
  });
});

describe("finding the parent", () => {
  test("takes the longest recorded sequence that the prompt starts with", () => {
    const calls = [
      candidate("c1", [1, 2], 2),
      candidate("c2", [1, 2, 3, 4], 4),
      candidate("c3", [1, 2, 9], 6),
    ];
    expect(find(calls, [1, 2, 3, 4, 5]).parent?.callId).toBe("c2");
    expect(find(calls, [1, 2, 3]).parent?.callId).toBe("c1");
    expect(find(calls, [7, 1, 2]).parent).toBeNull();
  });

  test("takes a sequence that is the whole prompt", () => {
    expect(find([candidate("c1", [1, 2], 2)], [1, 2]).parent?.callId).toBe("c1");
  });

  test("leaves out calls that settled after the admission", () => {
    const calls = [candidate("c1", [1], 2), candidate("c2", [1, 2], 6)];
    expect(find(calls, [1, 2, 3], { order: 5 }).parent?.callId).toBe("c1");
  });

  test("takes the latest of twins", () => {
    const twins = [candidate("c1", [1, 2], 2), candidate("c2", [1, 2], 8), candidate("c3", [1, 2], 4)];
    expect(find(twins, [1, 2, 3]).parent?.callId).toBe("c2");
  });

  test("a named parent that fits outranks length and lateness; one that does not is flagged", () => {
    const calls = [candidate("c1", [1, 2], 2), candidate("c2", [1, 2, 3], 4), candidate("c3", [9], 6)];
    const named = find(calls, [1, 2, 3, 4], { named: "resp-c1" });
    expect([named.parent?.callId, named.namedParentMisfit]).toEqual(["c1", false]);
    const misfit = find(calls, [1, 2, 3, 4], { named: "c3" });
    expect([misfit.parent?.callId, misfit.namedParentMisfit]).toEqual(["c2", true]);
    expect(find(calls, [5], { named: "nobody" }).namedParentMisfit).toBe(true);
  });

  test("a fingerprint that lies is caught by the hash", () => {
    const honest = candidate("c1", [1, 2], 2);
    const state = extendSequence(emptySequence(), Uint32Array.of(1, 2, 3));
    const liar = candidate("c2", [7, 8, 9], 4, { fingerprint: state.fingerprint });
    expect(find([honest, liar], [1, 2, 3, 4]).parent?.callId).toBe("c1");
    const end = find([honest, liar], [1, 2, 3, 4]).promptState;
    expect(addressOf(end, [])).toBe(
      addressOf(extendSequence(emptySequence(), Uint32Array.of(1, 2, 3, 4)), []),
    );
  });

  test("media of the parent are the first of the child's", () => {
    const call = candidate("c1", [1, 2], 2, { mediaDigests: ["aa"] });
    expect(find([call], [1, 2, 3], { media: ["aa", "bb"] }).parent?.callId).toBe("c1");
    expect(find([call], [1, 2, 3], { media: ["bb"] }).parent).toBeNull();
    expect(find([call], [1, 2, 3]).parent).toBeNull();
  });

  test("calls that generated nothing or have no sequence are nobody's parent", () => {
    const nothing = candidate("c1", [1, 2], 2, { generatedLength: 0 });
    const unknown = candidate("c2", [1, 2], 4, { address: null as SequenceAddress | null });
    expect(find([nothing, unknown], [1, 2, 3]).parent).toBeNull();
  });

  test("agrees with a comparison of the tokens themselves", () => {
    const ids = fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 7 });
    fc.assert(
      fc.property(
        fc.array(ids, { maxLength: 12 }),
        ids,
        fc.integer({ min: 1, max: 30 }),
        (sequences, prompt, order) => {
          const calls = sequences.map((sequence, index) => candidate(`c${index}`, sequence, 2 * index + 2));
          const fitting = calls.filter(
            (call, index) =>
              (call.settledOrder as number) < order &&
              sequences[index]?.every((id, at) => prompt[at] === id) === true,
          );
          fitting.sort(
            (x, y) => x.sequenceLength - y.sequenceLength || (x.settledOrder ?? 0) - (y.settledOrder ?? 0),
          );
          expect(find(calls, prompt, { order }).parent?.callId).toBe(fitting.at(-1)?.callId);
        },
      ),
      { numRuns: 2000 },
    );
  });
});
