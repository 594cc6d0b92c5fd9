// Joins the chunks of one streamed chat completion into the completion that the model would have sent whole.
// Text in the delta is appended whatever its field is called (`content`, `reasoning`, `reasoning_content`, `refusal`);
// tool calls are joined by index. A stream that ends without a finish reason is an error: the official clients end
// such a stream silently short, and half an answer must not be taken for a whole one.
import { z } from "zod";
import { AgentError } from "./agent-error.ts";

const deltaSchema = z.looseObject({
  tool_calls: z.array(z.looseObject({ index: z.number().int().nonnegative() })).nullish(),
});

const chunkSchema = z.looseObject({
  id: z.string().optional(),
  choices: z.array(
    z.looseObject({
      index: z.number(),
      delta: deltaSchema.nullish(),
      finish_reason: z.string().nullish(),
    }),
  ),
  usage: z.unknown().optional(),
});

type Fields = Record<string, unknown>;

/** Fields that are said once and are not a piece of a longer text. */
const SAID_ONCE: ReadonlySet<string> = new Set(["role", "id", "type"]);

/**
 * Reads a stream to its end. `onText` hears each piece of the answer's text as it comes. Throws `incomplete_answer`
 * where a chunk cannot be read or the stream ends early.
 */
export async function joinChunks(
  chunks: AsyncIterable<unknown>,
  onText: (text: string) => void,
): Promise<unknown> {
  const message: Fields = {};
  const toolCalls: Fields[] = [];
  let id: string | null = null;
  let finishReason: string | null = null;
  let usage: unknown = null;
  for await (const raw of chunks) {
    const parsed = chunkSchema.safeParse(raw);
    if (!parsed.success) {
      throw new AgentError("incomplete_answer", "a chunk of the stream is no chat completion chunk", {
        cause: parsed.error,
      });
    }
    const chunk = parsed.data;
    id ??= chunk.id ?? null;
    usage = chunk.usage ?? usage;
    const choice = chunk.choices.find(({ index }) => index === 0);
    if (choice === undefined) continue;
    finishReason = choice.finish_reason ?? finishReason;
    const { tool_calls: pieces, ...said } = choice.delta ?? {};
    append(message, said);
    for (const { index, ...piece } of pieces ?? []) append((toolCalls[index] ??= {}), piece);
    if (typeof said["content"] === "string" && said["content"] !== "") onText(said["content"]);
  }
  if (finishReason === null) {
    throw new AgentError(
      "incomplete_answer",
      `the stream of ${id ?? "the answer"} ended without a finish reason: it was cut`,
    );
  }
  // A gap in the indices leaves a hole; what was told is kept in its order.
  const told = toolCalls.filter(() => true);
  if (told.length > 0) message["tool_calls"] = told;
  const whole = { role: "assistant", content: null, ...message };
  return { id, choices: [{ index: 0, message: whole, finish_reason: finishReason }], usage };
}

function append(target: Fields, piece: Fields): void {
  for (const [name, value] of Object.entries(piece)) {
    const before = target[name];
    if (value === undefined || value === null) target[name] ??= value;
    else if (typeof value === "string" && typeof before === "string" && !SAID_ONCE.has(name)) {
      target[name] = before + value;
    } else if (isFields(value)) {
      const inner = isFields(before) ? before : {};
      append(inner, value);
      target[name] = inner;
    } else target[name] = value;
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
