// The routes of the service, all declared through here: who may use each, what errors look like on it, and, for the
// methods that a path does not have, a 405 that names those it has.
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from "fastify";
import type { z } from "zod";
import { CoppiceError } from "../errors.ts";
import type { ErrorDialect } from "../dialect/dialect.ts";
import { openAiErrors } from "../dialect/openai-errors.ts";
import { allow, type Caller, type Keyring, type Permission } from "./keys.ts";
import type { DocumentedRoute } from "./open-api.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** How this route tells errors; the OpenAI way where it does not say. */
    errors?: ErrorDialect;
  }
}

/** What the OpenAPI document says of a route. */
export interface RouteDoc {
  readonly summary: string;
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  readonly answer?: z.ZodType;
  /** Of the answer; JSON where it does not say. */
  readonly contentType?: string;
}

export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly url: string;
  readonly permission: Permission | "none";
  readonly errors?: ErrorDialect;
  /** Left out: the route is one of several spellings, or no part of the API. */
  readonly doc?: RouteDoc;
  /** The handler itself checks whether a key that is bound to a group may do this to the rollout in the path. */
  readonly checksGroup?: boolean;
  /** Runs before the body is read. */
  readonly onRequest?: (request: FastifyRequest, reply: FastifyReply) => void;
  readonly handle: (request: FastifyRequest, reply: FastifyReply) => unknown;
}

const METHODS: readonly HTTPMethods[] = ["DELETE", "GET", "HEAD", "PATCH", "POST", "PUT", "OPTIONS"];

export class Routes {
  readonly #app: FastifyInstance;
  readonly #keyring: Keyring;
  readonly #checkGroup: (caller: Caller | null, rollout: string) => Promise<void>;
  readonly #methods = new Map<string, Set<string>>();
  readonly #documented: DocumentedRoute[] = [];

  /** @param checkGroup throws where a key that is bound to a group may not touch the rollout */
  constructor(
    app: FastifyInstance,
    keyring: Keyring,
    checkGroup: (caller: Caller | null, rollout: string) => Promise<void>,
  ) {
    this.#app = app;
    this.#keyring = keyring;
    this.#checkGroup = checkGroup;
  }

  get documented(): readonly DocumentedRoute[] {
    return this.#documented;
  }

  add(route: Route): void {
    const { method, url, permission, onRequest, handle } = route;
    const known = this.#methods.get(url) ?? new Set();
    known.add(method);
    if (method === "GET") known.add("HEAD");
    this.#methods.set(url, known);
    const { doc } = route;
    if (doc !== undefined) this.#documented.push({ method, url, needsKey: permission !== "none", doc });
    this.#app.route({
      method,
      url,
      exposeHeadRoute: true,
      config: { errors: route.errors ?? openAiErrors },
      onRequest: (request, reply, done) => {
        if (permission !== "none") {
          request.caller = this.#keyring.identify(request.headers);
          allow(request.caller, permission, rolloutInPath(request));
        }
        onRequest?.(request, reply);
        done();
      },
      handler: async (request, reply) => {
        const rollout = rolloutInPath(request);
        if (request.caller?.kind === "group" && rollout !== null && route.checksGroup !== true) {
          await this.#checkGroup(request.caller, rollout);
        }
        await handle(request, reply);
        return reply;
      },
    });
  }

  /** Called once all routes are there. */
  refuseOtherMethods(): void {
    for (const [url, known] of this.#methods) {
      const others = METHODS.filter((method) => !known.has(method));
      const allowed = [...known].join(", ");
      this.#app.route({
        method: others,
        url,
        config: { errors: openAiErrors },
        // Before the body is read: nobody wants it.
        onRequest: (request, reply) => {
          void reply.header("allow", allowed);
          throw new CoppiceError(
            "invalid_request",
            `${request.method} is no method of ${request.url}; it has ${allowed}`,
            { status: 405 },
          );
        },
        handler: () => undefined,
      });
    }
  }
}

function rolloutInPath(request: FastifyRequest): string | null {
  const { rollout } = request.params as { readonly rollout?: string };
  return rollout ?? null;
}
