// One answer of the model, read from a whole completion or from a finished stream. An answer is frozen: what the
// agent accepts is sent back exactly as it came.
import { z } from "zod";
import { AgentError } from "./agent-error.ts";
import { deepFreeze, type ChatMessage } from "./chat-client.ts";

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** The arguments as the model wrote them, unparsed. */
  readonly arguments: string;
}

export interface Answer {
  /** The assistant message as it came, unknown fields included. */
  readonly message: ChatMessage;
  /** The message's text; "" where it has none. */
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  readonly responseId: string;
  /** The gateway's id of the call; null where the client does not show response headers. */
  readonly callId: string | null;
  readonly finishReason: string;
  /** Token counts as the engine reported them; null where it did not. */
  readonly usage: { readonly promptTokens: number; readonly completionTokens: number } | null;
}

const toolCallSchema = z.looseObject({
  id: z.string(),
  function: z.looseObject({ name: z.string(), arguments: z.string() }).optional(),
  custom: z.looseObject({ name: z.string(), input: z.string() }).optional(),
});

const usageSchema = z.looseObject({ prompt_tokens: z.number(), completion_tokens: z.number() });

const completionSchema = z.looseObject({
  id: z.string().min(1),
  choices: z
    .array(
      z.looseObject({
        message: z.looseObject({
          role: z.string(),
          content: z.unknown().optional(),
          tool_calls: z.array(toolCallSchema).nullish(),
        }),
        finish_reason: z.string(),
      }),
    )
    .min(1),
  usage: usageSchema.nullish(),
});

/** Reads a chat completion. Throws `incomplete_answer` where it is none. */
export function readCompletion(completion: unknown, callId: string | null): Answer {
  const parsed = completionSchema.safeParse(completion);
  if (!parsed.success) {
    throw new AgentError(
      "incomplete_answer",
      `the answer is no chat completion: ${z.prettifyError(parsed.error).replaceAll(/\s*\n\s*/g, " ")}`,
      { cause: parsed.error },
    );
  }
  const { id, choices, usage } = parsed.data;
  const choice = choices[0] as (typeof choices)[number];
  return deepFreeze({
    message: structuredClone(choice.message) as ChatMessage,
    text: textOf(choice.message.content),
    toolCalls: (choice.message.tool_calls ?? []).map(readToolCall),
    responseId: id,
    callId,
    finishReason: choice.finish_reason,
    usage:
      usage === null || usage === undefined
        ? null
        : { promptTokens: usage.prompt_tokens, completionTokens: usage.completion_tokens },
  });
}

function readToolCall(call: z.infer<typeof toolCallSchema>): ToolCall {
  return {
    id: call.id,
    name: call.function?.name ?? call.custom?.name ?? "",
    arguments: call.function?.arguments ?? call.custom?.input ?? "",
  };
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part: unknown) => {
      const text = typeof part === "object" && part !== null && "text" in part ? part.text : "";
      return typeof text === "string" ? text : "";
    })
    .join("");
}
