// How one action of a conversation is asked: the policy chooses a view, guards check it, the call is sent, and a context
// that is full makes the policy choose once more. Decisions and outcomes are the conversation's.
import { AgentError } from "./agent-error.ts";
import type { Answer } from "./answer.ts";
import { frozenMessage, type ChatMessage, type RequestFields } from "./chat-client.ts";
import { checkRequest, type AskOptions, type ConversationOptions } from "./conversation-options.ts";
import type { RootKind } from "./journal.ts";
import { messagesRequest } from "./messages-form.ts";
import type { Policy, PolicyCallOptions } from "./policy.ts";
import { countTokens, type GatewayOptions } from "./rollout-api.ts";
import type { AgentState, Answered, RolloutRecord } from "./rollout-record.ts";
import { saysContextFull, sendCall } from "./send-call.ts";
import { sizeOf } from "./units.ts";
import { checkView, continues } from "./view.ts";

export interface Asker extends Pick<ConversationOptions, "client" | "model" | "contextLimit"> {
  readonly rolloutId: string;
  readonly agent: string;
  readonly policy: Policy;
  readonly request: RequestFields;
  readonly gateway: GatewayOptions;
  readonly record: RolloutRecord;
}

/** A view that was chosen and may be asked, again and again. */
export interface Asked {
  readonly view: readonly ChatMessage[];
  readonly observation: readonly ChatMessage[];
  /** The view goes on from the last accepted answer. */
  readonly goesOn: boolean;
  /** Calls of the policy's that train once an answer to the view is had. */
  readonly trainWith: readonly string[];
  /** How often it was sent. */
  sent: number;
}

export interface Occasion {
  readonly contextFull: boolean;
  readonly demanded: boolean;
}

export async function chooseView(
  asker: Asker,
  state: AgentState,
  observation: readonly ChatMessage[],
  occasion: Occasion,
): Promise<Asked> {
  const { policy } = asker;
  const history = Object.freeze([...state.history, ...observation]);
  const last = state.path.at(-1);
  const continued = last === undefined ? history : Object.freeze([...last.view, last.said, ...observation]);
  const trainWith: string[] = [];
  const count = (messages: readonly ChatMessage[]): Promise<number> => countView(asker, messages);
  const view = await policy({
    history,
    head: state.head,
    observation,
    accepted: Object.freeze(state.path.map(({ answer }) => answer)),
    continued,
    actionsSinceRewrite: actionsSinceRewrite(state),
    ...occasion,
    count,
    call: (messages, options = {}) => policyCall(asker, state, messages, options, trainWith),
  });
  checkView(view, history, continued);
  const frozen = view.map((message) => (Object.isFrozen(message) ? message : frozenMessage(message)));
  const goesOn =
    last === undefined ? view.length >= history.length : continues(frozen, [...last.view, last.said]);
  // A call that came to nothing does not train.
  return {
    view: Object.freeze(frozen),
    observation,
    goesOn,
    trainWith: goesOn ? [] : trainWith,
    sent: 0,
  };
}

function actionsSinceRewrite({ path, inherited }: AgentState): number {
  const own = path.slice(inherited);
  const rewrite = own.findLastIndex(({ goesOn }) => !goesOn);
  return rewrite === -1 ? own.length : own.length - rewrite;
}

export function countView(
  { rolloutId, gateway, model, request }: Asker,
  messages: readonly ChatMessage[],
): Promise<number> {
  const { tools, tool_choice: choice } = request;
  const asked = {
    ...(tools === undefined ? {} : { tools }),
    ...(choice === undefined ? {} : { tool_choice: choice }),
  };
  return countTokens(rolloutId, { model, ...messagesRequest(messages, asked) }, gateway);
}

