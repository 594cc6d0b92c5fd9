// Chat completions on the way back: the engine's own JSON under the ids that the gateway minted, without what capture
// added. Everything else stays as the engine wrote it.
// Reference: https://platform.openai.com/docs/api-reference/chat/object and .../chat/streaming
import { isRecord } from "../lineage/message.ts";

type Json = Readonly<Record<string, unknown>>;

export interface AnswerShape {
  readonly responseId: string;
  /** The name that the client asked for. */
  readonly model: string;
  readonly wantsLogprobs: boolean;
  readonly wantsUsage: boolean;
}

/** The terminator of a stream. */
export const DONE = "data: [DONE]\n\n";

/** The body of an answer that is not streamed. */
export function wholeAnswer(json: Json, shape: AnswerShape): string {
  const answer: Record<string, unknown> = { ...json, id: shape.responseId, model: shape.model };
  if (!shape.wantsLogprobs) answer["choices"] = withoutLogprobs(json["choices"]);
  return JSON.stringify(answer);
}

/** One chunk as an event; null for the usage chunk that the client did not ask for. */
export function chunkEvent(json: Json, shape: AnswerShape): string | null {
  const chunk: Record<string, unknown> = { ...json, id: shape.responseId, model: shape.model };
  const choices = json["choices"];
  if (!shape.wantsUsage && "usage" in chunk) {
    if (Array.isArray(choices) && choices.length === 0) return null;
    delete chunk["usage"];
  }
  if (!shape.wantsLogprobs) chunk["choices"] = withoutLogprobs(choices);
  return `data: ${JSON.stringify(chunk)}\n\n`;
}

/** Log-probs that nobody asked for read as an engine writes them then: null, where the field is there at all. */
function withoutLogprobs(choices: unknown): unknown {
  if (!Array.isArray(choices)) return choices;
  return choices.map((choice: unknown) =>
    isRecord(choice) && "logprobs" in choice ? { ...choice, logprobs: null } : choice,
  );
}

/** An answer that the engine gave whole, as chunks, for a client that asked for a stream. */
export function chunksOfWhole(json: Json): Json[] {
  const { choices, usage, object: _object, ...head } = json;
  const chunk = { ...head, object: "chat.completion.chunk" };
  const chunks: Json[] = [];
  for (const choice of Array.isArray(choices) ? choices.filter(isRecord) : []) {
    const { message, finish_reason, logprobs, ...rest } = choice;
    const delta = deltaOf(isRecord(message) ? message : {});
    chunks.push({ ...chunk, choices: [{ ...rest, delta, logprobs: logprobs ?? null, finish_reason: null }] });
    chunks.push({ ...chunk, choices: [{ ...rest, delta: {}, logprobs: null, finish_reason }] });
  }
  if (isRecord(usage)) chunks.push({ ...chunk, choices: [], usage });
  return chunks;
}

/** In a delta each tool call says which one it is. */
function deltaOf(message: Json): Json {
  const calls = message["tool_calls"];
  if (!Array.isArray(calls)) return message;
  return {
    ...message,
    tool_calls: calls.map((call: unknown, index) => (isRecord(call) ? { index, ...call } : call)),
  };
}
