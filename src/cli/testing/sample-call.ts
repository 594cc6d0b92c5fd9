// One committed call of two prompt and two generated tokens, for tests of commands.
import type { CapturedCall } from "../../lineage/record-call.ts";

export function sampleCall(
  given: Pick<CapturedCall, "rolloutId" | "callId" | "responseId" | "admittedOrder">,
): CapturedCall {
  return {
    ...given,
    attempt: 1,
    status: "committed",
    statusDetail: null,
    admittedAt: 1,
    settledAt: 2,
    namedParent: null,
    promptTokenIds: Uint32Array.of(10, 11),
    generatedTokenIds: Uint32Array.of(1001, 1002),
    generatedLogprobs: Float32Array.of(-0.25, -0.5),
    mediaDigests: [],
    finishReason: "stop",
    untrainable: null,
    weightVersions: [{ version: "1", start: 0 }],
    way: "text",
    notes: [],
    sampling: { asked: {}, used: {} },
    logprobsMode: "raw",
    agent: null,
    class: null,
    messages: null,
    answer: null,
  };
}
