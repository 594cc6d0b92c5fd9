// Small hooks: content that is asked for, live changes, what the person's machine prefers.
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "./message-of.ts";
import { authorized } from "./page-data.ts";

export type Asked<T> =
  | { readonly state: "waiting"; readonly value: T | null; readonly error: null }
  | { readonly state: "here"; readonly value: T; readonly error: null }
  | { readonly state: "failed"; readonly value: T | null; readonly error: Error };

/** Asks again whenever `key` changes; what was there stays until the new answer is. Null asks nothing. */
export function useAsked<T>(key: string | null, ask: () => Promise<T>): Asked<T> {
  const [asked, setAsked] = useState<Asked<T> & { readonly key: string | null }>({
    state: "waiting",
    value: null,
    error: null,
    key: null,
  });
  useEffect(() => {
    if (key === null) return undefined;
    let stale = false;
    ask().then(
      (value) => {
        if (!stale) setAsked({ state: "here", value, error: null, key });
      },
      (error: unknown) => {
        if (!stale)
          setAsked({
            state: "failed",
            value: null,
            error: new Error(messageOf(error), { cause: error }),
            key,
          });
      },
    );
    return () => {
      stale = true;
    };
  }, [key]);
  return asked.key === key ? asked : { state: "waiting", value: null, error: null };
}

const QUIET_MS = 250;
const POLL_MS = 2000;

/**
 * Calls back after something changed in the ledger: told by the gateway's events, or, where they cannot be had, every
 * two seconds. Events that come together are one change. `wanted` says which events matter.
 */
export function useLive(active: boolean, wanted: (event: LedgerEvent) => boolean, changed: () => void): void {
  const latest = useRef({ wanted, changed });
  latest.current = { wanted, changed };
  useEffect(() => {
    if (!active) return undefined;
    const ended = new AbortController();
    let timer = 0;
    const soon = (): void => {
      if (timer !== 0) return;
      timer = window.setTimeout(() => {
        timer = 0;
        latest.current.changed();
      }, QUIET_MS);
    };
    void follow(ended.signal, (event) => {
      if (event.type === "missed" || latest.current.wanted(event)) soon();
    });
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [active]);
}

export interface LedgerEvent {
  readonly type: string;
  readonly rollout_id?: string;
}

async function follow(signal: AbortSignal, tell: (event: LedgerEvent) => void): Promise<void> {
  while (!signal.aborted) {
    try {
      const response = await fetch("../events", { signal, headers: authorized() });
      if (!response.ok || response.body === null) throw new Error(`events answered ${response.status}`);
      // What happened before the stream began.
      tell({ type: "missed" });
      await readEvents(response.body, tell);
    } catch (error) {
      if (signal.aborted) return;
      console.debug("no live events, asking again:", messageOf(error));
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    if (!signal.aborted) tell({ type: "missed" });
  }
}

async function readEvents(
  body: ReadableStream<Uint8Array>,
  tell: (event: LedgerEvent) => void,
): Promise<void> {
  const reader = body
    .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
    .getReader();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (text + part.value).split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("data: ")) tell(JSON.parse(line.slice(6)) as LedgerEvent);
    }
  }
}

export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const read = (): void => setMatches(media.matches);
    media.addEventListener("change", read);
    read();
    return () => media.removeEventListener("change", read);
  }, [query]);
  return matches;
}

export function useNarrow(): boolean {
  return useMedia("(max-width: 760px)");
}

export function useStill(): boolean {
  return useMedia("(prefers-reduced-motion: reduce)");
}
