// What the history that a request extends tells of the call, beyond its parent: whose call it is where nobody said,
// that the client sent back something else than what was sampled, that the prompt lost tokens although the messages go
// on. Only the second costs anything, and only where the messages do part: one read of the ledger for each call that
// stands at the place.
import type { Call, CallId, CallSummary, Message } from "../lineage/call.ts";
import { isRecord, sameMeaning } from "../lineage/message.ts";
import type { CapturedCall, Lineage, RolloutIndex } from "../lineage/record-call.ts";

/** Twins and siblings that are looked at; more stand at one place only where an agent asks over and over. */
const MAX_CANDIDATES = 8;

export interface HistoryNotes {
  readonly agent: string | null;
  readonly notes: readonly string[];
}

/** @param readCall of the ledger; null for a call that was swept */
export async function historyNotes(
  captured: CapturedCall,
  lineage: Lineage,
  given: {
    readonly index: RolloutIndex;
    readonly readCall: (callId: CallId) => Promise<Call | null>;
  },
): Promise<HistoryNotes> {
  const before = callBefore(lineage);
  const notes = [shorterPrompt(captured, lineage), await clientRewrote(captured, lineage, given)];
  return {
    agent: captured.agent ?? before?.agent ?? null,
    notes: [...captured.notes, ...notes.filter((note) => note !== null)],
  };
}

/** The call that this one goes on from, by its tokens or else by its messages. */
function callBefore({ found, root }: Lineage): CallSummary | null {
  return found?.parent ?? (root?.kind === "drift" ? root.followed : null);
}

/** A template that drops what it was given: the messages grew and the prompt did not. */
function shorterPrompt({ promptTokenIds }: CapturedCall, { root }: Lineage): string | null {
  if (root?.kind !== "drift" || promptTokenIds === null) return null;
  const { callId, sequenceLength } = root.followed;
  if (promptTokenIds.length >= sequenceLength) return null;
  return (
    `prompt_shrank: its messages go on from call ${callId}, whose sequence has ${sequenceLength} tokens, ` +
    `and its prompt has ${promptTokenIds.length}`
  );
}

async function clientRewrote(
  captured: CapturedCall,
  { messageDigests }: Lineage,
  {
    index,
    readCall,
  }: { readonly index: RolloutIndex; readonly readCall: (callId: CallId) => Promise<Call | null> },
): Promise<string | null> {
  if (captured.messages === null) return null;
  const { calls, answerIndex } = index.answeredOtherwise(messageDigests, captured.admittedOrder);
  const sent = calls.length === 0 ? undefined : captured.messages[answerIndex];
  const ids = sent === undefined ? [] : toolCallIds(sent);
  if (sent === undefined || ids.length === 0) return null;
  for (const { callId } of calls.slice(-MAX_CANDIDATES).reverse()) {
    const answer = (await readCall(callId))?.answer ?? null;
    if (answer === null || sameMeaning(answer, sent)) continue;
    if (!toolCallIds(answer).some((id) => ids.includes(id))) continue;
    return `client_rewrote: messages[${answerIndex}] has the tool-call ids of call ${callId} and means something else`;
  }
  return null;
}

/** Ids of a message's tool calls: they survive what clients do to everything else. */
export function toolCallIds(message: Message): readonly string[] {
  const calls = message["tool_calls"];
  if (!Array.isArray(calls)) return [];
  return calls.flatMap((call: unknown) =>
    isRecord(call) && typeof call["id"] === "string" ? [call["id"]] : [],
  );
}
