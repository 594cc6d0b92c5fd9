// Where clients post their calls: `/r/{rollout}` and `/r/{rollout}/a/{agent}` in front of what they add themselves
// (`/v1`, `/v1/v1` or nothing, and any query), and the same without a prefix for those that name their rollout in a
// header or by their key. Limits are checked before a body is read.
import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { CoppiceError } from "../errors.ts";
import { chatDialect } from "../dialect/chat-completions.ts";
import { completionsDialect } from "../dialect/completions.ts";
import type { Dialect, StoredAnswer } from "../dialect/dialect.ts";
import { messagesErrors } from "../dialect/messages-errors.ts";
import { messagesDialect } from "../dialect/messages.ts";
import { parseJsonObject } from "../dialect/request-fields.ts";
import { responsesDialect } from "../dialect/responses.ts";
import type { Engine } from "../engine/engine.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { callAddress } from "./call-address.ts";
import type { ChatCalls } from "./chat-call.ts";
import type { ClientLine, ClientLines } from "./client-line.ts";
import type { InFlight, InFlightLimits } from "./in-flight-limits.ts";
import { answerRepeat } from "./answer-repeat.ts";
import { checkGroupOfRollout } from "./group-keys.ts";
import type { KeptAnswers } from "./kept-answers.ts";
import type { KeyLimits } from "./key-limits.ts";
import type { Caller } from "./keys.ts";
import type { ModelNames } from "./model-names.ts";
import { sendModel, sendModels, sendTokenCount } from "./model-routes.ts";
import type { Recorder } from "./recorder.ts";
import type { RouteDoc, Routes } from "./routes.ts";
import { findStoredAnswers } from "./stored-answers.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Who is calling; set before a route's handler runs. */
    caller: Caller | null;
    /** The client's end, on routes for calls. */
    line: ClientLine | null;
    inFlight: InFlight | null;
  }
}

export interface CallRouteParts {
  readonly chat: ChatCalls;
  readonly recorder: Recorder;
  readonly engine: Engine;
  readonly models: ModelNames;
  readonly ledger: Ledger;
  readonly kept: KeptAnswers;
  readonly lines: ClientLines;
  readonly requireRollout: boolean;
  readonly inFlight: InFlightLimits;
  readonly keyLimits: KeyLimits;
  readonly maxCallsInFlightPerRollout: number;
}

/** What stands in front of a path of the OpenAI API: clients differ in how many `/v1` they add. */
export const CALL_PREFIXES: readonly string[] = ["/r/:rollout", "/r/:rollout/a/:agent", ""].flatMap(
  (base) => [base, `${base}/v1`, `${base}/v1/v1`],
);

const DOCUMENTED_PREFIX = "/r/:rollout/v1";

const APIS: readonly {
  readonly path: string;
  readonly dialect: Dialect;
  readonly summary: string;
  /** What the API's own description has as required and is documented here; the rest is its makers'. */
  readonly needed: readonly ("messages" | "input" | "prompt" | "max_tokens")[];
}[] = [
  {
    path: "/chat/completions",
    dialect: chatDialect,
    summary: "A chat completion, as the OpenAI API has it",
    needed: ["messages"],
  },
  {
    path: "/responses",
    dialect: responsesDialect,
    summary: "A response, as the OpenAI API has it",
    needed: ["input"],
  },
  {
    path: "/messages",
    dialect: messagesDialect,
    summary: "A message, as the Anthropic API has it",
    needed: ["messages", "max_tokens"],
  },
  {
    path: "/completions",
    dialect: completionsDialect,
    summary: "A text completion, as the OpenAI API has it",
    needed: ["prompt"],
  },
];

/** For the document alone: a dialect reads what clients send, whatever it is. */
function bodyOf(...needed: (typeof APIS)[number]["needed"]): z.ZodType {
  const fields = {
    messages: z.array(z.looseObject({ role: z.string(), content: z.unknown() })),
    input: z.union([z.string(), z.array(z.looseObject({}))]),
    prompt: z.string(),
    max_tokens: z.number().int().min(1),
  };
  return z.looseObject({
    model: z.string().optional(),
    stream: z.boolean().optional(),
    ...Object.fromEntries(needed.map((name) => [name, fields[name]])),
  });
}

