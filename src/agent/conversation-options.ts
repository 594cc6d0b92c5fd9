// What a conversation is made of and what its calls take, and the checks on it: every fault names the argument, its
// value and what would be right.
import { AgentError } from "./agent-error.ts";
import type { Answer } from "./answer.ts";
import { frozenMessage, type ChatClient, type ChatMessage, type RequestFields } from "./chat-client.ts";
import type { Policy } from "./policy.ts";
import type { Journal } from "./journal.ts";
import type { GatewayOptions } from "./rollout-api.ts";

export interface ConversationOptions {
  /** An `openai` client, or one that has its `chat.completions.create`, whose base URL is the gateway. */
  readonly client: ChatClient;
  readonly rolloutId: string;
  readonly model: string;
  /** Text of the system message. */
  readonly system?: string;
  /** The task, as the first user message. */
  readonly task?: string;
  /** More first messages, after system and task. One of the three must give a message. */
  readonly messages?: readonly ChatMessage[];
  /** Default: no compaction. */
  readonly policy?: Policy;
  /** How many answers of one action may be rejected and asked again; 3 by default. */
  readonly maxRejections?: number;
  /** Sent with every call: `temperature`, `max_tokens`, `tools` and so on. `n` must be 1. */
  readonly request?: RequestFields;
  /** `drop` leaves the reasoning out of accepted answers when they are sent back; by default they go back as they came. */
  readonly reasoning?: "keep" | "drop";
  /** Tokens that the engine's context holds: a view that would not fit is compacted, or refused, before it is sent. */
  readonly contextLimit?: number;
  /** Where each answer and each decision is written down; with entries in it the conversation goes on where they end. */
  readonly journal?: Journal;
  /** Where the outcome goes; by default the client's base URL without its `/r/...` and `/v1`. */
  readonly gatewayUrl?: string;
  /** By default the client's key. */
  readonly apiKey?: string;
}

/** What the agent saw since its last action: text for a user message, or messages (tool results). */
export type Observation = string | ChatMessage | readonly ChatMessage[];

export interface AskOptions {
  /** Read the answer as a stream; `onText` then hears its text piece by piece. */
  readonly stream?: boolean;
  readonly onText?: (text: string) => void;
  /** For this call alone, over the conversation's own. */
  readonly request?: RequestFields;
  readonly signal?: AbortSignal;
}

/** What a fork has of its own; the rest is the conversation's that it was forked from. */
export interface ForkOptions {
  /** With system, task or messages the fork starts afresh from them; without, it goes on from the history here. */
  readonly system?: string;
  readonly task?: string;
  readonly messages?: readonly ChatMessage[];
  /** Goes on from this accepted answer instead of the last one. */
  readonly after?: Answer;
  readonly client?: ChatClient;
  readonly model?: string;
  /** Default: no compaction. */
  readonly policy?: Policy;
  readonly maxRejections?: number;
  readonly request?: RequestFields;
}

export interface FinishOptions {
  /** May be left out and added once later, with `postOutcome`. */
  readonly reward?: number;
  /** `accepted` (the default) posts every accepted response in order, `final` only the last. */
  readonly form?: "accepted" | "final";
  readonly groupId?: string;
  readonly generationIndex?: number;
}

export function toMessages(observation: Observation | undefined): readonly ChatMessage[] {
  if (observation === undefined) return Object.freeze([]);
  if (typeof observation === "string") return toMessages({ role: "user", content: observation });
  const messages = Array.isArray(observation)
    ? (observation as readonly ChatMessage[])
    : [observation as ChatMessage];
  return Object.freeze(messages.map(frozenMessage));
}

export type FirstMessages = Pick<ConversationOptions, "system" | "task" | "messages">;

export function firstMessages({ system, task, messages = [] }: FirstMessages): ChatMessage[] {
  const head = [
    ...(system === undefined ? [] : [{ role: "system", content: system }]),
    ...(task === undefined ? [] : [{ role: "user", content: task }]),
    ...messages,
  ].map(frozenMessage);
  if (head.length === 0) {
    throw new AgentError(
      "invalid_argument",
      "a conversation needs a first message: system, task or messages",
    );
  }
  return head;
}

export function gatewayOf({ client, gatewayUrl, apiKey }: ConversationOptions): GatewayOptions {
  const url = gatewayUrl ?? client.baseURL?.replace(/(\/r\/[^/]+(\/a\/[^/]+)?)?(\/v1)*\/*$/, "");
  if (url === undefined || url === "") {
    throw new AgentError("invalid_argument", "gatewayUrl is needed: the client does not show its baseURL");
  }
  const key = apiKey ?? (typeof client.apiKey === "string" ? client.apiKey : undefined);
  return { gatewayUrl: url, ...(key === undefined ? {} : { apiKey: key }) };
}

export function checkRequest(request: RequestFields): RequestFields {
  const n = request["n"];
  if (n !== undefined && n !== null && n !== 1) {
    throw new AgentError(
      "invalid_argument",
      `request.n is ${JSON.stringify(n)}; a conversation asks for one answer a call`,
    );
  }
  return request;
}

export function finite(name: string, value: number | undefined): number | null {
  if (value === undefined) return null;
  if (Number.isFinite(value)) return value;
  throw new AgentError("invalid_argument", `${name} is ${value}; it must be a finite number`);
}

export function nonEmpty(name: string, value: string): string {
  if (typeof value === "string" && value !== "") return value;
  throw new AgentError(
    "invalid_argument",
    `${name} is ${JSON.stringify(value)}; it must be a text that is not empty`,
  );
}

export function wholeNumber(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new AgentError("invalid_argument", `${name} is ${value}; it must be a whole number from 0 up`);
}
