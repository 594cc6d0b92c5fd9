// One settled call as a row of columns and a payload, and back, exactly: what `decodeCall` returns has the digest that was
// stored. Tokens, log-probs and digests are binary; what nearly every call has is a column; what few calls have stands in
// `more`, one JSON object that is null when there is nothing to say. Which tables they are in is not known here.
import type {
  Call,
  CallClass,
  CallId,
  CallStatus,
  CallSummary,
  Message,
  RolloutId,
} from "../lineage/call.ts";
import { logprobBytes, logprobsFromBytes, tokenBytes, tokensFromBytes } from "../lineage/sequence.ts";
import { packId, unpackId } from "./packed-id.ts";

/** Columns that a summary needs. Times and counts are numbers, ids and names are well-formed text. */
export interface SummaryColumns {
  readonly call_id: string | Uint8Array;
  /** Without the characters that it ends in as the call id does, which are `response_tail` in number. */
  readonly response_id: string | null;
  readonly response_tail: number | null;
  /** Index in STATUSES. */
  readonly status: number;
  readonly admitted_order: number;
  readonly settled_order: number;
  readonly admitted_at: number;
  readonly settled_at: number | null;
  readonly carried_length: number;
  readonly generated_length: number;
  readonly sequence_length: number;
  /** The 32 bytes of the address; its length is `sequence_length`. */
  readonly address: Uint8Array | null;
  readonly fingerprint: number;
  readonly finish_reason: string | null;
  /** Where one version generated all. */
  readonly weight_version: string | null;
  /** 1 for token-in. */
  readonly way: number;
  readonly logprobs_mode: string | null;
  readonly agent: string | null;
  /** Index in CLASSES. */
  readonly class: number | null;
  readonly request_digest: Uint8Array | null;
  readonly history_digest: Uint8Array | null;
  readonly message_count: number;
  readonly messages_from: number;
  /** `[asked, used]` in JSON; empty where both are; null where they are the attempt's usual ones. */
  readonly sampling: string | null;
  readonly more: string | null;
}

export interface CallColumns extends SummaryColumns {
  readonly digest: Uint8Array;
}

/** What is read only with the whole call. */
export interface Payload {
  /** Carried ids, generated ids (little-endian uint32) and log-probs (little-endian binary32), one after the other. */
  readonly tokens: Uint8Array;
  /** JSON. */
  readonly messages: string | null;
  readonly answer: string | null;
}

/** What the row does not hold because the rows beside it do. */
export interface RowPlace {
  readonly rolloutId: RolloutId;
  readonly attempt: number;
  /** The parent, where the row keeps it as its place in the attempt; null where `more` keeps it or there is none. */
  readonly parentCallId: CallId | null;
  /** JSON of the attempt's usual sampling; null where it has none. */
  readonly usualSampling: string | null;
}

const STATUSES: readonly CallStatus[] = ["admitted", "committed", "aborted", "failed", "unknown"];
const CLASSES: readonly CallClass[] = ["main", "sub_agent", "compaction", "title", "auxiliary"];
/** What UTF-8 (lone surrogates) or a column of text in PostgreSQL (NUL) cannot hold. */
const UNFIT = /[\p{Surrogate}\0]/u;
/** Shorter endings are not worth a number of their own. */
const SHORTEST_TAIL = 8;
const HEX = /^(?:[0-9a-f]{2})*$/;

/** Fields that most calls have at these values. */
interface More {
  status_detail?: string;
  parent_call_id?: CallId;
  named_parent?: string;
  named_parent_misfit?: boolean;
  root_reason?: Call["rootReason"];
  media_digests?: readonly string[];
  untrainable?: string;
  weight_versions?: Call["weightVersions"];
  notes?: readonly string[];
  /** How many carried ids, generated ids and log-probs there are, where the call's lengths say otherwise. */
  lengths?: readonly [number, number, number];
  /** Text that the columns cannot hold: lone surrogates, NUL, digests that are not hex. By column. */
  text?: Record<string, string>;
}

const NO_SAMPLING = "[{},{}]";

/** What an attempt keeps as its usual sampling; empty for none at all, which is nobody's usual. */
export function samplingText(sampling: Call["sampling"]): string {
  const text = JSON.stringify([sampling.asked, sampling.used]);
  return text === NO_SAMPLING ? "" : text;
}