export function addCallRoutes(routes: Routes, parts: CallRouteParts): void {
  for (const prefix of CALL_PREFIXES) {
    for (const { path, dialect, summary, needed } of APIS) {
      routes.add({
        method: "POST",
        url: prefix + path,
        permission: "call",
        errors: dialect.errors,
        checksGroup: true,
        ...documented(prefix, { summary, body: bodyOf(...needed) }),
        onRequest: (request, reply) => openLine(request, reply, parts),
        handle: (request, reply) => answerCall(dialect, { request, reply }, parts),
      });
    }
    routes.add({
      method: "POST",
      url: `${prefix}/messages/count_tokens`,
      permission: "call",
      errors: messagesErrors,
      ...documented(prefix, {
        summary: "How long a message's prompt is, in tokens",
        body: bodyOf("messages"),
      }),
      onRequest: (request, reply) => openLine(request, reply, parts),
      handle: (request, reply) => countTokens(request, reply, parts),
    });
    addModelRoutes(routes, prefix, parts);
  }
}

function addModelRoutes(routes: Routes, prefix: string, parts: CallRouteParts): void {
  routes.add({
    method: "GET",
    url: `${prefix}/models`,
    permission: "call",
    ...documented(prefix, { summary: "The engine's models" }),
    handle: (request, reply) => sendModels(request, reply, parts),
  });
  routes.add({
    method: "GET",
    url: `${prefix}/models/*`,
    permission: "call",
    handle: (request, reply) => sendModel(request, reply, parts),
  });
  // Some clients look whether there is anybody before they call.
  for (const url of prefix === "" ? ["/api/hello"] : [prefix, `${prefix}/api/hello`]) {
    routes.add({ method: "GET", url, permission: "none", handle: (_request, reply) => reply.send({}) });
  }
}

function documented(prefix: string, doc: RouteDoc): { readonly doc?: RouteDoc } {
  return prefix === DOCUMENTED_PREFIX ? { doc } : {};
}

function openLine(request: FastifyRequest, reply: FastifyReply, parts: CallRouteParts): void {
  const { lines, inFlight, keyLimits } = parts;
  const leaveKey = keyLimits.enter(request.caller?.key ?? null);
  try {
    request.inFlight = inFlight.enter(Number(request.headers["content-length"] ?? 0));
  } catch (error) {
    leaveKey();
    throw error;
  }
  const line = lines.open(request.raw.socket);
  request.line = line;
  // For a request that never gets to its handler too: its body broke off, or was refused.
  reply.raw.once("close", () => {
    line.close();
    request.inFlight?.leave();
    leaveKey();
  });
}

async function answerCall(
  dialect: Dialect,
  { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
  parts: CallRouteParts,
): Promise<void> {
  const line = request.line as ClientLine;
  const caller = request.caller as Caller;
  const address = callAddress(request.params as Record<string, string>, request.headers, caller);
  const { rolloutId } = address;
  if (rolloutId === null && parts.requireRollout) throw noRollout(caller);
  if (rolloutId !== null) await checkGroupOfRollout(caller, rolloutId, parts.ledger);
  const bytes = (request.body ?? Buffer.alloc(0)) as Buffer;
  request.inFlight?.hold(bytes.length);
  const body = parseJsonObject(bytes);
  const needed = dialect.neededAnswers(body);
  const stored =
    needed.length === 0 ? NOTHING_STORED : await findStoredAnswers(needed, rolloutId, parts.ledger);
  const asked = dialect.decode(body, stored);
  if (rolloutId !== null) checkRolloutLimit(rolloutId, parts);
  await whileOnLine(line, reply, () =>
    answerRepeat({ body, stream: asked.stream, address, line, reply }, parts, () =>
      parts.chat.answer({ request: asked, dialect, address }, line, reply),
    ),
  );
}

const NOTHING_STORED: ReadonlyMap<string, StoredAnswer> = new Map();

function countTokens(request: FastifyRequest, reply: FastifyReply, parts: CallRouteParts): Promise<void> {
  const line = request.line as ClientLine;
  return whileOnLine(line, reply, () => sendTokenCount(request, reply, { ...parts, signal: line.signal }));
}

async function whileOnLine(
  line: ClientLine,
  reply: FastifyReply,
  answer: () => Promise<void>,
): Promise<void> {
  try {
    await answer();
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
