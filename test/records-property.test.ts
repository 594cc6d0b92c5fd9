// What stands in a record and how it is written down, over random values: the digest covers every field, bytes read
// back to what they were made of, and a trace that was exported makes the same records and rows again.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatFloat32 } from "../src/export/json-lines.ts";
import { readTrace, recordsOf, rowsOfTrace, traceLines } from "../src/export/trace.ts";
import { rolloutId, type Call } from "../src/lineage/call.ts";
import { digestCall, settleCall } from "../src/lineage/record-digest.ts";
import { logprobBytes, logprobsFromBytes, tokenBytes, tokensFromBytes } from "../src/lineage/sequence.ts";
import { call, records } from "../src/lineage/testing/records.ts";
import { randomTrace, seedOf, type TraceLine } from "./naive/random-trace.ts";

function hold<T>(name: string, values: fc.Arbitrary<T>, check: (value: T) => void, numRuns = 500): void {
  fc.assert(fc.property(values, check), { seed: seedOf(name), numRuns });
}

/** Values that differ from the given one: each of them must change the digest. */
function variantsOf(value: unknown): readonly unknown[] {
  if (value instanceof Uint32Array) {
    return [
      Uint32Array.of(...value, 0),
      value.slice(1),
      ...Array.from(value, (id, index) => value.with(index, id ^ 0x8000_0000)),
    ].filter((variant) => String(variant) !== String(value));
  }
  if (value instanceof Float32Array) {
    const changed = Array.from(value, (logprob, index) => value.with(index, logprob - 1));
    return [Float32Array.of(...value, 0), Float32Array.of(...value, Number.NaN), value.slice(1), ...changed];
  }
  if (typeof value === "string") return [`${value}0`, `0${value}`, null];
  if (typeof value === "number") return [value + 1, -value - 1, String(value), null];
  if (typeof value === "boolean") return [!value];
  if (value === null) return ["", 0, "null", []];
  if (Array.isArray(value)) return [[...(value as unknown[]), "x"], [value], null];
  return [{ ...(value as object), more: 1 }, [value], null];
}

/** A call in which no field is empty or null, so that every one of them can be changed in several ways. */
function fullCall(): Call {
  const lines = [
    call("c0", [7], [1], { admitted_at: 0, committed_at: 0.5 }),
    call("c1", [7, 1, 2], [3, 4], {
      admitted_at: 1,
      committed_at: 1.5,
      messages: [{ role: "user", content: "go" }],
      answer: { role: "assistant", content: "gone" },
      status_detail: "sealed",
      untrainable: "counts differ",
      parent_call_id: "c0",
      media_digests: ["aa"],
      weight_versions: [
        { version: "3", start: 0 },
        { version: "4", start: 1 },
      ],
      sampling: { asked: { temperature: 1 }, used: { temperature: 0.5 } },
      notes: ["blanked a line"],
      agent: "main",
      class: "compaction",
      logprobs_mode: "raw",
    }),
  ];
  const full = records(...lines)[1] as Call;
  return settleCall({ ...full, rootReason: { kind: "rewrite" } }, 9);
}