/** The columns of a call. The caller keeps `place`, and gives the same back to `decodeSummary` and `decodeCall`. */
export function encodeCall(call: Call, place: Pick<RowPlace, "parentCallId" | "usualSampling">): CallColumns {
  const more: More = moreOf(call, place);
  const tail = commonTail(call.callId, call.responseId);
  const odd: Record<string, string> = {};
  const text = (column: string, value: string | null): string | null => {
    if (value === null || !UNFIT.test(value)) return value;
    odd[column] = value;
    return null;
  };
  const hex = (column: string, value: string | null): Uint8Array | null => {
    if (value === null) return null;
    if (HEX.test(value)) return Buffer.from(value, "hex");
    odd[column] = value;
    return null;
  };
  const addressStart = `${call.sequenceLength}-`;
  if (call.address !== null && !call.address.startsWith(addressStart)) odd["address"] = call.address;
  const sampling = samplingText(call.sampling);
  const columns: CallColumns = {
    call_id: packId(call.callId),
    response_id: text("response_id", call.responseId?.slice(0, call.responseId.length - tail) ?? null),
    response_tail: tail === 0 ? null : tail,
    status: STATUSES.indexOf(call.status),
    admitted_order: call.admittedOrder,
    settled_order: call.settledOrder as number,
    admitted_at: call.admittedAt,
    settled_at: call.settledAt,
    carried_length: call.carriedLength,
    generated_length: call.generatedLength,
    sequence_length: call.sequenceLength,
    address:
      odd["address"] === undefined ? hex("address", call.address?.slice(addressStart.length) ?? null) : null,
    fingerprint: call.fingerprint,
    finish_reason: text("finish_reason", call.finishReason),
    weight_version: text("weight_version", onlyVersion(call)),
    way: call.way === "token-in" ? 1 : 0,
    logprobs_mode: text("logprobs_mode", call.logprobsMode),
    agent: text("agent", call.agent),
    class: call.class === null ? null : CLASSES.indexOf(call.class),
    request_digest: hex("request_digest", call.requestDigest),
    history_digest: hex("history_digest", call.historyDigest),
    message_count: call.messageCount,
    messages_from: call.messagesFrom,
    sampling: sampling === place.usualSampling ? null : sampling,
    more: null,
    digest: Buffer.from(call.digest, "hex"),
  };
  if (Object.keys(odd).length > 0) more.text = odd;
  return Object.keys(more).length === 0 ? columns : { ...columns, more: JSON.stringify(more) };
}

export function encodePayload(call: Call): Payload {
  const { carriedTokenIds, generatedTokenIds, generatedLogprobs, messages, answer } = call;
  return {
    tokens: Buffer.concat([
      tokenBytes(carriedTokenIds),
      tokenBytes(generatedTokenIds),
      logprobBytes(generatedLogprobs),
    ]),
    messages: messages === null ? null : JSON.stringify(messages),
    answer: answer === null ? null : JSON.stringify(answer),
  };
}

/** Length of the ending that both have, in characters; 0 where it is short. */
function commonTail(callId: string, responseId: string | null): number {
  if (responseId === null) return 0;
  const longest = Math.min(callId.length, responseId.length);
  let length = 0;
  while (length < longest && callId.at(-1 - length) === responseId.at(-1 - length)) length += 1;
  return length < SHORTEST_TAIL ? 0 : length;
}

function moreOf(call: Call, place: Pick<RowPlace, "parentCallId">): More {
  const more: More = {};
  if (call.statusDetail !== null) more.status_detail = call.statusDetail;
  if (call.parentCallId !== null && place.parentCallId === null) more.parent_call_id = call.parentCallId;
  if (call.namedParent !== null) more.named_parent = call.namedParent;
  if (call.namedParentMisfit) more.named_parent_misfit = true;
  if (call.rootReason !== null) more.root_reason = call.rootReason;
  if (call.mediaDigests.length > 0) more.media_digests = call.mediaDigests;
  if (call.untrainable !== null) more.untrainable = call.untrainable;
  if (call.weightVersions.length > 0 && onlyVersion(call) === null)
    more.weight_versions = call.weightVersions;
  if (call.notes.length > 0) more.notes = call.notes;
  const { carriedTokenIds, generatedTokenIds, generatedLogprobs } = call;
  const lengths = [carriedTokenIds.length, generatedTokenIds.length, generatedLogprobs.length] as const;
  const usual = [call.carriedLength, call.generatedLength, call.generatedLength];
  if (lengths.some((length, index) => length !== usual[index])) more.lengths = lengths;
  return more;
}

function onlyVersion(call: CallSummary): string | null {
  const [first, second] = call.weightVersions;
  return first !== undefined && second === undefined && first.start === 0 ? first.version : null;
}

