// A middleware for the AI SDK's `wrapLanguageModel`: its calls say whose they are, and their answers are noted. Structural
// types: the SDK is the user's, and no dependency. Reference: https://ai-sdk.dev/docs/ai-sdk-core/middleware
import { callHeaders, type AnswerLog } from "./answer-log.ts";

type Params = { headers?: Record<string, string | undefined> };
type Generated = { response?: { id?: string } };
type Streamed = { stream: ReadableStream };

/** What the SDK takes as a middleware of its version 3 interface. */
export interface RolloutMiddleware {
  readonly specificationVersion: "v3";
  transformParams<P extends Params>(options: { readonly params: P }): Promise<P>;
  wrapGenerate<G extends Generated>(options: { readonly doGenerate: () => PromiseLike<G> }): Promise<G>;
  wrapStream<S extends Streamed>(options: { readonly doStream: () => PromiseLike<S> }): Promise<S>;
}

/** The provider's base URL is the gateway's `/r/ROLLOUT/v1`, or the gateway's `/v1` alone: the header says the rollout. */
export function rolloutMiddleware(
  rolloutId: string,
  log: AnswerLog,
  options: { readonly agent?: string } = {},
): RolloutMiddleware {
  const headers = callHeaders(rolloutId, options.agent);
  return {
    specificationVersion: "v3",
    transformParams: async ({ params }) => ({ ...params, headers: { ...params.headers, ...headers } }),
    wrapGenerate: async ({ doGenerate }) => {
      const result = await doGenerate();
      if (result.response?.id !== undefined) log.note(result.response.id);
      return result;
    },
    wrapStream: async ({ doStream }) => {
      const result = await doStream();
      return { ...result, stream: result.stream.pipeThrough(noting(log)) };
    },
  };
}

/** An answer is noted with its end: one that was cut short is not accepted by itself. */
function noting(log: AnswerLog): TransformStream {
  let id: string | null = null;
  return new TransformStream({
    transform(part: { readonly type: string; readonly id?: string }, controller) {
      if (part.type === "response-metadata" && part.id !== undefined) id = part.id;
      if (part.type === "finish" && id !== null) log.note(id);
      controller.enqueue(part);
    },
  });
}
