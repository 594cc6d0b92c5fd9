// Why a call is a root, in full: for a drift, where its prompt leaves the sequence that its messages go on from, with
// both ids and the text around. Only drifts cost anything: one read of the ledger and two short questions to the engine.
import type { RootReason } from "../lineage/call.ts";
import { firstDifference, type RootKind } from "../lineage/record-call.ts";
import type { Engine } from "../engine/engine.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** Tokens of text told on either side of the difference. */
const AROUND = 8;

/** The commit waits for the text no longer than this; without it the drift has ids alone. */
const TEXT_WITHIN_MS = 500;

export async function describeRoot(
  root: RootKind | null,
  prompt: Uint32Array,
  { ledger, engine }: { readonly ledger: Ledger; readonly engine: Engine },
): Promise<RootReason | null> {
  if (root?.kind !== "drift") return root;
  const { callId } = root.followed;
  const expected = await ledger.sequence(callId);
  // Swept between the search and here: nothing is left to compare with.
  if (expected === null) return { kind: "unknown" };
  const index = firstDifference(expected, prompt);
  const signal = AbortSignal.timeout(TEXT_WITHIN_MS);
  const [expectedText, actualText] = await Promise.all(
    [expected, prompt].map((ids) =>
      withinSignal(engine.detokenize(ids.slice(Math.max(0, index - AROUND), index + AROUND), signal), signal),
    ),
  );
  return {
    kind: "drift",
    followedCallId: callId,
    index,
    expectedId: expected[index] ?? null,
    actualId: prompt[index] ?? null,
    expectedText: expectedText ?? null,
    actualText: actualText ?? null,
  };
}

/** Null once the signal fires, whether or not whoever answers minds it. */
function withinSignal(answer: Promise<string | null>, signal: AbortSignal): Promise<string | null> {
  return new Promise((resolve) => {
    const stop = (): void => resolve(null);
    signal.addEventListener("abort", stop, { once: true });
    answer.then(resolve, stop).finally(() => signal.removeEventListener("abort", stop));
  });
}
