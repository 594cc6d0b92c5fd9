// The public face of `coppice/agent`: what an agent written in JavaScript needs to be recorded by a gateway.
export { AgentError, type AgentErrorCode } from "./agent-error.ts";
export type { Answer, ToolCall } from "./answer.ts";
export type { ChatClient, ChatMessage, ChatPromise, RequestFields } from "./chat-client.ts";
export { compose } from "./compose.ts";
export type {
  AskOptions,
  ConversationOptions,
  FinishOptions,
  ForkOptions,
  Observation,
} from "./conversation-options.ts";
export { Conversation } from "./conversation.ts";
export { fileJournal, memoryJournal, type Journal, type RootKind } from "./journal.ts";
export {
  everyActions,
  none,
  type EveryActionsOptions,
  type Policy,
  type PolicyCallOptions,
  type PolicyInput,
} from "./policy.ts";
export { recency, type RecencyOptions } from "./recency.ts";
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
export type { CallNote, RejectedAnswer } from "./rollout-record.ts";
export {
  afterActions,
  always,
  anyOf,
  onDemand,
  overTokens,
  scheduled,
  whenFull,
  type Schedule,
} from "./schedule.ts";
export { summarise, type SummariseOptions } from "./summarise.ts";
export { tokenBudget, type TokenBudgetOptions } from "./token-budget.ts";
export { readTranscript, readTranscriptText, type Transcript, type TranscriptKind } from "./transcript.ts";
export { rolloutMiddleware, type RolloutMiddleware } from "./ai-sdk.ts";
export { answerLog, callHeaders, type AnswerLog } from "./answer-log.ts";
export { anthropicClient, type AnthropicLike } from "./anthropic-client.ts";
export { notedProvider } from "./openai-agents.ts";
