// The life of one call, whatever API it came by: admit, ask the engine, commit, answer. Both ways of answering, whole and streamed,
// are here; what is written down is recorder.ts's, what the client sees chat-answer.ts's.
import type { FastifyReply } from "fastify";
import { CoppiceError, messageOf } from "../errors.ts";
import { chunksOfWhole } from "../dialect/chat-completions.ts";
import type { AnswerHead, ClientRequest, Dialect } from "../dialect/dialect.ts";
import type { Engine, EngineReply, EngineRequest } from "../engine/engine.ts";
import {
  abortedAnswers,
  committedAnswers,
  failedAnswers,
  type Delivered,
  type ToldWeights,
} from "./answers-to-record.ts";
import type { VolatileLines } from "./blanked-lines.ts";
import type { CallAddress } from "./call-address.ts";
import { engineBody, type EngineBody } from "./chat-body.ts";
import { ChatRelay } from "./chat-relay.ts";
import type { ClientLine } from "./client-line.ts";
import { ClientStream, STREAM_HEADERS } from "./client-stream.ts";
import { clampLengths, contextRoom } from "./context-room.ts";
import type { GatewayMetrics } from "./gateway-metrics.ts";
import { mediaDigests } from "./media.ts";
import type { ModelNames } from "./model-names.ts";
import type { AdmittedCall, AnswerToRecord, Recorder } from "./recorder.ts";
import type { Asked, Ways } from "./ways.ts";
import type { WeightVersions } from "./weight-versions.ts";

export const CALL_ID_HEADER = "x-coppice-call-id";

export interface ChatParts {
  readonly engine: Engine;
  readonly ways: Ways;
  readonly recorder: Recorder;
  readonly weights: WeightVersions;
  readonly models: ModelNames;
  readonly metrics: GatewayMetrics;
  readonly volatileLines: VolatileLines;
  /** Milliseconds of silence in a stream before a heartbeat. */
  readonly heartbeatMs: number;
}

/** One call as its route read it. */
export interface AskedCall {
  readonly request: ClientRequest;
  readonly dialect: Dialect;
  readonly address: CallAddress;
}

/** One call under way. */
interface OpenCall {
  readonly ask: ClientRequest;
  /** Null for a call without a rollout, which is passed through uncaptured. */
  readonly call: AdmittedCall | null;
  readonly line: ClientLine;
  readonly reply: FastifyReply;
  readonly head: AnswerHead;
  /** As the engine was asked last. */
  sent: EngineBody;
  readonly weightsBefore: string | null;
  /** What was blanked or clamped. */
  readonly notes: string[];
}

const NOT_DELIVERED: Delivered = { tokens: 0, message: null };

export class ChatCalls {
  readonly #parts: ChatParts;

  constructor(parts: ChatParts) {
    this.#parts = parts;
  }