describe("the digest of a record", () => {
  it("changes with any one field", () => {
    const full = fullCall();
    const fields = Object.keys(full).filter((field) => field !== "digest");
    expect(fields.length).toBeGreaterThan(30);
    for (const field of fields) {
      const value = full[field as keyof Call];
      for (const variant of variantsOf(value)) {
        expect(digestCall({ ...full, [field]: variant }), `${field} ${String(variant)}`).not.toBe(
          full.digest,
        );
      }
      expect(value, field).not.toBe(null);
      if (ArrayBuffer.isView(value)) continue;
      const { [field as keyof Call]: _gone, ...rest } = full;
      expect(digestCall(rest as Call), `${field} left out`).not.toBe(full.digest);
    }
  });

  it("changes with any token or log-prob, and when a token moves from one side to the other", () => {
    const ids = fc.uint32Array({ minLength: 1, maxLength: 5 });
    const tokens = fc.tuple(ids, ids, fc.float32Array({ minLength: 1, maxLength: 5 }));
    hold("digest covers tokens", tokens, ([carried, generated, logprobs]) => {
      const full = { ...fullCall(), carriedTokenIds: carried, generatedTokenIds: generated };
      const record = { ...full, generatedLogprobs: logprobs };
      const digest = digestCall(record);
      const others = [
        ...variantsOf(carried).map((variant) => ({ ...record, carriedTokenIds: variant as Uint32Array })),
        ...variantsOf(generated).map((variant) => ({ ...record, generatedTokenIds: variant as Uint32Array })),
        { ...record, generatedLogprobs: Float32Array.of(...logprobs, 0) },
        {
          ...record,
          carriedTokenIds: Uint32Array.of(...carried, generated[0] as number),
          generatedTokenIds: generated.slice(1),
        },
      ];
      for (const other of others) expect(digestCall(other)).not.toBe(digest);
      expect(digestCall({ ...record })).toBe(digest);
    });
  });

  it("is the same however the fields were put together", () => {
    const full = fullCall();
    const reversed = Object.fromEntries(Object.entries(full).reverse()) as unknown as Call;
    expect(digestCall(reversed)).toBe(full.digest);
  });
});

describe("bytes of ids and log-probs", () => {
  it("read back to the same ids, wherever in memory they lie", () => {
    hold("bytes of ids", fc.tuple(fc.uint32Array({ maxLength: 40 }), fc.nat(3)), ([ids, offset]) => {
      const bytes = tokenBytes(ids);
      expect(bytes).toHaveLength(4 * ids.length);
      for (const [index, id] of ids.entries()) expect(bytes.readUInt32LE(4 * index)).toBe(id);
      const moved = new Uint8Array(bytes.length + offset);
      moved.set(bytes, offset);
      expect(tokensFromBytes(moved.subarray(offset))).toEqual(ids);
    });
  });

  it("read back to the same log-probs, NaN and infinities included", () => {
    hold("bytes of log-probs", fc.float32Array({ maxLength: 40 }), (logprobs) => {
      expect(logprobsFromBytes(logprobBytes(logprobs))).toEqual(logprobs);
    });
  });

  it("write a log-prob as the shortest decimal that reads back to the same float32, with a point", () => {
    // Below 2^-126 a float32 has fewer digits than six; no log-prob lies there.
    const logprobs = fc.float({ noNaN: true, noDefaultInfinity: true }).filter((x) => Math.abs(x) > 1e-37);
    hold("log-probs as text", logprobs, (logprob) => {
      const text = formatFloat32(logprob);
      expect(Math.fround(Number(text))).toBe(logprob);
      expect(text).toMatch(/[.e]/);
      const digits = Array.from({ length: 9 }, (_, index) => Number(logprob.toPrecision(index + 1)));
      const shortest = digits.find((decimal) => Math.fround(decimal) === logprob) as number;
      expect(Number(text)).toBe(shortest);
    });
  });
});

/** A trace written down again from the records that were made of it. */
function exported(lines: readonly TraceLine[]): readonly TraceLine[] {
  const trace = readTrace(lines);
  return trace.rollouts.flatMap((rollout) =>
    [
      ...traceLines({ rolloutId: rollout.rolloutId, calls: recordsOf(rollout), outcome: rollout.outcome }),
    ].map((line) => JSON.parse(line) as TraceLine),
  );
}

/** Records by rollout, without the wall clock: an export tells the count of admissions and commits in its place. */
function recordsByRollout(lines: readonly TraceLine[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    readTrace(lines).rollouts.map((rollout) => [
      rolloutId(rollout.rolloutId),
      recordsOf(rollout).map(
        ({ admittedAt: _admitted, settledAt: _settled, digest: _digest, ...rest }) => rest,
      ),
    ]),
  );
}

describe("an exported trace", () => {
  it("makes the same records and the same rows and failures again", () => {
    hold(
      "export and import",
      randomTrace,
      (lines) => {
        const again = exported(lines);
        expect(recordsByRollout(again)).toEqual(recordsByRollout(lines));
        expect(rowsOfTrace(again)).toEqual(rowsOfTrace(lines));
        expect(exported(again)).toEqual(again);
      },
      250,
    );
  });
});
