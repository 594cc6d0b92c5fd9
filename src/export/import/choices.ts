// Calls out of an OpenAI-style answer that carries token ids, as vLLM gives them with `return_token_ids`: prompt ids at
// the top or in the choice, `token_ids` in the choice, log-probs in `logprobs.content` (chat) or
// `logprobs.token_logprobs` (completions). Text is never tokenised again: without ids there is no call.
import { z } from "zod";
import type { Message } from "../../lineage/call.ts";
import type { CallLine } from "../trace-format.ts";
import { NotImportable } from "./logged.ts";

const ids = z.array(z.number().int().min(0).max(0xffff_ffff));
const logprob = z.number().nullable();

const choiceSchema = z.object({
  index: z.number().int().nullish(),
  prompt_token_ids: ids.nullish(),
  token_ids: ids.nullish(),
  finish_reason: z.string().nullish(),
  message: z.record(z.string(), z.unknown()).nullish(),
  logprobs: z
    .object({
      content: z.array(z.object({ token: z.string().nullish(), logprob })).nullish(),
      token_logprobs: z.array(logprob).nullish(),
    })
    .nullish(),
});

const answerSchema = z.object({
  id: z.string().nullish(),
  prompt_token_ids: ids.nullish(),
  choices: z.array(choiceSchema).min(1),
});

const requestSchema = z.object({
  messages: z.array(z.record(z.string(), z.unknown())).nullish(),
  temperature: z.number().nullish(),
});

type Choice = z.infer<typeof choiceSchema>;

export interface Answered {
  readonly rolloutId: string;
  /** Stands in for the id of an answer that has none. */
  readonly fallbackId: string;
  readonly request: unknown;
  readonly response: unknown;
  readonly weightVersion: string | null;
  readonly logprobsMode: string | null;
}

/** One call a choice; of several, choice k is `ID:k`. Throws `NotImportable` with the reason. */
export function callsOfAnswer(answered: Answered): CallLine[] {
  const parsed = answerSchema.safeParse(answered.response);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new NotImportable(`the answer's ${issue?.path.map(String).join(".")}: ${issue?.message}`);
  }
  const answer = parsed.data;
  const request = requestSchema.safeParse(answered.request).data ?? {};
  const id = answer.id ?? answered.fallbackId;
  return answer.choices.map((choice, index): CallLine => {
    const name = answer.choices.length === 1 ? id : `${id}:${choice.index ?? index}`;
    const prompt = answer.prompt_token_ids ?? choice.prompt_token_ids ?? answer.choices[0]?.prompt_token_ids;
    if (prompt === null || prompt === undefined) throw new NotImportable(lacking("prompt_token_ids"));
    const { temperature, messages } = request;
    return {
      type: "call",
      rollout_id: answered.rolloutId,
      call_id: name,
      response_id: name,
      prompt_token_ids: prompt,
      generated_token_ids: generatedIds(choice),
      generated_logprobs: logprobsOf(choice),
      weight_version: answered.weightVersion,
      finish_reason: choice.finish_reason ?? null,
      logprobs_mode: answered.logprobsMode,
      ...(temperature === null || temperature === undefined ? {} : { temperature }),
      ...(messages === null || messages === undefined ? {} : { messages }),
      ...(choice.message === null || choice.message === undefined
        ? {}
        : { answer: answerOf(choice.message) }),
    };
  });
}

const NAMED_TOKEN = /^token_id:(\d+)$/;

function generatedIds(choice: Choice): number[] {
  if (choice.token_ids !== null && choice.token_ids !== undefined) return choice.token_ids;
  // `return_tokens_as_token_ids` names tokens by their ids.
  const named = choice.logprobs?.content?.map(({ token }) => NAMED_TOKEN.exec(token ?? "")?.[1]);
  if (named !== undefined && named.length > 0 && named.every((id) => id !== undefined))
    return named.map(Number);
  throw new NotImportable(lacking("token_ids"));
}

function logprobsOf({ logprobs }: Choice): (number | null)[] {
  return logprobs?.content?.map((token) => token.logprob) ?? logprobs?.token_logprobs ?? [];
}

/** The engine's ids are no part of the message. */
function answerOf(message: Readonly<Record<string, unknown>>): Message {
  return { role: "assistant", ...message };
}

function lacking(field: string): string {
  return `the answer has no ${field}: text is not tokenised again, so record with the engine's return_token_ids on`;
}
