// Which models there are, and how long a prompt is: the questions that clients ask beside their calls, in the shape of
// the API that they speak. A client of the Messages API is told by its version header.
import type { FastifyReply, FastifyRequest } from "fastify";
import { CoppiceError } from "../errors.ts";
import { parseJsonObject } from "../dialect/request-fields.ts";
import { decodeMessages } from "../dialect/messages-request.ts";
import type { Engine, EngineModel } from "../engine/engine.ts";
import type { ModelNames } from "./model-names.ts";

export interface ModelParts {
  readonly engine: Engine;
  readonly models: ModelNames;
}

/** Of a model whose age nobody knows. */
const NO_TIME = "1970-01-01T00:00:00Z";

export async function sendModels(
  request: FastifyRequest,
  reply: FastifyReply,
  { engine }: ModelParts,
): Promise<void> {
  const models = await engine.models();
  const shape = speaksMessages(request) ? messagesModel : openAiModel;
  const list = models.map(shape);
  await reply.send(
    speaksMessages(request)
      ? { data: list, has_more: false, first_id: models[0]?.id ?? null, last_id: models.at(-1)?.id ?? null }
      : { object: "list", data: list },
  );
}

/** Any name is a model: the policy, or what the operator's mapping says. */
export async function sendModel(
  request: FastifyRequest,
  reply: FastifyReply,
  { models }: ModelParts,
): Promise<void> {
  const { "*": id } = request.params as { readonly "*": string };
  const maxModelLength = await models.maxModelLength(await models.resolve(id));
  await reply.send((speaksMessages(request) ? messagesModel : openAiModel)({ id, maxModelLength }));
}

/** Tokens of a Messages request as a prompt, by the engine's own tokenizer. Nothing is sampled and nothing recorded. */
export async function sendTokenCount(
  request: FastifyRequest,
  reply: FastifyReply,
  parts: ModelParts & { readonly signal: AbortSignal },
): Promise<void> {
  const body = parseJsonObject((request.body ?? Buffer.alloc(0)) as Buffer);
  const asked = decodeMessages(body, false);
  const model = await parts.models.resolve(asked.model);
  await reply.send({ input_tokens: await countTokens({ ...asked.body, model }, parts) });
}

async function countTokens(
  body: Readonly<Record<string, unknown>>,
  { engine, signal }: { readonly engine: Engine; readonly signal: AbortSignal },
): Promise<number> {
  const { tokenIn } = engine;
  const messages = body["messages"] as readonly Readonly<Record<string, unknown>>[];
  let refusal: CoppiceError | null = null;
  if (engine.countTokens !== undefined) {
    try {
      return await engine.countTokens(body, signal);
    } catch (error) {
      if (!(error instanceof CoppiceError) || tokenIn === undefined) throw error;
      refusal = error;
    }
  }
  if (tokenIn === undefined) {
    throw new CoppiceError("engine_error", `the engine at ${engine.url} cannot count tokens of messages`, {
      status: 501,
    });
  }
  try {
    return (await tokenIn.render({ body, messages, ending: "as asked", signal })).ids.length;
  } catch (error) {
    throw refusal ?? error;
  }
}

function speaksMessages(request: FastifyRequest): boolean {
  return request.headers["anthropic-version"] !== undefined;
}

function openAiModel({ id, maxModelLength }: EngineModel): object {
  return {
    id,
    object: "model",
    created: 0,
    owned_by: "coppice",
    ...(maxModelLength === null ? {} : { max_model_len: maxModelLength }),
  };
}

function messagesModel({ id, maxModelLength }: EngineModel): object {
  return {
    type: "model",
    id,
    display_name: id,
    created_at: NO_TIME,
    ...(maxModelLength === null ? {} : { max_input_tokens: maxModelLength }),
  };
}
