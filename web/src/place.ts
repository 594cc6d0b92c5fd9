// What every view of one rollout works with: its calls, what became of them, and the texts of its tokens.
import { createContext } from "preact";
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { KeptView, RolloutLine } from "../../src/page/view.ts";
import { buildModel, decideFates, growColumns, type ForestModel, type Kept } from "./forest-model.ts";
import { messageOf } from "./message-of.ts";
import type { PageData } from "./page-data.ts";
import { TextBook } from "./token-texts.ts";
import { placePath, type Place } from "./route.ts";
import { useLive } from "./use.ts";

export interface PlaceState {
  readonly place: Place;
  readonly line: RolloutLine;
  readonly model: ForestModel;
  readonly keptView: KeptView | null;
  readonly kept: Kept;
  readonly texts: TextBook;
  /** Builds the rows of a rollout that is too large to build unasked. */
  readonly askRows: () => void;
}

export const Data = createContext<PageData>(null as unknown as PageData);

export function useData(): PageData {
  return useContext(Data);
}

interface Loaded {
  readonly key: string;
  readonly line: RolloutLine;
  readonly model: ForestModel;
  readonly until: number;
  readonly kept: KeptView | null;
}

/** Calls are asked for once and grown by what is new; rows are asked for when the rollout is sealed. */
export function usePlace(place: Place): { readonly state: PlaceState | null; readonly error: Error | null } {
  const data = useData();
  const key = placePath(place);
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [failed, setFailed] = useState<{ readonly key: string; readonly error: Error } | null>(null);
  const latest = useRef<Loaded | null>(null);
  latest.current = loaded?.key === key ? loaded : null;
  const asking = useRef<string | null>(null);

  const load = async (asked: boolean): Promise<void> => {
    // One question at a time; what changes meanwhile is asked for by the next event.
    if (asking.current === key) return;
    asking.current = key;
    try {
      const known = latest.current;
      const view = await data.rollout(place, known?.until ?? 0);
      const same =
        known !== null && known.line.attempt === view.line.attempt && known.line.state === view.line.state;
      const whole = same || known === null ? view : await data.rollout(place, 0);
      const model =
        same && known !== null
          ? whole.calls.order.length === 0
            ? known.model
            : buildModel(growColumns(known.model.columns, whole.calls))
          : buildModel(whole.calls);
      const keptBefore = same && !asked ? known.kept : null;
      const shown: Loaded = { key, line: whole.line, model, until: whole.until, kept: keptBefore };
      setLoaded(shown);
      setFailed(null);
      if (keptBefore === null || whole.line.state === "sealed") {
        const kept = await data.kept(place, asked || (keptBefore !== null && keptBefore.kind === "rows"));
        setLoaded((now) => (now?.key === key ? { ...now, kept } : now));
      }
    } catch (error) {
      setFailed({ key, error: error instanceof Error ? error : new Error(messageOf(error)) });
    } finally {
      if (asking.current === key) asking.current = null;
    }
  };
  useEffect(() => {
    void load(false);
  }, [key]);
  useLive(
    place.source === "ledger" && data.saved === null,
    (event) => event.rollout_id === place.rollout,
    () => void load(false),
  );
  const current = loaded?.key === key ? loaded : null;
  const texts = useMemo(() => new TextBook(data, place.source), [data, place.source]);
  const kept = useMemo(
    () => (current === null ? null : decideFates(current.model, current.kept)),
    [current?.model, current?.kept],
  );
  const state =
    current === null || kept === null
      ? null
      : {
          place,
          line: current.line,
          model: current.model,
          keptView: current.kept,
          kept,
          texts,
          askRows: () => void load(true),
        };
  return { state, error: failed?.key === key ? failed.error : null };
}