  /** Answers one call. Throws what the client is to be told as an error status. */
  async answer(asked: AskedCall, line: ClientLine, reply: FastifyReply): Promise<void> {
    const { dialect } = asked;
    const { ask, notes } = this.#blanked(asked.request);
    const model = await this.#parts.models.resolve(ask.model);
    const weightsBefore = await this.#parts.weights.current();
    const call = await this.#admit({ ...asked, request: ask }, line);
    if (call !== null) void reply.header(CALL_ID_HEADER, call.choices.map(({ callId }) => callId).join(","));
    const sent = engineBody(ask, {
      model,
      pinned: call?.pinned ?? null,
      cacheSalt: cacheSaltOf(this.#parts.engine, call),
    });
    const head: AnswerHead = {
      responseId: call?.responseId ?? `${dialect.idPrefix}${reply.request.id}`,
      model: ask.model ?? model,
      createdAt: Math.floor(Date.now() / 1000),
    };
    const open: OpenCall = { ask, call, line, reply, head, sent, weightsBefore, notes };
    const context = await this.#parts.models.maxModelLength(model);
    // The prompt has a token at least.
    if (context !== null) clamp(open, context - 1, `the engine's context is ${context} tokens`);
    await (ask.stream ? this.#answerStreamed(open) : this.#answerWhole(open));
  }

  #blanked(ask: ClientRequest): { readonly ask: ClientRequest; readonly notes: string[] } {
    const { messages, notes } = this.#parts.volatileLines.blank(ask.messages);
    if (notes.length === 0) return { ask, notes: [...ask.notes] };
    return { ask: { ...ask, messages, body: { ...ask.body, messages } }, notes: [...ask.notes, ...notes] };
  }

  async #admit({ request, dialect, address }: AskedCall, line: ClientLine): Promise<AdmittedCall | null> {
    const { rolloutId, agent, class: callClass, namedParent, traceParent } = address;
    if (rolloutId === null) {
      this.#parts.metrics.uncapturedCalls.add({});
      return null;
    }
    return this.#parts.recorder.admit({
      rolloutId,
      agent,
      class: callClass,
      namedParent,
      traceParent,
      model: request.model,
      choices: request.choices,
      idPrefix: dialect.idPrefix,
      isGone: () => line.ended !== null,
    });
  }

  async #answerWhole(open: OpenCall): Promise<void> {
    const asked = await this.#ask(open);
    const error = await this.#settle(open, asked, () => NOT_DELIVERED);
    if (error !== null) throw error;
    const { json } = (asked as Extract<Asked, { kind: "replied" }>).reply;
    if (json === null)
      throw new CoppiceError("engine_error", "the engine streamed what was not to be streamed");
    const usage = usageOf((asked as Extract<Asked, { kind: "replied" }>).reply);
    const text = open.ask.writer.whole(usage === null ? json : { ...json, usage }, open.head);
    open.line.copy.take(text);
    await open.reply.type("application/json; charset=utf-8").send(text);
  }

  async #answerStreamed(open: OpenCall): Promise<void> {
    const { reply, line } = open;
    const writer = open.ask.writer.stream(open.head);
    const heartbeat = { everyMs: this.#parts.heartbeatMs, text: () => writer.heartbeat() };
    const stream = new ClientStream(reply.raw, line, heartbeat, () => {
      void reply.hijack();
      const callId = reply.getHeader(CALL_ID_HEADER);
      reply.raw.writeHead(200, {
        ...STREAM_HEADERS,
        ...(callId === undefined ? {} : { [CALL_ID_HEADER]: callId }),
      });
    });
    try {
      const relay = new ChatRelay(stream, writer, open.ask.choices);
      const asked = await this.#ask(open, (chunk) => relay.take(chunk));
      if (asked.kind === "replied" && asked.reply.json !== null) {
        for (const json of chunksOfWhole(asked.reply.json)) await relay.take({ json });
      }
      const error = await this.#settle(open, asked, (index) => relay.delivered(index));
      if (error === null) relay.finish(asked.kind === "replied" ? usageOf(asked.reply) : null);
      else if (stream.started) await stream.fail(writer.fail(error));
      else throw error;
    } finally {
      stream.stop();
    }
  }

  /** Once more where the engine says that it was asked for more tokens than the prompt leaves room for. */
  async #ask(open: OpenCall, onChunk?: EngineRequest["onChunk"]): Promise<Asked> {
    const asked = await this.#askOnce(open, onChunk);
    const room = asked.kind === "threw" ? contextRoom(asked.error) : null;
    if (room === null || !clamp(open, room, "all that the prompt leaves of the engine's context"))
      return asked;
    return this.#askOnce(open, onChunk);
  }

  #askOnce({ ask, sent, line, call }: OpenCall, onChunk?: EngineRequest["onChunk"]): Promise<Asked> {
    return this.#parts.ways.ask({
      call,
      kind: ask.kind,
      body: sent.body,
      messages: ask.messages,
      stream: ask.stream,
      signal: line.signal,
      ...(onChunk === undefined ? {} : { onChunk }),
    });
  }

  /** Records how the call ended. Null for a complete one, else what the client is told. */
  async #settle(
    open: OpenCall,
    asked: Asked,
    delivered: (index: number) => Delivered,
  ): Promise<CoppiceError | null> {
    const { line, ask } = open;
    const weights: ToldWeights = { before: open.weightsBefore, after: this.#parts.weights.latest };
    const reply = asked.kind === "replied" ? asked.reply : null;
    if (line.ended === null && reply?.ending === "complete") {
      await this.#record(open, asked, committedAnswers(ask.choices, reply, weights));
      line.committedIn = open.call?.attempt ?? null;
      return null;
    }
    const stopped = line.ended !== null || reply?.ending === "aborted";
    const error = stopped ? line.error() : engineFault(asked);
    if (!stopped) this.#parts.metrics.engineErrors.add({ code: error.code });
    const detail = stopped ? line.endedDetail : `the engine broke off: ${error.message}`;
    // What the agent got of a broken answer it may go on from; where it saw nothing but an error, the call has failed.
    const gotSome = Array.from({ length: ask.choices }, (_, index) => delivered(index).tokens !== 0).includes(
      true,
    );
    const isAborted = gotSome || (stopped && line.ended === "client_gone");
    const answers = isAborted
      ? abortedAnswers(ask.choices, reply, { detail, weights, delivered })
      : failedAnswers(ask.choices, stopped ? detail : error.message);
    await this.#record(open, asked, answers);
    return error;
  }

  async #record(open: OpenCall, asked: Asked, answers: readonly AnswerToRecord[]): Promise<void> {
    if (open.call === null) return;
    const { ask, sent } = open;
    const { way, notes, contextDigest, defaults } = asked;
    const record = {
      messages: ask.kind === "text" ? null : ask.messages,
      mediaDigests: mediaDigests(ask.messages),
      sampling: { ...sent.sampling, used: { ...defaults, ...sent.sampling.used } },
      way,
      contextDigest,
      notes: [...open.notes, ...notes],
    };
    await this.#parts.recorder.settle(open.call, record, answers);
  }
}

/** Brings the call's length limits down to `room` tokens; false where they were no higher. */
function clamp(open: OpenCall, room: number, why: string): boolean {
  const { body, sampling } = open.sent;
  const clamped = clampLengths(body, room, why);
  if (clamped.notes.length === 0) return false;
  open.sent = { body: clamped.body, sampling: { ...sampling, used: { ...sampling.used, ...clamped.used } } };
  open.notes.push(...clamped.notes);
  return true;
}

/** The engine's own count, or what its ids tell; null where neither is known. */
function usageOf({ usage, promptTokenIds, choices }: EngineReply): Readonly<Record<string, unknown>> | null {
  if (usage !== null || promptTokenIds === null) return usage;
  const prompt = promptTokenIds.length;
  const completion = choices.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

function engineFault(asked: Asked): CoppiceError {
  const fault = asked.kind === "threw" ? asked.error : asked.reply.error;
  if (fault instanceof CoppiceError) return fault;
  return new CoppiceError("engine_error", `the engine's answer could not be read: ${messageOf(fault)}`, {
    cause: fault,
  });
}

/** A prefix cache that was filled under other weights must not answer for these. */
function cacheSaltOf(engine: Engine, call: AdmittedCall | null): string | null {
  const version = call?.rolloutWeightVersion ?? null;
  const takesSalt = engine.kind !== "llama.cpp" && engine.kind !== "openai";
  return version === null || !takesSalt ? null : `weights-${version}`;
}
