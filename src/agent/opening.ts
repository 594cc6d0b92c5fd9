// How a conversation begins: afresh from its first messages, as a fork from a place in another's history, or over a
// journal from where its entries end.
import { AgentError } from "./agent-error.ts";
import type { Answer } from "./answer.ts";
import type { Asked } from "./asking.ts";
import type { ChatMessage } from "./chat-client.ts";
import { firstMessages, type ConversationOptions, type ForkOptions } from "./conversation-options.ts";
import type { AgentState, RolloutRecord } from "./rollout-record.ts";
import { sameMessage } from "./view.ts";

export interface ForkOrigin {
  /** The state of the conversation that it is forked from, and that one's label. */
  readonly from: AgentState;
  readonly forkOf: string;
  readonly label: string;
  readonly fork: ForkOptions;
}

/** Throws `invalid_journal` where the journal's conversation began with other messages. */
export function openState(
  record: RolloutRecord,
  options: ConversationOptions,
  origin: ForkOrigin | null,
): AgentState {
  const agent = origin?.label ?? "";
  const known = record.state(agent);
  const head = origin === null ? firstMessages(options) : forkHead(origin.fork);
  if (known === undefined) {
    const place = origin === null || head !== null ? null : placeAfter(origin.from, origin.fork.after);
    record.add({
      type: "conversation",
      agent,
      rolloutId: options.rolloutId,
      forkOf: origin?.forkOf ?? null,
      head: head ?? place?.head ?? [],
      before: place?.before ?? [],
      path: place?.path ?? [],
    });
  } else if (head !== null && !sameMessages(head, known.head)) {
    throw new AgentError(
      "invalid_journal",
      `the journal's conversation ${agent === "" ? "" : `"${agent}" `}began with other messages than this one`,
    );
  }
  return record.state(agent) as AgentState;
}

/** Null: the fork goes on from the history where it is forked. */
function forkHead(fork: ForkOptions): readonly ChatMessage[] | null {
  const { system, task, messages } = fork;
  if (system === undefined && task === undefined && messages === undefined) return null;
  return Object.freeze(firstMessages(fork));
}

interface Place {
  readonly head: readonly ChatMessage[];
  readonly before: readonly ChatMessage[];
  readonly path: readonly string[];
}

function placeAfter(state: AgentState, after: Answer | undefined): Place {
  const { head, start, path, inherited, history } = state;
  const ids = path.map(({ answer }) => answer.responseId);
  if (after === undefined) return { head, before: history.slice(head.length), path: ids };
  const end = ids.indexOf(after.responseId) + 1;
  if (end === 0 || end < inherited) {
    throw new AgentError(
      "foreign_answer",
      `answer ${after.responseId} is no accepted answer of this conversation`,
    );
  }
  const own = path.slice(inherited, end).flatMap(({ observation, said }) => [...observation, said]);
  return { head, before: [...start.slice(head.length), ...own], path: ids.slice(0, end) };
}

/** After a resume an action whose answer was rejected is asked again from its view; null where there is none. */
export function resumeAsked({ undecided, again }: AgentState): Asked | null {
  const answered = undecided.at(-1) ?? again;
  if (answered === null) return null;
  const { view, observation, goesOn } = answered;
  return { view, observation, goesOn, trainWith: [], sent: 1 };
}

function sameMessages(one: readonly ChatMessage[], other: readonly ChatMessage[]): boolean {
  return (
    one.length === other.length &&
    one.every((message, index) => sameMessage(message, other[index] as ChatMessage))
  );
}
