import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { callId, type Call } from "../lineage/call.ts";
import { digestCall, settleCall } from "../lineage/record-digest.ts";
import { decodeCall, decodeSummary, encodeCall, encodePayload, samplingText } from "./call-row.ts";
import { pickFields } from "./pending-call.ts";
import { anyAnswer, answer, R0 } from "./testing/sample-calls.ts";

const ADMITTED = { callId: callId("c1"), attempt: 2, admittedOrder: 1 };

const PLACE = { rolloutId: R0, attempt: 2, parentCallId: null, usualSampling: null };

function anyCall(): fc.Arbitrary<Call> {
  return anyAnswer().map((more) => settleCall(answer(ADMITTED, { more }), 5));
}

describe("a call as a row", () => {
  test("any call is put back exactly, wherever its parent and its sampling are kept", () => {
    fc.assert(
      fc.property(
        anyCall(),
        fc.boolean(),
        fc.constantFrom("none", "same", "other"),
        (call, parentKept, usual) => {
          const usualSampling = { none: null, same: samplingText(call.sampling), other: '[{"seed":1},{}]' }[
            usual
          ];
          const parentCallId = parentKept ? call.parentCallId : null;
          const row = encodeCall(call, { parentCallId, usualSampling });
          const place = { rolloutId: R0, attempt: 2, parentCallId, usualSampling };
          const back = decodeCall(row, encodePayload(call), place);
          expect(back).toEqual(call);
          expect(digestCall(back)).toBe(call.digest);
          const payload = [
            "carriedTokenIds",
            "generatedTokenIds",
            "generatedLogprobs",
            "messages",
            "answer",
            "digest",
          ];
          const summary = Object.fromEntries(
            Object.entries(call).filter(([field]) => !payload.includes(field)),
          );
          expect(decodeSummary(row, place)).toEqual(summary);
        },
      ),
      { numRuns: 500 },
    );
  });

  test("no text column holds what UTF-8 cannot, or the digest would not hold", () => {
    fc.assert(
      fc.property(anyCall(), (call) => {
        const row = encodeCall(call, { parentCallId: null, usualSampling: null });
        for (const [column, value] of Object.entries(row)) {
          if (typeof value === "string") expect(Buffer.from(value).toString(), column).toBe(value);
        }
      }),
    );
  });

  test("a plain call of tokens has nothing but numbers, ids and bytes", () => {
    const plain = settleCall(answer(ADMITTED), 5);
    const row = encodeCall(plain, { parentCallId: null, usualSampling: samplingText(plain.sampling) });
    expect(row).toMatchObject({ sampling: null, more: null, weight_version: "7" });
    expect(row.address).toHaveLength(32);
    expect(row.digest).toHaveLength(32);
    const { tokens, ...texts } = encodePayload(plain);
    expect(tokens).toHaveLength(2 * 4 + 2 * 8);
    expect(texts).toEqual({ messages: null, answer: null });
  });

  test("ids that share a random ending keep it once, as bytes", () => {
    const unique = "0123456789abcdef0123456789abcdef";
    const admitted = { ...ADMITTED, callId: callId(`call-${unique}`) };
    const call = settleCall(answer(admitted, { more: { responseId: `chatcmpl-${unique}` } }), 5);
    const row = encodeCall(call, PLACE);
    expect(row).toMatchObject({ response_id: "chatcmp", response_tail: 34 });
    expect(row.call_id).toHaveLength("call-".length + 1 + 16);
    expect(decodeSummary(row, PLACE)).toMatchObject({ callId: call.callId, responseId: call.responseId });
  });

  test("columns that nobody wrote are not read as a call", () => {
    const call = settleCall(answer(ADMITTED), 5);
    const row = encodeCall(call, PLACE);
    const payload = encodePayload(call);
    expect(() => decodeCall({ ...row, status: 9 }, payload, PLACE)).toThrow("status 9");
    expect(() => decodeCall({ ...row, more: "{" }, payload, PLACE)).toThrow(SyntaxError);
    expect(() => decodeCall({ ...row, sampling: null }, payload, PLACE)).toThrow();
    for (const tokens of [payload.tokens.subarray(1), Buffer.concat([payload.tokens, Buffer.alloc(4)])]) {
      expect(() => decodeCall(row, { ...payload, tokens }, PLACE)).toThrow("where 24 were written");
    }
  });

  test("picking keeps the fields of a call and copies views of larger buffers", () => {
    const buffer = Uint32Array.from({ length: 100 }, (_, index) => index);
    const pending = answer(ADMITTED, { more: { carriedTokenIds: buffer.subarray(3, 5) } });
    const picked = pickFields({ ...pending, stray: 1 } as never);
    expect(picked).toEqual(pending);
    expect(picked.carriedTokenIds.buffer.byteLength).toBe(8);
  });
});
