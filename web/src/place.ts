// What every view of one rollout works with: its calls, what became of them, and the texts of its tokens.
import { createContext } from "preact";
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { KeptView, RolloutLine } from "../../src/page/view.ts";
import { growColumns } from "../../src/page/grow-columns.ts";
import { buildModel, decideFates, type ForestModel, type Kept } from "./forest-model.ts";
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
  const asking = useRef<{ readonly key: string; again: boolean } | null>(null);

  /** Reads the calls that are new, a piece at a time; shown are the first and each doubling, and in the end all. */
  const readCalls = async (): Promise<Loaded> => {
    let known = latest.current;
    let columns = known?.model.columns ?? null;
    let until = known?.until ?? 0;
    let isAnew = false;
    for (;;) {
      const view = await data.rollout(place, until);
      if (known !== null && !isSame(known.line, view.line)) {
        // Sealed meanwhile, or another attempt: read anew, and shown once it is whole, so that nothing jumps.
        [known, columns, until, isAnew] = [null, null, 0, true];
        continue;
      }
      const fresh = view.calls.order.length > 0;
      columns = columns === null ? view.calls : fresh ? growColumns(columns, view.calls) : columns;
      until = view.until;
      const due = isAnew ? !view.more : !view.more || columns.order.length >= 2 * (known?.model.size ?? 0);
      if (!due) continue;
      const model = known?.model.columns === columns ? known.model : buildModel(columns);
      known = { key, line: view.line, model, until, kept: known?.kept ?? null };
      setLoaded(known);
      if (!view.more) return known;
    }
  };
  const load = async (asked: boolean): Promise<void> => {
    if (asking.current?.key === key) {
      asking.current.again = true;
      return;
    }
    asking.current = { key, again: false };
    try {
      const before = latest.current;
      const now = await readCalls();
      setFailed(null);
      if (now.kept === null || asked || worthOf(before) !== worthOf(now)) {
        const kept = await data.kept(place, asked || now.kept?.kind === "rows");
        setLoaded((shown) => (shown?.key === key ? { ...shown, kept } : shown));
      }
    } catch (error) {
      setFailed({ key, error: error instanceof Error ? error : new Error(messageOf(error)) });
    } finally {
      const again = asking.current?.key === key && asking.current.again;
      asking.current = null;
      if (again) void load(false);
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

function isSame(one: RolloutLine, other: RolloutLine): boolean {
  return one.attempt === other.attempt && one.state === other.state;
}

/** What the rows take from outside their calls. */
function worthOf(loaded: Loaded | null): string {
  return `${loaded?.line.reward} ${loaded?.line.measured?.advantage}`;
}
