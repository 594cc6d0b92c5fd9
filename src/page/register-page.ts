// The page over HTTP: its own files, open to whoever may reach the port, and read-only JSON about what the ledger
// holds, for operators. Everything is relative to `/page/`, so that a proxy may put the gateway under any path.
import type { FastifyReply, FastifyRequest } from "fastify";
import { CoppiceError } from "../errors.ts";
import type { Engine } from "../engine/engine.ts";
import type { Log } from "../gateway/log.ts";
import type { Routes } from "../gateway/routes.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { PageModel } from "./page-model.ts";
import { ledgerSource, type PageSource } from "./page-source.ts";
import { readSite, type SiteFile } from "./site-files.ts";
import { MOST_TEXTS, TokenTexts } from "./token-texts.ts";
import { exampleSource, exampleView } from "./worked-example.ts";

export interface PageOptions {
  readonly ledger: Ledger;
  /** Tells the texts of tokens; without one the page shows ids. */
  readonly engine?: Pick<Engine, "detokenize">;
  readonly log: Log;
}

/**
 * Nothing but the page's own files, no inline script or style, no frame around it, and no string ever becomes markup:
 * what models and agents wrote is shown as text.
 */
export const CONTENT_SECURITY_POLICY: string = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "font-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

/** Adds the page's routes. Throws `unavailable` on the first request of the page itself where it was not built. */
export function registerPage(routes: Pick<Routes, "add">, { ledger, engine, log }: PageOptions): void {
  registerPageOf(routes, { ledger: ledgerSource(ledger), texts: new TokenTexts(engine ?? null), log });
}

/** The same over any source of records. */
export function registerPageOf(
  routes: Pick<Routes, "add">,
  given: { readonly ledger: PageSource; readonly texts: TokenTexts; readonly log: Log },
): void {
  addSite(routes);
  const examples = { off: exampleSource("off"), on: exampleSource("on") };
  addApi(routes, given.texts, {
    ledger: new PageModel(given.ledger, given.log),
    "example-off": new PageModel(examples.off, given.log),
    "example-on": new PageModel(examples.on, given.log),
  });
  routes.add({
    method: "GET",
    url: "/page/api/example",
    permission: "none",
    handle: async (_request, reply) => sendJson(reply, await exampleView(examples)),
  });
}

function addSite(routes: Pick<Routes, "add">): void {
  let site: ReadonlyMap<string, SiteFile> | null = null;
  const file = (name: string): SiteFile => {
    site ??= readSite();
    const found = site.get(name);
    if (found === undefined) throw new CoppiceError("not_found", `the page has no file ${name}`);
    return found;
  };
  routes.add({
    method: "GET",
    url: "/",
    permission: "none",
    handle: (_request, reply) => reply.redirect("page/", 302),
  });
  routes.add({
    method: "GET",
    url: "/page/",
    permission: "none",
    handle: (request, reply) => {
      // The page's addresses are relative to its folder.
      if (!request.url.split("?", 1)[0]?.endsWith("/")) return reply.redirect("page/", 302);
      return sendFile(request, reply, file("index.html"), "no-cache");
    },
  });
  routes.add({
    method: "GET",
    url: "/page/assets/:file",
    permission: "none",
    handle: (request, reply) =>
      sendFile(
        request,
        reply,
        file(`assets/${param(request, "file")}`),
        "public, max-age=31536000, immutable",
      ),
  });
}

function addApi(
  routes: Pick<Routes, "add">,
  texts: TokenTexts,
  models: Readonly<Record<"ledger" | "example-off" | "example-on", PageModel>>,
): void {
  for (const [source, model] of Object.entries(models)) {
    const get = (path: string, answer: (request: FastifyRequest) => Promise<unknown>): void =>
      routes.add({
        method: "GET",
        url: `/page/api/${source}${path}`,
        // Prompts and answers are for operators; the worked example is for everybody.
        permission: source === "ledger" ? "operate" : "none",
        handle: async (request, reply) => sendJson(reply, await answer(request)),
      });
    get("/rollouts", () => model.list());
    get("/rollouts/:rollout", (request) =>
      model.rollout(param(request, "rollout"), wholeNumber(request, "since") ?? 0),
    );
    get("/rollouts/:rollout/kept", (request) =>
      model.kept(param(request, "rollout"), query(request, "asked") === "true"),
    );
    get("/rollouts/:rollout/rows/:index", (request) =>
      model.rowTokens(param(request, "rollout"), Number(param(request, "index"))),
    );
    get("/rollouts/:rollout/calls/:call", (request) =>
      model.call(param(request, "rollout"), param(request, "call")),
    );
    get("/texts", async (request) => ({
      texts: source === "ledger" ? await texts.texts(idsAsked(request)) : {},
    }));
  }
}

function idsAsked(request: FastifyRequest): number[] {
  const ids = (query(request, "ids") ?? "").split(",").filter((id) => id !== "");
  const bad = ids.find((id) => !/^\d{1,10}$/.test(id));
  if (bad !== undefined || ids.length > MOST_TEXTS) {
    throw new CoppiceError("invalid_request", `ids must be at most ${MOST_TEXTS} token ids between commas`, {
      param: "ids",
    });
  }
  return ids.map(Number);
}

function param(request: FastifyRequest, name: string): string {
  return (request.params as Readonly<Record<string, string>>)[name] as string;
}

function query(request: FastifyRequest, name: string): string | undefined {
  const value = (request.query as Readonly<Record<string, unknown>>)[name];
  return typeof value === "string" ? value : undefined;
}

function wholeNumber(request: FastifyRequest, name: string): number | undefined {
  const value = query(request, name);
  if (value === undefined) return undefined;
  if (!/^\d{1,15}$/.test(value)) {
    throw new CoppiceError("invalid_request", `${name} is "${value}"; it must be a whole number`, {
      param: name,
    });
  }
  return Number(value);
}

function sendJson(reply: FastifyReply, value: unknown): FastifyReply {
  return secured(reply)
    .type("application/json; charset=utf-8")
    .header("cache-control", "no-store")
    .send(JSON.stringify(value));
}

function sendFile(
  request: FastifyRequest,
  reply: FastifyReply,
  file: SiteFile,
  caching: string,
): FastifyReply {
  void secured(reply).type(file.type).header("cache-control", caching).header("vary", "accept-encoding");
  const gzip = file.gzipped !== null && /\bgzip\b/.test(request.headers["accept-encoding"] ?? "");
  if (!gzip) return reply.send(file.bytes);
  return reply.header("content-encoding", "gzip").send(file.gzipped);
}

function secured(reply: FastifyReply): FastifyReply {
  return reply
    .header("content-security-policy", CONTENT_SECURITY_POLICY)
    .header("x-content-type-options", "nosniff")
    .header("referrer-policy", "no-referrer")
    .header("cross-origin-opener-policy", "same-origin")
    .header("cross-origin-resource-policy", "same-origin");
}
