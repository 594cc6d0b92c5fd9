// A settled call as a span of the GenAI conventions: names, counts and reasons, neither prompt nor answer.
import type { CapturedCall } from "../lineage/record-call.ts";
import type { AdmittedCall } from "./recorder.ts";
import type { CallSpan } from "./trace-export.ts";

/** @param captured one a choice; the first has the prompt */
export function callSpan(
  call: AdmittedCall,
  captured: readonly CapturedCall[],
  given: { readonly commitMs: number; readonly engine: string },
): CallSpan {
  const { request } = call;
  const first = captured[0] as CapturedCall;
  const isText = request.idPrefix === "cmpl-";
  const operation = isText ? "text_completion" : "chat";
  const failed = captured.find(({ status }) => status !== "committed");
  const generated = captured.reduce((sum, { generatedTokenIds }) => sum + generatedTokenIds.length, 0);
  return {
    traceParent: request.traceParent,
    name: request.model === null ? operation : `${operation} ${request.model.slice(0, 200)}`,
    startedAt: call.admittedAt,
    endedAt: Date.now(),
    error: failed?.status ?? null,
    attributes: {
      "gen_ai.operation.name": operation,
      "gen_ai.provider.name": given.engine,
      "gen_ai.request.model": request.model?.slice(0, 200) ?? null,
      "gen_ai.request.choice.count": request.choices === 1 ? null : request.choices,
      "gen_ai.conversation.id": request.rolloutId,
      "gen_ai.agent.name": request.agent,
      "gen_ai.response.id": call.responseId,
      "gen_ai.response.finish_reasons": captured.flatMap(({ finishReason }) => finishReason ?? []),
      "gen_ai.usage.input_tokens": first.promptTokenIds?.length ?? null,
      "gen_ai.usage.output_tokens": generated,
      "coppice.call.id": first.callId,
      "coppice.attempt": call.attempt,
      "coppice.way": first.way,
      "coppice.late": call.late,
      "coppice.untrainable": first.untrainable,
      "coppice.commit_ms": Math.round(given.commitMs * 1000) / 1000,
    },
  };
}
