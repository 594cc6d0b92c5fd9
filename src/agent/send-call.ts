// One call of the model through the client that the agent has: its body, the headers by which the gateway knows whose it
// is, and the answer read whole. What the client throws passes through.
import { AgentError } from "./agent-error.ts";
import { readCompletion, type Answer } from "./answer.ts";
import type { ChatClient, ChatMessage, RequestFields } from "./chat-client.ts";
import { joinChunks } from "./join-chunks.ts";

export interface CallToSend {
  readonly client: ChatClient;
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  readonly request: RequestFields;
  readonly rolloutId: string;
  readonly agent: string | null;
  readonly class: "compaction" | "sub_agent" | null;
  /** Response id. */
  readonly parent: string | null;
  readonly stream: boolean;
  readonly onText?: ((text: string) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

export async function sendCall(call: CallToSend): Promise<Answer> {
  const { client, model, messages, request, stream, signal } = call;
  const body = {
    ...(stream ? { stream_options: { include_usage: true } } : {}),
    ...request,
    model,
    messages,
    ...(stream ? { stream } : {}),
  };
  const promise = client.chat.completions.create(body, {
    headers: headersOf(call),
    ...(signal === undefined ? {} : { signal }),
  });
  const { data, response } =
    promise.withResponse === undefined
      ? { data: await promise, response: null }
      : await promise.withResponse();
  const callId = response?.headers.get("x-coppice-call-id") ?? null;
  if (!stream) return readCompletion(data, callId);
  return readCompletion(await joinChunks(asChunks(data), call.onText ?? ignoreText), callId);
}

function headersOf({ rolloutId, agent, class: called, parent }: CallToSend): Record<string, string> {
  return {
    "x-coppice-rollout": rolloutId,
    ...(agent === null ? {} : { "x-coppice-agent": agent }),
    ...(called === null ? {} : { "x-coppice-class": called }),
    ...(parent === null ? {} : { "x-coppice-parent": parent }),
  };
}

function ignoreText(): void {
  // A stream that nobody listens to is read all the same: its end says that the answer is whole.
}

function asChunks(stream: unknown): AsyncIterable<unknown> {
  if (typeof stream === "object" && stream !== null && Symbol.asyncIterator in stream) {
    return stream as AsyncIterable<unknown>;
  }
  throw new AgentError("incomplete_answer", "the client gave no stream of chunks for a streamed call");
}

/** Whether an error of the client's is the engine's word that a prompt is longer than its context. */
export function saysContextFull(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return false;
  const { status, code, message } = error as Readonly<Record<string, unknown>>;
  if (status !== undefined && status !== 400) return false;
  return code === "context_length_exceeded" || /prompt is too long|context length/i.test(String(message));
}
