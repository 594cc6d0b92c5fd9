// The page over a trace that can grow, as the gateway serves it: the same routes, errors and events, without an engine or
// a ledger behind. For the page's own tests, its screenshots and its measurements.
import { fastify, type FastifyInstance } from "fastify";
import { openAiErrors } from "../../dialect/openai-errors.ts";
import { asCoppiceError } from "../../gateway/answer-error.ts";
import { EventHub } from "../../gateway/events.ts";
import { Keyring } from "../../gateway/keys.ts";
import { Routes } from "../../gateway/routes.ts";
import { readTrace } from "../../export/trace.ts";
import type { Engine } from "../../engine/engine.ts";
import { traceSource, type PageSource } from "../page-source.ts";
import { registerPageOf } from "../register-page.ts";
import { TokenTexts } from "../token-texts.ts";

export interface PageServer {
  readonly url: string;
  /** Adds lines and tells whoever listens. */
  grow(lines: readonly Record<string, unknown>[]): void;
  close(): Promise<void>;
}

export async function startPageServer(options: {
  readonly lines?: readonly Record<string, unknown>[];
  /** In place of a trace. */
  readonly source?: PageSource;
  readonly engine?: Pick<Engine, "detokenize">;
  readonly operatorKeys?: readonly string[];
  readonly port?: number;
}): Promise<PageServer> {
  const lines = [...(options.lines ?? [])];
  let source = options.source ?? traceSource(readTrace(lines));
  const events = new EventHub();
  const app = fastify({ routerOptions: { maxParamLength: 1000, ignoreTrailingSlash: true } });
  app.decorateRequest("caller", {
    getter: () => ({ kind: "anyone", key: null }) as const,
    setter: () => undefined,
  });
  app.setErrorHandler((thrown, _request, reply) => {
    const error = asCoppiceError(thrown);
    return reply.code(error.status).type("application/json").send(openAiErrors.body(error));
  });
  addRoutes(app, { current: () => source, events, ...options });
  const url = await app.listen({ host: "127.0.0.1", port: options.port ?? 0 });
  return {
    url,
    grow: (more) => {
      lines.push(...more);
      source = traceSource(readTrace(lines));
      for (const line of more)
        events.publish("call_settled", () => ({ rollout_id: String(line["rollout_id"]) }));
    },
    close: async () => {
      events.close();
      app.server.closeAllConnections();
      await app.close();
    },
  };
}

function addRoutes(
  app: FastifyInstance,
  given: {
    readonly current: () => PageSource;
    readonly events: EventHub;
    readonly engine?: Pick<Engine, "detokenize">;
    readonly operatorKeys?: readonly string[];
  },
): void {
  const routes = new Routes(
    app,
    new Keyring({ clientKeys: [], operatorKeys: given.operatorKeys ?? [] }),
    () => Promise.resolve(),
  );
  const now = given.current;
  const ledger: PageSource = {
    weightVersion: () => now().weightVersion(),
    rollouts: () => now().rollouts(),
    rollout: (id) => now().rollout(id),
    summaries: (rollout, since, most) => now().summaries(rollout, since, most),
    calls: (rollout) => now().calls(rollout),
    call: (rollout, id) => now().call(rollout, id),
    group: (rollout) => now().group(rollout),
    build: (rollout, calls) => now().build(rollout, calls),
  };
  registerPageOf(routes, { ledger, texts: new TokenTexts(given.engine ?? null), log: () => undefined });
  routes.add({
    method: "GET",
    url: "/events",
    permission: "operate",
    handle: (_request, reply) => {
      reply.hijack();
      given.events.listen(reply.raw);
    },
  });
}
