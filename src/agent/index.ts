// The public face of `coppice/agent`: what an agent written in JavaScript needs to be recorded by a gateway.
export { AgentError, type AgentErrorCode } from "./agent-error.ts";
export type { Answer, ToolCall } from "./answer.ts";
export type { ChatClient, ChatMessage, ChatPromise, RequestFields } from "./chat-client.ts";
export type { AskOptions, ConversationOptions, FinishOptions, Observation } from "./conversation-options.ts";
export { Conversation, type RejectedAnswer } from "./conversation.ts";
export { everyActions, none, type EveryActionsOptions, type Policy, type PolicyInput } from "./policy.ts";
export {
  openRollout,
  postOutcome,
  rolloutBaseUrl,
  type GatewayAnswer,
  type GatewayOptions,
  type OpenRolloutFields,
  type OutcomeFields,
  type Reference,
} from "./rollout-api.ts";
