// Where clients post their calls: `/r/{rollout}` and `/r/{rollout}/a/{agent}` in front of what they add themselves
// (`/v1`, `/v1/v1` or nothing, and any query), and the same without a prefix for those that name their rollout in a
// header or by their key. Limits are checked before a body is read.
import type { FastifyReply, FastifyRequest } from "fastify";
import { CoppiceError } from "../errors.ts";
import type { Engine } from "../engine/engine.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { callAddress } from "./call-address.ts";
import { parseChatBody } from "./chat-body.ts";
import type { ChatCalls } from "./chat-call.ts";
import type { ClientLine, ClientLines } from "./client-line.ts";
import type { InFlightLimits } from "./in-flight-limits.ts";
import { answerRepeat } from "./answer-repeat.ts";
import type { KeptAnswers } from "./kept-answers.ts";
import type { Caller } from "./keys.ts";
import type { Recorder } from "./recorder.ts";
import type { Routes } from "./routes.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Who is calling; set before a route's handler runs. */
    caller: Caller | null;
    /** The client's end, on routes for calls. */
    line: ClientLine | null;
  }
}

export interface CallRouteParts {
  readonly chat: ChatCalls;
  readonly recorder: Recorder;
  readonly engine: Engine;
  readonly ledger: Ledger;
  readonly kept: KeptAnswers;
  readonly lines: ClientLines;
  readonly requireRollout: boolean;
  readonly inFlight: InFlightLimits;
  readonly maxCallsInFlightPerRollout: number;
}

/** What stands in front of a path of the OpenAI API: clients differ in how many `/v1` they add. */
export const CALL_PREFIXES: readonly string[] = ["/r/:rollout", "/r/:rollout/a/:agent", ""].flatMap(
  (base) => [base, `${base}/v1`, `${base}/v1/v1`],
);

const DOCUMENTED_PREFIX = "/r/:rollout/v1";

export function addCallRoutes(routes: Routes, parts: CallRouteParts): void {
  for (const prefix of CALL_PREFIXES) {
    routes.add({
      method: "POST",
      url: `${prefix}/chat/completions`,
      permission: "call",
      ...(prefix === DOCUMENTED_PREFIX
        ? { doc: { summary: "A chat completion, as the OpenAI API has it" } }
        : {}),
      onRequest: (request, reply) => openLine(request, reply, parts),
      handle: (request, reply) => answerCall(request, reply, parts),
    });
    routes.add({
      method: "GET",
      url: `${prefix}/models`,
      permission: "call",
      ...(prefix === DOCUMENTED_PREFIX ? { doc: { summary: "The engine's models" } } : {}),
      handle: (_request, reply) => sendModels(reply, parts.engine),
    });
    // Some clients look whether there is anybody before they call.
    if (prefix !== "") {
      routes.add({
        method: "GET",
        url: prefix,
        permission: "none",
        handle: (_request, reply) => reply.send({}),
      });
    }
  }
}

function openLine(request: FastifyRequest, reply: FastifyReply, { lines, inFlight }: CallRouteParts): void {
  const leave = inFlight.enter(Number(request.headers["content-length"] ?? 0));
  const line = lines.open(request.raw.socket);
  request.line = line;
  // For a request that never gets to its handler too: its body broke off, or was refused.
  reply.raw.once("close", () => {
    line.close();
    leave();
  });
}

async function answerCall(
  request: FastifyRequest,
  reply: FastifyReply,
  parts: CallRouteParts,
): Promise<void> {
  const line = request.line as ClientLine;
  const caller = request.caller as Caller;
  const address = callAddress(request.params as Record<string, string>, request.headers, caller);
  if (address.rolloutId === null && parts.requireRollout) throw noRollout(caller);
  const ask = parseChatBody((request.body ?? Buffer.alloc(0)) as Buffer);
  if (address.rolloutId !== null) checkRolloutLimit(address.rolloutId, parts);
  try {
    await answerRepeat({ body: ask.body, stream: ask.stream, address, line, reply }, parts, () =>
      parts.chat.answer(ask, address, line, reply),
    );
  } catch (error) {
    // Nobody is there to be told.
    if (line.ended === "client_gone") void reply.hijack();
    else throw error;
  } finally {
    line.close();
  }
}

function checkRolloutLimit(rolloutId: Parameters<Recorder["callsInFlight"]>[0], parts: CallRouteParts): void {
  const inFlight = parts.recorder.callsInFlight(rolloutId);
  if (inFlight < parts.maxCallsInFlightPerRollout) return;
  throw new CoppiceError(
    "too_many_requests",
    `${inFlight} calls of rollout ${rolloutId} are in flight, which is the limit; try again later`,
  );
}

function noRollout(caller: Caller): CoppiceError {
  const how = "call /r/ROLLOUT/v1/..., or name the rollout in x-coppice-rollout";
  return caller.kind === "anyone"
    ? new CoppiceError("invalid_request", `the call names no rollout: ${how}`, { param: "x-coppice-rollout" })
    : new CoppiceError("unauthorized", `the call names no rollout: ${how}, or use a key bound to one`);
}

async function sendModels(reply: FastifyReply, engine: Engine): Promise<void> {
  const models = await engine.models();
  await reply.send({
    object: "list",
    data: models.map(({ id, maxModelLength }) => ({
      id,
      object: "model",
      created: 0,
      owned_by: "coppice",
      ...(maxModelLength === null ? {} : { max_model_len: maxModelLength }),
    })),
  });
}