/** Throws where the columns are not what `encodeCall` wrote: JSON that does not parse, an unknown status. */
export function decodeSummary(row: SummaryColumns, place: RowPlace): CallSummary {
  const more: More = row.more === null ? {} : (JSON.parse(row.more) as More);
  const odd = more.text ?? {};
  const hexOf = (column: string, bytes: Uint8Array | null): string | null =>
    odd[column] ?? (bytes === null ? null : Buffer.from(bytes).toString("hex"));
  const address =
    odd["address"] ?? (row.address === null ? null : `${row.sequence_length}-${hexOf("", row.address)}`);
  const callId = unpackId(row.call_id);
  const responseStart = odd["response_id"] ?? row.response_id;
  const version = odd["weight_version"] ?? row.weight_version;
  const sampling = row.sampling ?? place.usualSampling ?? "null";
  const [asked, used] = JSON.parse(sampling === "" ? NO_SAMPLING : sampling) as readonly [Message, Message];
  return {
    rolloutId: place.rolloutId,
    attempt: place.attempt,
    callId,
    responseId:
      responseStart === null ? null : responseStart + callId.slice(callId.length - (row.response_tail ?? 0)),
    status: entry(STATUSES, row.status, "status"),
    statusDetail: more.status_detail ?? null,
    admittedOrder: row.admitted_order,
    settledOrder: row.settled_order,
    admittedAt: row.admitted_at,
    settledAt: row.settled_at,
    parentCallId: more.parent_call_id ?? place.parentCallId,
    namedParent: more.named_parent ?? null,
    namedParentMisfit: more.named_parent_misfit ?? false,
    rootReason: more.root_reason ?? null,
    carriedLength: row.carried_length,
    generatedLength: row.generated_length,
    sequenceLength: row.sequence_length,
    address: address as CallSummary["address"],
    fingerprint: row.fingerprint,
    mediaDigests: more.media_digests ?? [],
    finishReason: odd["finish_reason"] ?? row.finish_reason,
    untrainable: more.untrainable ?? null,
    weightVersions: more.weight_versions ?? (version === null ? [] : [{ version, start: 0 }]),
    way: row.way === 1 ? "token-in" : "text",
    notes: more.notes ?? [],
    sampling: { asked, used },
    logprobsMode: odd["logprobs_mode"] ?? row.logprobs_mode,
    agent: odd["agent"] ?? row.agent,
    class: row.class === null ? null : entry(CLASSES, row.class, "class"),
    requestDigest: hexOf("request_digest", row.request_digest),
    historyDigest: hexOf("history_digest", row.history_digest),
    messageCount: row.message_count,
    messagesFrom: row.messages_from,
  };
}

function entry<T>(list: readonly T[], index: number, column: string): T {
  const value = list[index];
  if (value === undefined) throw new RangeError(`${column} ${index} is none of 0 to ${list.length - 1}`);
  return value;
}

export function decodeCall(row: CallColumns, payload: Payload, place: RowPlace): Call {
  const { messages, answer } = payload;
  return Object.freeze({
    ...decodeSummary(row, place),
    ...decodeTokens(row, payload.tokens),
    messages: messages === null ? null : (JSON.parse(messages) as Message[]),
    answer: answer === null ? null : (JSON.parse(answer) as Message),
    digest: Buffer.from(row.digest).toString("hex"),
  });
}

/** Throws where there are more or fewer tokens than the row says. */
export function decodeTokens(
  row: Pick<SummaryColumns, "more" | "carried_length" | "generated_length">,
  tokens: Uint8Array,
): Pick<Call, "carriedTokenIds" | "generatedTokenIds" | "generatedLogprobs"> {
  const { carried_length: carried, generated_length: generated } = row;
  const more: More = row.more === null ? {} : (JSON.parse(row.more) as More);
  const lengths = more.lengths ?? [carried, generated, generated];
  const carriedEnd = lengths[0] * 4;
  const generatedEnd = carriedEnd + lengths[1] * 4;
  const end = generatedEnd + lengths[2] * 4;
  if (tokens.length !== end)
    throw new RangeError(`${tokens.length} bytes of tokens where ${end} were written`);
  return {
    carriedTokenIds: tokensFromBytes(tokens.subarray(0, carriedEnd)),
    generatedTokenIds: tokensFromBytes(tokens.subarray(carriedEnd, generatedEnd)),
    generatedLogprobs: logprobsFromBytes(tokens.subarray(generatedEnd)),
  };
}
