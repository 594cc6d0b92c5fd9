// The life of one chat completion: admit, ask the engine, commit, answer. Both ways of answering, whole and streamed,
// are here; what is written down is recorder.ts's, what the client sees chat-answer.ts's.
import type { FastifyReply } from "fastify";
import { CoppiceError, messageOf } from "../errors.ts";
import type { Engine, EngineRequest } from "../engine/engine.ts";
import {
  abortedAnswers,
  committedAnswers,
  failedAnswers,
  type Delivered,
  type ToldWeights,
} from "./answers-to-record.ts";
import { openAiErrors } from "./answer-error.ts";
import type { VolatileLines } from "./blanked-lines.ts";
import type { CallAddress } from "./call-address.ts";
import { chunksOfWhole, wholeAnswer, type AnswerShape } from "./chat-answer.ts";
import { engineBody, type ChatAsk, type EngineBody } from "./chat-body.ts";
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

/** One call under way. */
interface OpenCall {
  readonly ask: ChatAsk;
  /** Null for a call without a rollout, which is passed through uncaptured. */
  readonly call: AdmittedCall | null;
  readonly line: ClientLine;
  readonly reply: FastifyReply;
  readonly shape: AnswerShape;
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
  async answer(given: ChatAsk, address: CallAddress, line: ClientLine, reply: FastifyReply): Promise<void> {
    const { ask, notes } = this.#blanked(given);
    const model = await this.#parts.models.resolve(ask.model);
    const weightsBefore = await this.#parts.weights.current();
    const call = await this.#admit(ask, address, line);
    if (call !== null) void reply.header(CALL_ID_HEADER, call.choices.map(({ callId }) => callId).join(","));
    const sent = engineBody(ask, {
      model,
      pinned: call?.pinned ?? null,
      cacheSalt: cacheSaltOf(this.#parts.engine, call),
    });
    const shape: AnswerShape = {
      responseId: call?.responseId ?? `chatcmpl-${reply.request.id}`,
      model: ask.model ?? model,
      wantsLogprobs: ask.wantsLogprobs,
      wantsUsage: ask.wantsUsage,
    };
    const open: OpenCall = { ask, call, line, reply, shape, sent, weightsBefore, notes };
    const context = await this.#parts.models.maxModelLength(model);
    // The prompt has a token at least.
    if (context !== null) clamp(open, context - 1, `the engine's context is ${context} tokens`);
    await (ask.stream ? this.#answerStreamed(open) : this.#answerWhole(open));
  }

  #blanked(ask: ChatAsk): { readonly ask: ChatAsk; readonly notes: string[] } {
    const { messages, notes } = this.#parts.volatileLines.blank(ask.messages);
    if (notes.length === 0) return { ask, notes: [] };
    return { ask: { ...ask, messages, body: { ...ask.body, messages } }, notes: [...notes] };
  }

  async #admit(ask: ChatAsk, address: CallAddress, line: ClientLine): Promise<AdmittedCall | null> {
    const { rolloutId, agent, class: callClass, namedParent } = address;
    if (rolloutId === null) {
      this.#parts.metrics.uncapturedCalls.add({});
      return null;
    }
    return this.#parts.recorder.admit({
      rolloutId,
      agent,
      class: callClass,
      namedParent,
      choices: ask.choices,
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
    const text = wholeAnswer(json, open.shape);
    open.line.copy.take(text);
    await open.reply.type("application/json; charset=utf-8").send(text);
  }

  async #answerStreamed(open: OpenCall): Promise<void> {
    const { reply, line } = open;
    const stream = new ClientStream(reply.raw, line, this.#parts.heartbeatMs, () => {
      void reply.hijack();
      const callId = reply.getHeader(CALL_ID_HEADER);
      reply.raw.writeHead(200, {
        ...STREAM_HEADERS,
        ...(callId === undefined ? {} : { [CALL_ID_HEADER]: callId }),
      });
    });
    try {
      const relay = new ChatRelay(stream, open.shape, open.ask.choices);
      const asked = await this.#ask(open, (chunk) => relay.take(chunk));
      if (asked.kind === "replied" && asked.reply.json !== null) {
        for (const json of chunksOfWhole(asked.reply.json)) await relay.take({ json });
      }
      const error = await this.#settle(open, asked, (index) => relay.delivered(index));
      if (error === null) relay.finish();
      else if (stream.started) await stream.fail(openAiErrors.event(error));
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
      messages: ask.messages,
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
