// Rows for export tests: the worked example from its trace, a row of four tokens, every vector, and random rows.
import { readdirSync, readFileSync } from "node:fs";
import fc from "fast-check";
import { callId, rolloutId } from "../../lineage/call.ts";
import type { Row, RolloutRows } from "../../rows/row.ts";
import { buildTraceRows, readTrace } from "../trace.ts";

const repository = new URL("../../../", import.meta.url);

export function readLines(path: string): unknown[] {
  return readFileSync(new URL(path, repository), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as unknown);
}

/** The worked group, compaction on; `near` log-probs differ at each token, `flat` are all -0.5. */
export function workedRollouts(kind: "near" | "flat" = "near"): RolloutRows[] {
  return buildTraceRows(readTrace(readLines(`interop/fixtures/${kind}.trace.jsonl`)));
}

export function rowsOf(rollouts: readonly RolloutRows[]): Row[] {
  return rollouts.flatMap((rollout) => (rollout.kind === "rows" ? rollout.rows : []));
}

/** Context and trained tokens in turn: every shift and every cut on the wrong side shows. */
export function fourTokens(change: Partial<Row> = {}): Row {
  return {
    rowId: "g0_g0_s0",
    rolloutId: rolloutId("r0"),
    groupId: "g0",
    generationIndex: 0,
    segmentIndex: 0,
    segmentCount: 1,
    tokenIds: Uint32Array.of(10, 1001, 20, 1002),
    lossMask: Uint8Array.of(0, 1, 0, 1),
    logprobs: Float32Array.of(0, -0.25, 0, -0.1),
    promptLength: 1,
    callIds: [callId("c1"), callId("c2")],
    spans: [
      { callId: callId("c1"), start: 0, carried: 1, generated: 1, trained: true, temperature: 0.7 },
      { callId: callId("c2"), start: 2, carried: 1, generated: 1, trained: true, temperature: 0.7 },
    ],
    weightVersions: [
      { version: "7", start: 1, end: 2 },
      { version: "8", start: 3, end: 4 },
    ],
    reward: 1,
    advantage: 0.5,
    rowTrainableTokens: 2,
    rolloutTrainableTokens: 2,
    treesNotWalked: 0,
    finishReason: "stop",
    temperature: 0.7,
    logprobsMode: "raw",
    tokenWeight: null,
    ...change,
  };
}

export interface Vector {
  readonly name: string;
  readonly rollouts: readonly RolloutRows[];
}

export function vectors(): Vector[] {
  const folder = new URL("vectors/", repository);
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .sort()
    .map((file) => {
      const { name, trace } = JSON.parse(readFileSync(new URL(file, folder), "utf8")) as {
        name: string;
        trace: unknown[];
      };
      return { name, rollouts: buildTraceRows(readTrace(trace)) };
    });
}

interface Turn {
  readonly carried: number[];
  readonly generated: { readonly id: number; readonly logprob: number }[];
  readonly trained: boolean;
}

const tokenId = fc.integer({ min: 0, max: 0x7fff_ffff });

const turn: fc.Arbitrary<Turn> = fc.record({
  carried: fc.array(tokenId, { minLength: 1, maxLength: 4 }),
  generated: fc.array(
    fc.record({ id: tokenId, logprob: fc.float({ min: -30, max: Math.fround(-0.001), noNaN: true }) }),
    { minLength: 1, maxLength: 4 },
  ),
  trained: fc.boolean(),
});

/** A rollout of one to three rows, each of one to four calls, at least one of them trained. */
export const randomRollout: fc.Arbitrary<Row[]> = fc
  .record({
    rows: fc.array(
      fc.array(turn, { minLength: 1, maxLength: 4 }).filter((turns) => turns.some(({ trained }) => trained)),
      { minLength: 1, maxLength: 3 },
    ),
    reward: fc.double({ min: -2, max: 2, noNaN: true }),
    advantage: fc.double({ min: -2, max: 2, noNaN: true }),
    generationIndex: fc.nat(7),
    group: fc.string({ minLength: 1, maxLength: 8 }),
  })
  .map(({ rows, reward, advantage, generationIndex, group }) => {
    const trainable = (turns: readonly Turn[]): number =>
      turns.reduce((sum, { trained, generated }) => sum + (trained ? generated.length : 0), 0);
    const rolloutTrainableTokens = rows.reduce((sum, turns) => sum + trainable(turns), 0);
    return rows.map((turns, segmentIndex) =>
      fourTokens({
        ...joinTurns(turns),
        rowId: `${group}_g${generationIndex}_s${segmentIndex}`,
        rolloutId: rolloutId(`r${generationIndex}`),
        groupId: group,
        generationIndex,
        segmentIndex,
        segmentCount: rows.length,
        reward,
        advantage,
        rowTrainableTokens: trainable(turns),
        rolloutTrainableTokens,
      }),
    );
  });

function joinTurns(turns: readonly Turn[]): Partial<Row> {
  const tokenIds: number[] = [];
  const lossMask: number[] = [];
  const logprobs: number[] = [];
  const spans: Row["spans"][number][] = [];
  const weightVersions: Row["weightVersions"][number][] = [];
  for (const [index, { carried, generated, trained }] of turns.entries()) {
    const start = tokenIds.length;
    const counts = { carried: carried.length, generated: generated.length };
    spans.push({ callId: callId(`c${index}`), start, ...counts, trained, temperature: 0.7 });
    tokenIds.push(...carried, ...generated.map(({ id }) => id));
    lossMask.push(...carried.map(() => 0), ...generated.map(() => (trained ? 1 : 0)));
    logprobs.push(...carried.map(() => 0), ...generated.map(({ logprob }) => (trained ? logprob : 0)));
    weightVersions.push({ version: String(index), start: start + carried.length, end: tokenIds.length });
  }
  return {
    tokenIds: Uint32Array.from(tokenIds),
    lossMask: Uint8Array.from(lossMask),
    logprobs: Float32Array.from(logprobs),
    promptLength: turns[0]?.carried.length ?? 0,
    callIds: spans.map(({ callId }) => callId),
    spans,
    weightVersions,
  };
}
