// The address is the page's state: `#/path?key=value`. Opening something pushes an entry, choosing something replaces
// the one that stands. A hash works from a file and behind any proxy.
import { useEffect, useState } from "preact/hooks";

export type Source = "ledger" | "example-off" | "example-on";

export interface Place {
  readonly source: Source;
  /** The rollout's id; the worked example has one of its own. */
  readonly rollout: string;
}

export type Route =
  | { readonly view: "list"; readonly params: URLSearchParams }
  | { readonly view: "forest"; readonly place: Place; readonly params: URLSearchParams }
  | {
      readonly view: "call";
      readonly place: Place;
      readonly callId: string;
      readonly params: URLSearchParams;
    }
  | { readonly view: "row"; readonly place: Place; readonly index: number; readonly params: URLSearchParams };

/** The worked example's nine calls. */
const EXAMPLE_ROLLOUT = "r0";

export function parseRoute(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const params = new URLSearchParams(search);
  const parts = path.split("/").map(decode);
  if (parts[0] !== "rollout" && parts[0] !== "example") return { view: "list", params };
  const place: Place =
    parts[0] === "example"
      ? { source: parts[1] === "on" ? "example-on" : "example-off", rollout: EXAMPLE_ROLLOUT }
      : { source: "ledger", rollout: parts[1] ?? "" };
  const [kind, id] = [parts[2], parts[3]];
  if (kind === "call" && id !== undefined) return { view: "call", place, callId: id, params };
  if (kind === "row" && id !== undefined) return { view: "row", place, index: Number(id) || 0, params };
  return { view: "forest", place, params };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // An address that somebody cut short: taken as it stands.
    return part;
  }
}

export function placePath({ source, rollout }: Place): string {
  if (source === "ledger") return `#/rollout/${encodeURIComponent(rollout)}`;
  return source === "example-on" ? "#/example/on" : "#/example/off";
}

export function callPath(place: Place, callId: string, params: Record<string, string> = {}): string {
  return withParams(`${placePath(place)}/call/${encodeURIComponent(callId)}`, params);
}

export function rowPath(place: Place, index: number, params: Record<string, string> = {}): string {
  return withParams(`${placePath(place)}/row/${index}`, params);
}

export function forestPath(place: Place, params: Record<string, string> = {}): string {
  return withParams(placePath(place), params);
}

function withParams(path: string, params: Record<string, string>): string {
  const search = new URLSearchParams(params).toString();
  return search === "" ? path : `${path}?${search}`;
}

const listeners = new Set<() => void>();

function tellAll(): void {
  for (const listener of listeners) listener();
}

/** Opens: the way back leads here. */
export function open(path: string): void {
  if (path === location.hash) return;
  history.pushState(null, "", path);
  tellAll();
}

/** Chooses: changes parameters of the entry that stands. A null takes one out. */
export function choose(changes: Readonly<Record<string, string | null>>): void {
  const [path = "#/", search = ""] = (location.hash || "#/").split("?", 2);
  const params = new URLSearchParams(search);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "") params.delete(key);
    else params.set(key, value);
  }
  const next = params.size === 0 ? path : `${path}?${params.toString()}`;
  if (next === location.hash) return;
  history.replaceState(null, "", next);
  tellAll();
}

/** Takes the place of the entry that stands, for a switch between two states of one thing. */
export function replace(path: string): void {
  history.replaceState(null, "", path);
  tellAll();
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const read = (): void => setRoute(parseRoute(location.hash));
    listeners.add(read);
    addEventListener("popstate", read);
    addEventListener("hashchange", read);
    return () => {
      listeners.delete(read);
      removeEventListener("popstate", read);
      removeEventListener("hashchange", read);
    };
  }, []);
  return route;
}

/** Props of a link that opens a path without loading the page anew; a modified click goes to the browser. */
export function linkTo(path: string): { href: string; onClick: (event: MouseEvent) => void } {
  return {
    href: path,
    onClick: (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
      event.preventDefault();
      open(path);
    },
  };
}
