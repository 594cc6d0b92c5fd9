// Padding rows for trainers of a fixed shape: fully masked, advantage 0, each a rollout and a group of its own, added
// after all rows are final, so that they change no mean and no advantage.
import { rolloutId } from "../lineage/call.ts";
import type { Row } from "../rows/row.ts";

/**
 * How many padding rows bring `rows` to a multiple. Zero rows stay zero: a batch of nothing but padding trains nothing.
 */
export function paddingCount(rows: number, multiple: number): number {
  return rows === 0 ? 0 : (multiple - (rows % multiple)) % multiple;
}

/** Two tokens, since trainers want a prompt and a response of one token at least. */
export function paddingRow(index: number, tokenId = 0): Row {
  const name = `padding_${index}`;
  return {
    rowId: `${name}_g0_s0`,
    rolloutId: rolloutId(name),
    groupId: name,
    generationIndex: 0,
    segmentIndex: 0,
    segmentCount: 1,
    tokenIds: Uint32Array.of(tokenId, tokenId),
    lossMask: new Uint8Array(2),
    logprobs: new Float32Array(2),
    promptLength: 1,
    callIds: [],
    spans: [],
    weightVersions: [],
    reward: 0,
    advantage: 0,
    rowTrainableTokens: 0,
    rolloutTrainableTokens: 0,
    treesNotWalked: 0,
    finishReason: null,
    temperature: null,
    logprobsMode: null,
    tokenWeight: 0,
  };
}
