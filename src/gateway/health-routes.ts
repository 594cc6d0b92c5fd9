// What machines ask of the service itself: is it alive, is it ready, its metrics, its events, its description.
import type { FastifyReply } from "fastify";
import { messageOf } from "../errors.ts";
import type { Engine } from "../engine/engine.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { EventHub } from "./events.ts";
import type { GatewayMetrics } from "./gateway-metrics.ts";
import { openApiDocument } from "./open-api.ts";
import type { Recorder } from "./recorder.ts";
import type { Routes } from "./routes.ts";

/** Readiness asks engine and ledger, and an answer that takes longer is none. */
const READY_WITHIN_MS = 2000;

export interface HealthRouteParts {
  readonly engine: Engine;
  readonly ledger: Ledger;
  readonly recorder: Pick<Recorder, "admitFault">;
  /** True once the gateway takes no more calls. */
  readonly isClosing: () => boolean;
  readonly metrics: GatewayMetrics;
  readonly events: EventHub;
}

export function addHealthRoutes(routes: Routes, parts: HealthRouteParts): void {
  const { metrics, events } = parts;
  routes.add({
    method: "GET",
    url: "/healthz",
    permission: "none",
    doc: { summary: "The process is alive" },
    handle: (_request, reply) => reply.send({ status: "ok" }),
  });
  routes.add({
    method: "GET",
    url: "/readyz",
    permission: "none",
    doc: { summary: "Engine and ledger answer and calls are taken; 503 where one does not hold" },
    handle: (_request, reply) => sendReadiness(reply, parts),
  });
  routes.add({
    method: "GET",
    url: "/metrics",
    permission: "operate",
    doc: { summary: "Prometheus metrics", contentType: "text/plain" },
    handle: (_request, reply) => reply.type("text/plain; version=0.0.4; charset=utf-8").send(metrics.text()),
  });
  routes.add({
    method: "GET",
    url: "/events",
    permission: "operate",
    doc: { summary: "Live events of rollouts and calls", contentType: "text/event-stream" },
    handle: (request, reply) => {
      if (request.method === "HEAD") return reply.send();
      reply.hijack();
      events.listen(reply.raw);
      return undefined;
    },
  });
  routes.add({
    method: "GET",
    url: "/openapi.json",
    permission: "none",
    handle: (_request, reply) => reply.send(openApiDocument(routes.documented)),
  });
}

async function sendReadiness(
  reply: FastifyReply,
  { engine, ledger, recorder, isClosing }: HealthRouteParts,
): Promise<FastifyReply> {
  const signal = AbortSignal.timeout(READY_WITHIN_MS);
  const [engineFault, readFault] = await Promise.all([
    faultOf(engine.models(signal)),
    faultOf(ledger.weightVersion()),
  ]);
  // A ledger that can be read may still be full: the last call knows.
  const ledgerFault = readFault ?? recorder.admitFault;
  const draining = isClosing();
  const ready = engineFault === null && ledgerFault === null && !draining;
  return reply.code(ready ? 200 : 503).send({
    status: ready ? "ready" : draining ? "draining" : "not ready",
    engine: engineFault ?? "ok",
    ledger: ledgerFault ?? "ok",
  });
}

async function faultOf(answer: Promise<unknown>): Promise<string | null> {
  try {
    await answer;
    return null;
  } catch (error) {
    return messageOf(error);
  }
}
