// Records for tests, made by the product's own path from short lines: `call("c1", [10, 11], [1001])`.
import { recordsOf } from "../../export/trace.ts";
import type { CallLine } from "../../export/trace-format.ts";
import { rolloutId, type Call } from "../call.ts";

export function call(
  id: string,
  prompt: readonly number[],
  generated: readonly number[],
  more: Partial<CallLine> = {},
): CallLine {
  return {
    type: "call",
    rollout_id: "r0",
    call_id: id,
    response_id: `resp-${id}`,
    prompt_token_ids: [...prompt],
    generated_token_ids: [...generated],
    generated_logprobs: generated.map((_, index) => -0.25 * (index + 1)),
    weight_version: "3",
    finish_reason: "stop",
    ...more,
  };
}

export function records(...lines: CallLine[]): Call[] {
  return recordsOf({ rolloutId: rolloutId("r0"), lines });
}

export function byId(calls: readonly Call[], id: string): Call {
  const found = calls.find((candidate) => candidate.callId === id);
  if (found === undefined) throw new Error(`no call ${id}`);
  return found;
}
