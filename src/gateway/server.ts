// The HTTP service, put together: parts, routes, errors, start and graceful end. It holds the server and nothing else;
// engine and ledger belong to whoever started it.
import { randomUUID } from "node:crypto";
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { CoppiceError, messageOf, type ErrorCode } from "../errors.ts";
import { openAiErrors } from "../dialect/openai-errors.ts";
import { asCoppiceError, retryAfter } from "./answer-error.ts";
import { VolatileLines } from "./blanked-lines.ts";
import { browserGuard, type BrowserGuard } from "./browser-guard.ts";
import { addCallRoutes } from "./call-routes.ts";
import { ChatCalls } from "./chat-call.ts";
import { addClaimRoutes } from "./claim-routes.ts";
import { ClientLines } from "./client-line.ts";
import { EventHub } from "./events.ts";
import { gatewayMetrics } from "./gateway-metrics.ts";
import {
  checkListening,
  DEFAULT_CALL_DEADLINE_MS,
  DEFAULT_DRAIN_MS,
  DEFAULT_HEARTBEAT_MS,
  DEFAULT_LIMITS,
  type GatewayOptions,
} from "./gateway-options.ts";
import { addHealthRoutes } from "./health-routes.ts";
import { checkGroupOfRollout } from "./group-keys.ts";
import { InFlightLimits } from "./in-flight-limits.ts";
import { KeptAnswers } from "./kept-answers.ts";
import { KeyFile } from "./key-file.ts";
import { KeyLimits } from "./key-limits.ts";
import { Keyring } from "./keys.ts";
import { jsonLog, type Log } from "./log.ts";
import { ModelNames } from "./model-names.ts";
import { Recorder } from "./recorder.ts";
import { takeBodiesAsBytes } from "./request-body.ts";
import { RolloutIndexes } from "./rollout-indexes.ts";
import { addRolloutRoutes } from "./rollout-routes.ts";
import { Routes } from "./routes.ts";
import { addRowRoutes } from "./row-routes.ts";
import { TraceExport } from "./trace-export.ts";
import { UnrecordedMarks } from "./unrecorded-marks.ts";
import { Ways } from "./ways.ts";
import { WeightVersions } from "./weight-versions.ts";

/** How long ended calls, and then their connections, may take to be over. */
const END_WITHIN_MS = 3000;

export interface Gateway {
  /** Where it listens, e.g. `http://127.0.0.1:8080`. */
  readonly url: string;
  /** Stops listening, waits for calls in flight up to the bound, then ends them. Leaves engine and ledger open. */
  close(): Promise<void>;
}

/** Starts a gateway and resolves once it listens. Throws `invalid_request` for options that cannot be. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  checkListening(options);
  const log = options.log ?? jsonLog();
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const callDeadlineMs = options.callDeadlineMs ?? DEFAULT_CALL_DEADLINE_MS;
  const { engine, ledger } = options;
  const keyring = new Keyring({
    clientKeys: options.clientKeys ?? [],
    operatorKeys: options.operatorKeys ?? [],
    file: options.keyFile === undefined ? null : new KeyFile(options.keyFile, log),
  });
  const guard = browserGuard({
    host: options.host,
    open: keyring.open,
    allowedHosts: options.allowedHosts ?? [],
    allowedOrigins: options.allowedOrigins ?? [],
  });
  const app = newServer({
    bodyBytes: limits.bodyBytes,
    requestTimeoutMs: callDeadlineMs,
    guard,
    tls: options.tls ?? null,
    refused: (code) => metrics.refusedRequests.add({ code }),
    log,
  });
  const lines = new ClientLines(callDeadlineMs);
  const inFlight = new InFlightLimits({ calls: limits.callsInFlight, bytes: limits.bodyBytesInFlight });
  const marks = new UnrecordedMarks(ledger, log);
  const traces = options.traces === undefined ? null : new TraceExport({ ...options.traces, log });
  const metrics = gatewayMetrics({
    callsInFlight: () => lines.size,
    unmarkedRecords: () => marks.size,
    bodyBytesInFlight: () => inFlight.bytes,
  });
  const events = new EventHub(undefined, ledger.wire ?? null);
  await events.join();
  const indexes = new RolloutIndexes(ledger);
  const weights = new WeightVersions(ledger);
  const recorder = new Recorder({
    ledger,
    engine,
    indexes,
    marks,
    metrics,
    events,
    log,
    tokensOnly: options.capture?.tokensOnly ?? false,
    traces,
  });
  const models = new ModelNames(engine, options.model ?? null, options.modelNames ?? {});
  const ways = new Ways({
    engine,
    ledger,
    indexes,
    way: options.way ?? "text",
    model: () => models.resolve(null),
    log,
    ...(options.stepWithinMs === undefined ? {} : { stepWithinMs: options.stepWithinMs }),
  });
  await ways.start();
  const chat = new ChatCalls({
    engine,
    ways,
    recorder,
    weights,
    models,
    metrics,
    volatileLines: new VolatileLines(options.blank ?? []),
    heartbeatMs: options.heartbeatMs ?? DEFAULT_HEARTBEAT_MS,
  });

  const kept = new KeptAnswers();
  const routes = new Routes(app, keyring, (caller, rollout) => checkGroupOfRollout(caller, rollout, ledger));
  addCallRoutes(routes, {
    chat,
    recorder,
    engine,
    ledger,
    models,
    kept,
    lines,
    requireRollout: options.requireRollout ?? true,
    inFlight,
    keyLimits: new KeyLimits({
      callsInFlight: limits.callsInFlightPerKey,
      callsPerMinute: limits.callsPerMinutePerKey,
    }),
    maxCallsInFlightPerRollout: limits.callsInFlightPerRollout,
  });
  addRolloutRoutes(routes, { ledger, recorder, marks, indexes, kept, weights, metrics, events, keyring });
  addClaimRoutes(routes, { ledger, indexes, events, metrics });
  addRowRoutes(routes, { ledger, recorder, marks, metrics, events });
  addHealthRoutes(routes, {
    engine,
    ledger,
    recorder,
    isClosing: () => inFlight.closing,
    metrics,
    events,
  });
  options.extend?.(routes);
  routes.refuseOtherMethods();

  const address = await app.listen({ host: options.host, port: options.port });
  log("started", { url: address, engine: engine.url, ledger: ledger.location });
  const close = async (): Promise<void> => {
    inFlight.close();
    const closed = app.close();
    events.close();
    if (lines.size > 0)
      log("draining", { calls: lines.size, at_most_ms: options.drainMs ?? DEFAULT_DRAIN_MS });
    await lines.drained(options.drainMs ?? DEFAULT_DRAIN_MS);
    lines.endAll();
    await lines.drained(END_WITHIN_MS);
    await endConnections(app, closed);
    await marks.close();
    await traces?.close();
    log("stopped", { url: address });
  };
  let closing: Promise<void> | null = null;
  return { url: address, close: () => (closing ??= close()) };
}

/** Answers that are written may still be on their way: connections end as they fall idle, and all of them in the end. */
async function endConnections(app: FastifyInstance, closed: Promise<void>): Promise<void> {
  const idle = setInterval(() => app.server.closeIdleConnections(), 20);
  const all = setTimeout(() => app.server.closeAllConnections(), END_WITHIN_MS);
  try {
    app.server.closeIdleConnections();
    await closed;
  } finally {
    clearInterval(idle);
    clearTimeout(all);
  }
}

