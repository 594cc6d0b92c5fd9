// A model provider for the OpenAI Agents SDK that stands before its own one and notes the answers. Structural types: the
// SDK is the user's, and no dependency. Reference: https://openai.github.io/openai-agents-js/guides/models/
import type { AnswerLog } from "./answer-log.ts";

/** What is needed of the SDK's `Model`; other members are the inner model's own. */
interface ModelLike {
  getResponse(request: never): Promise<{ readonly responseId?: string | undefined }>;
  getStreamedResponse(request: never): AsyncIterable<object>;
}

interface ProviderLike<M extends ModelLike> {
  getModel(name?: string): M | Promise<M>;
}

/** `new Runner({ modelProvider: notedProvider(new OpenAIProvider({ openAIClient }), log) })` */
export function notedProvider<M extends ModelLike>(
  provider: ProviderLike<M>,
  log: AnswerLog,
): { getModel(name?: string): Promise<M> } {
  return {
    getModel: async (name) => notedModel(await provider.getModel(name), log),
  };
}

function notedModel<M extends ModelLike>(model: M, log: AnswerLog): M {
  const noted: ModelLike = {
    async getResponse(request) {
      const response = await model.getResponse(request);
      if (response.responseId !== undefined) log.note(response.responseId);
      return response;
    },
    async *getStreamedResponse(request) {
      for await (const event of model.getStreamedResponse(request)) {
        const { type, response } = event as {
          readonly type?: string;
          readonly response?: { readonly id?: string };
        };
        if (type === "response_done" && response?.id !== undefined) log.note(response.id);
        yield event;
      }
    },
  };
  // What else the model has, retry advice for one, stays its own.
  return Object.assign(Object.create(model) as M, noted);
}
