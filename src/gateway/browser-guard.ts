// Keeps pages of other sites out. A browser sends requests to whatever address a page names, so a gateway without keys
// must know its own names (DNS rebinding lets a stranger's name point here), and requests that a page of another origin
// makes are refused, keys or not: nobody but the gateway's own page is meant to call from a browser.
import type { IncomingHttpHeaders } from "node:http";
import { CoppiceError } from "../errors.ts";

export interface BrowserGuardOptions {
  /** Where the gateway listens. */
  readonly host: string;
  /** True where no key is needed: then `Host` is checked too. */
  readonly open: boolean;
  /** More names by which the gateway is called, without a port. Given, `Host` is checked whatever the keys. */
  readonly allowedHosts: readonly string[];
  /** Origins of pages elsewhere that may call, e.g. `https://tools.example.org`. */
  readonly allowedOrigins: readonly string[];
}

const LOOPBACK_NAMES = ["localhost", "127.0.0.1", "::1"];

export type BrowserGuard = (method: string, headers: IncomingHttpHeaders) => void;

/** Gives a function that throws `forbidden` for a request that no client of ours would make. */
export function browserGuard(options: BrowserGuardOptions): BrowserGuard {
  const names = new Set([...LOOPBACK_NAMES, bare(options.host), ...options.allowedHosts.map(bare)]);
  const checksHost = options.open || options.allowedHosts.length > 0;
  const origins = new Set(options.allowedOrigins.map((origin) => origin.toLowerCase().replace(/\/$/, "")));
  return (method, headers) => {
    if (checksHost) checkHost(headers.host, names);
    checkOrigin(method, headers, origins);
  };
}

/** A request without `Host` comes from no browser. */
function checkHost(host: string | undefined, names: ReadonlySet<string>): void {
  if (host === undefined) return;
  const name = bare(host);
  if (names.has(name) || /^127(\.\d{1,3}){3}$/.test(name)) return;
  throw new CoppiceError(
    "forbidden",
    `the request asks for host ${name.slice(0, 200)}, which is no name of this gateway: start it with --allow-host for it`,
    { param: "host" },
  );
}

function checkOrigin(method: string, headers: IncomingHttpHeaders, allowed: ReadonlySet<string>): void {
  const { origin, host } = headers;
  const site = headers["sec-fetch-site"];
  // Behind a proxy that writes `Host` anew the two names differ; the browser itself says that they are one.
  if (site === "same-origin" || site === "none") return;
  if (origin !== undefined) {
    const asked = origin.toLowerCase();
    if (allowed.has(asked) || (URL.canParse(asked) && new URL(asked).host === host?.toLowerCase())) return;
    throw new CoppiceError(
      "forbidden",
      `a page of ${origin.slice(0, 200)} may not call this gateway: start it with --allow-origin for it`,
      { param: "origin" },
    );
  }
  // Following a link to the page is fine: the site that has the link sees nothing of it.
  const follows = method === "GET" && headers["sec-fetch-mode"] === "navigate";
  if (site === undefined || follows) return;
  throw new CoppiceError("forbidden", "a page of another site may not call this gateway", {
    param: "sec-fetch-site",
  });
}

/** The name without port and brackets, in lower case. */
function bare(host: string): string {
  const name = host.trim().toLowerCase();
  const bracketed = /^\[([^\]]*)\]/.exec(name);
  if (bracketed !== null) return bracketed[1] as string;
  return name.split(":").length > 2 ? name : name.replace(/:\d*$/, "").replace(/\.$/, "");
}
