// Answers that a request refers to by response id, read from the ledger: what a client of a stateful API expects the
// server to keep. Only the rollout's own are found.
import { CoppiceError } from "../errors.ts";
import type { StoredAnswer } from "../dialect/dialect.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { callId, type Call, type Message, type RolloutId } from "../lineage/call.ts";

/** A response id and its call's id end in the same 32 digits. */
const UNIQUE = /^[a-z]+[-_]([0-9a-f]{32})$/;

/**
 * Those of the ids that the rollout has; what is missing is for the caller to refuse. Throws `invalid_request` where
 * the answer is there and its messages were not kept.
 */
export async function findStoredAnswers(
  responseIds: readonly string[],
  rolloutId: RolloutId | null,
  ledger: Ledger,
): Promise<ReadonlyMap<string, StoredAnswer>> {
  const found = new Map<string, StoredAnswer>();
  if (rolloutId === null) return found;
  for (const responseId of responseIds) {
    const unique = UNIQUE.exec(responseId)?.[1];
    const call = unique === undefined ? null : await ledger.call(callId(`call-${unique}`));
    if (call?.responseId !== responseId || call.rolloutId !== rolloutId || call.status === "failed") continue;
    const messages = await requestMessages(call, ledger);
    if (messages === null || call.answer === null) {
      throw new CoppiceError(
        "invalid_request",
        `the messages of ${responseId} were not kept, only its tokens; send the items themselves`,
        { param: "previous_response_id" },
      );
    }
    found.set(responseId, { messages, answer: call.answer, notes: call.notes });
  }
  return found;
}

/** The whole request, put together from the calls above; null where one of them has no messages. */
async function requestMessages(call: Call, ledger: Ledger): Promise<readonly Message[] | null> {
  const below: Call[] = [];
  for (let at: Call | null = call; at !== null; at = await parentOf(at, ledger)) {
    if (at.messages === null) return null;
    below.push(at);
    if (at.messagesFrom === 0) break;
  }
  let messages: Message[] = [];
  for (const at of below.reverse()) {
    messages = [...messages.slice(0, at.messagesFrom), ...(at.messages as readonly Message[])];
    if (at !== call && at.answer !== null) messages.push(at.answer);
  }
  return messages;
}

function parentOf(call: Call, ledger: Ledger): Promise<Call | null> {
  return call.parentCallId === null ? Promise.resolve(null) : ledger.call(call.parentCallId);
}