function newServer(given: {
  readonly bodyBytes: number;
  readonly requestTimeoutMs: number;
  readonly guard: BrowserGuard;
  readonly tls: GatewayOptions["tls"] | null;
  readonly refused: (code: ErrorCode) => void;
  readonly log: Log;
}): FastifyInstance {
  const app = fastify({
    logger: false,
    ...(given.tls === null ? {} : { https: { ...given.tls, minVersion: "TLSv1.2" } }),
    frameworkErrors: (error, request, reply) => {
      void sendError(error, request, reply, given);
    },
    bodyLimit: given.bodyBytes,
    // For receiving a request; the answer has the call's own deadline.
    requestTimeout: given.requestTimeoutMs,
    // What comes over a connection that is still open is refused in the caller's dialect, by us.
    return503OnClosing: false,
    // Longer than the pools of clients keep theirs, so that no request meets a connection that is being closed.
    keepAliveTimeout: 75_000,
    genReqId: () => randomUUID().replaceAll("-", ""),
    routerOptions: { maxParamLength: 1000, ignoreTrailingSlash: true },
    // Over TLS the server is another class with the same face.
  }) as unknown as FastifyInstance;
  app.decorateRequest("line", null);
  app.decorateRequest("inFlight", null);
  app.decorateRequest("caller", null);
  takeBodiesAsBytes(app, given.bodyBytes);
  app.addHook("onRequest", (request, _reply, done) => {
    given.guard(request.method, request.headers);
    // 426 makes clients that prefer a WebSocket fall back at once; other refusals are tried again.
    if (request.headers.upgrade?.toLowerCase() === "websocket") {
      done(new CoppiceError("invalid_request", "there is no WebSocket here: use HTTP", { status: 426 }));
    } else done();
  });
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply, given));
  app.setNotFoundHandler((request, reply) =>
    sendError(
      new CoppiceError("not_found", `there is nothing at ${request.method} ${request.url.split("?", 1)[0]}`),
      request,
      reply,
      given,
    ),
  );
  return app;
}

function sendError(
  thrown: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  { log, refused }: { readonly log: Log; readonly refused: (code: ErrorCode) => void },
): FastifyReply {
  const error = asCoppiceError(thrown);
  refused(error.code);
  if (error.status >= 500 && error.code !== "unavailable") {
    log("request_failed", {
      method: request.method,
      route: request.routeOptions.url ?? null,
      status: error.status,
      code: error.code,
      // An engine's words may quote the prompt.
      reason: error.code.startsWith("engine_") ? null : messageOf(error.cause ?? error),
    });
  }
  const after = retryAfter(error);
  if (after !== null) void reply.header("retry-after", after);
  if (error.status === 401) void reply.header("www-authenticate", "Bearer");
  const dialect = request.routeOptions.config.errors ?? openAiErrors;
  return reply.code(error.status).type("application/json; charset=utf-8").send(dialect.body(error));
}
