// Chains in, rows out: the tokens of a chain joined, with mask, log-probs and spans. The records were checked before
// and the group's advantage comes after (group.ts).
import { standsInForest, type Call } from "../lineage/call.ts";
import type { Forest } from "../lineage/forest.ts";
import type { Chain } from "../selection/select.ts";
import type { CallSpan, Row, RowWeightSpan } from "./row.ts";

/** Where rows belong: said by the outcome or the opening. */
export interface RowOwner {
  readonly groupId: string;
  readonly generationIndex: number;
  readonly reward: number | null;
}

/** The rows of all chains in order; a chain without a trainable token gives none. */
export function assembleRows(forest: Forest<Call>, chains: readonly Chain[], owner: RowOwner): Row[] {
  const training = chains
    .map((chain) => ({ chain, trainable: trainableTokens(chain) }))
    .filter(({ trainable }) => trainable > 0);
  const rolloutTrainableTokens = training.reduce((sum, { trainable }) => sum + trainable, 0);
  const walked = new Set(training.map(({ chain }) => chain.calls[0]));
  const treesNotWalked = forest.roots.filter((root) => standsInForest(root) && !walked.has(root)).length;
  return training.map(({ chain, trainable }, segmentIndex) => ({
    ...joinChain(chain),
    ...owner,
    rowId: `${owner.groupId}_g${owner.generationIndex}_s${segmentIndex}`,
    rolloutId: (chain.calls[0] as Call).rolloutId,
    segmentIndex,
    segmentCount: training.length,
    advantage: null,
    rowTrainableTokens: trainable,
    rolloutTrainableTokens,
    treesNotWalked,
    tokenWeight: null,
  }));
}

function trainableTokens({ calls, trained }: Chain): number {
  return calls.reduce((sum, call) => sum + (trained.has(call.callId) ? call.generatedLength : 0), 0);
}

type Joined = Pick<
  Row,
  | "tokenIds"
  | "lossMask"
  | "logprobs"
  | "promptLength"
  | "callIds"
  | "spans"
  | "weightVersions"
  | "finishReason"
  | "temperature"
  | "logprobsMode"
>;

/** One copy of each array, filled call by call. */
function joinChain({ calls, trained }: Chain): Joined {
  const length = calls.reduce((sum, call) => sum + call.carriedLength + call.generatedLength, 0);
  const tokenIds = new Uint32Array(length);
  const lossMask = new Uint8Array(length);
  const logprobs = new Float32Array(length);
  const spans: CallSpan[] = [];
  const weightVersions: RowWeightSpan[] = [];
  let at = 0;
  for (const call of calls) {
    const trains = trained.has(call.callId);
    const generatedAt = at + call.carriedLength;
    const end = generatedAt + call.generatedLength;
    tokenIds.set(call.carriedTokenIds, at);
    tokenIds.set(call.generatedTokenIds, generatedAt);
    if (trains) {
      lossMask.fill(1, generatedAt, end);
      logprobs.set(call.generatedLogprobs, generatedAt);
    }
    spans.push({
      callId: call.callId,
      start: at,
      carried: call.carriedLength,
      generated: call.generatedLength,
      trained: trains,
      temperature: temperatureOf(call),
    });
    addWeightSpans(weightVersions, call, generatedAt, end);
    at = end;
  }
  return {
    tokenIds,
    lossMask,
    logprobs,
    promptLength: (calls[0] as Call).carriedLength,
    callIds: calls.map((call) => call.callId),
    spans,
    weightVersions,
    finishReason: (calls.at(-1) as Call).finishReason,
    temperature: common(calls.map(temperatureOf)),
    logprobsMode: common(calls.map((call) => call.logprobsMode)),
  };
}

function addWeightSpans(spans: RowWeightSpan[], call: Call, generatedAt: number, end: number): void {
  for (const [index, { version, start }] of call.weightVersions.entries()) {
    const next = call.weightVersions[index + 1]?.start ?? call.generatedLength;
    const span = { version, start: generatedAt + start, end: Math.min(end, generatedAt + next) };
    if (span.start < span.end) spans.push(span);
  }
}

function temperatureOf(call: Call): number | null {
  const temperature = call.sampling.used["temperature"];
  return typeof temperature === "number" ? temperature : null;
}

function common<T>(values: readonly (T | null)[]): T | null {
  const first = values[0] ?? null;
  return values.every((value) => value === first) ? first : null;
}