async function policyCall(
  asker: Asker,
  state: AgentState,
  messages: readonly ChatMessage[],
  options: PolicyCallOptions,
  trainWith: string[],
): Promise<Answer> {
  const { record, rolloutId, agent } = asker;
  const view = Object.freeze(messages.map(frozenMessage));
  const parent = parentOf(state, view);
  const answer = await sendCall({
    client: options.client ?? asker.client,
    model: options.model ?? asker.model,
    messages: view,
    // Tools stay: without them the prompt would be another from its start.
    request: { ...asker.request, ...checkRequest(options.request ?? {}) },
    rolloutId,
    agent: agent || null,
    class: "compaction",
    parent,
    stream: false,
  });
  if (options.client !== undefined && options.client !== asker.client) return answer;
  const root = parent === null ? rootKind(asker, false) : null;
  const entry = { type: "answered", agent, purpose: "policy", observation: [], goesOn: false } as const;
  record.add({ ...entry, view, parent, root, answer });
  if (options.train === true) trainWith.push(answer.responseId);
  return answer;
}

/** Sends the view; where the engine says that its context is full the policy chooses once more, and once only. */
export async function askView(
  asker: Asker,
  state: AgentState,
  asked: Asked,
  options: AskOptions,
): Promise<{ readonly asked: Asked; readonly answer: Answer }> {
  const tooLong = await contextFault(asker, asked);
  let cause: unknown = tooLong;
  if (tooLong === null) {
    try {
      return { asked, answer: await sendAction(asker, state, asked, options) };
    } catch (error) {
      if (!saysContextFull(error)) throw error;
      cause = error;
    }
  }
  const shorter = await chooseView(asker, state, asked.observation, { contextFull: true, demanded: false });
  const stillTooLong =
    sizeOf(shorter.view) >= sizeOf(asked.view) ? cause : await contextFault(asker, shorter);
  if (stillTooLong !== null) throw contextFull(stillTooLong);
  try {
    return { asked: shorter, answer: await sendAction(asker, state, shorter, options) };
  } catch (error) {
    throw saysContextFull(error) ? contextFull(error) : error;
  }
}

export async function sendAction(
  asker: Asker,
  state: AgentState,
  asked: Asked,
  options: AskOptions,
): Promise<Answer> {
  const { client, model, rolloutId, agent, record } = asker;
  const parent = parentOf(state, asked.view);
  const root = parent === null ? rootKind(asker, asked.sent > 0) : null;
  asked.sent += 1;
  const answer = await sendCall({
    client,
    model,
    messages: asked.view,
    request: { ...asker.request, ...checkRequest(options.request ?? {}) },
    rolloutId,
    agent: agent || null,
    class: agent === "" ? null : "sub_agent",
    parent,
    stream: options.stream === true,
    onText: options.onText,
    signal: options.signal,
  });
  const { view, observation, goesOn } = asked;
  record.add({ type: "answered", agent, purpose: "action", observation, view, goesOn, parent, root, answer });
  for (const responseId of asked.trainWith) {
    if (record.verdict(responseId) !== "undecided") continue;
    record.add({ type: "accepted", agent, responseId, reward: null });
  }
  return answer;
}

/** Of the accepted answers on the path the last that the view goes on from. */
function parentOf({ path }: AgentState, view: readonly ChatMessage[]): string | null {
  const parent = path.findLast(({ view: before, said }: Answered) => continues(view, [...before, said]));
  return parent?.answer.responseId ?? null;
}

function rootKind({ record, agent }: Asker, again: boolean): RootKind {
  if (again) return "asked_again";
  if (record.calls.some((call) => (call.agent ?? "") === agent)) return "rewrite";
  return agent === "" ? "first" : "sub_agent";
}

/** Null where the view fits, or nobody said how much does. */
async function contextFault(asker: Asker, { view }: Asked): Promise<AgentError | null> {
  const { contextLimit } = asker;
  if (contextLimit === undefined) return null;
  const tokens = await countView(asker, view);
  return tokens < contextLimit
    ? null
    : new AgentError(
        "context_full",
        `the view has ${tokens} tokens; contextLimit is ${contextLimit}, the answer's included`,
      );
}

function contextFull(cause: unknown): AgentError {
  if (cause instanceof AgentError && cause.code === "context_full") return cause;
  const why = cause instanceof Error ? cause.message : String(cause);
  return new AgentError("context_full", `the policy has no shorter view for a context that is full: ${why}`, {
    cause,
  });
}
