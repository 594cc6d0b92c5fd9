// One rollout: its facts, its forest with the row under it, and the chosen call beside it.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RowView } from "../../src/page/view.ts";
import { CallPanel } from "./call.tsx";
import { Dock } from "./dock.tsx";
import { Forest } from "./forest.tsx";
import { FILTERS, isKept, showForest, type Filter, type Shown } from "./forest-view.ts";
import type { Fate, ForestModel } from "./forest-model.ts";
import { useKeys } from "./keys.ts";
import type { PlaceState } from "./place.ts";
import { callPath, choose, open, placePath } from "./route.ts";
import { count } from "./format.ts";
import { useNarrow, useStill } from "./use.ts";
import { useWalk, walkOf } from "./walk.ts";

interface RolloutProps {
  readonly state: PlaceState;
  readonly params: URLSearchParams;
  readonly head: ComponentChildren;
}

export function RolloutView({ state, params, head }: RolloutProps): JSX.Element {
  const { model, kept, place } = state;
  const narrow = useNarrow();
  const still = useStill();
  const tree = useRef<HTMLDivElement>(null);
  const search = useRef<HTMLInputElement>(null);
  const [folded, setFolded] = useFolds(placePath(place));
  const filter = (FILTERS.find((one) => one === params.get("only")) ?? "all") satisfies Filter;
  const find = params.get("find") ?? "";
  const shown = useMemo(
    () => showForest(model, kept, { folded, filter, find }),
    [model, kept, folded, filter, find],
  );
  const chosen = model.indexOfId.get(params.get("call") ?? "") ?? null;
  const row =
    chosen === null
      ? null
      : rowToShow(kept.rowOfLeaf.get(chosen), kept.rowOfCall.get(chosen), kept.fates[chosen] as Fate);
  const calls = useMemo(() => (row === null ? null : walkOf(model, row)), [row, model]);
  const [play, setPlay] = useState({ turn: 0, row: "" });
  const walk = useWalk(calls, row?.row_id === play.row ? play.turn : 0, still);

  const pick = (index: number): void => {
    const leafRow = kept.rowOfLeaf.get(index);
    if (leafRow !== undefined && index !== chosen)
      setPlay((before) => ({ turn: before.turn + 1, row: leafRow.row_id }));
    choose({ call: model.columns.call_id[index] as string, token: null });
  };
  const openCall = (index: number): void => open(callPath(place, model.columns.call_id[index] as string));
  const fold = (index: number, isFolded: boolean): void => {
    const next = new Set(folded);
    if (isFolded) next.add(model.columns.call_id[index] as string);
    else next.delete(model.columns.call_id[index] as string);
    setFolded(next);
  };
  useKeys({
    ...forestKeys(model, shown, chosen, pick),
    "/": () => search.current?.focus(),
    Escape: () => choose({ call: null }),
    o: () => chosen !== null && openCall(chosen),
    p: () => row !== null && setPlay((before) => ({ turn: before.turn + 1, row: row.row_id })),
  });
  return (
    <div class={chosen !== null && !narrow ? "rollout with-aside" : "rollout"}>
      <div class="rollout-main">
        {head}
        <ForestBar
          of={state.line.admitted}
          shown={shown}
          model={model}
          filter={filter}
          find={find}
          search={search}
        />
        {shown.calls.length === 0 ? (
          <p class="notice dim">{model.size === 0 ? "No calls yet." : "No call matches."}</p>
        ) : (
          <Forest
            name={placePath(place)}
            model={model}
            kept={kept}
            shown={shown}
            folded={folded}
            chosen={chosen}
            walk={walk}
            narrow={narrow}
            tree={tree}
            onChoose={pick}
            onOpen={openCall}
            onFold={fold}
          />
        )}
        <Dock
          state={state}
          chosen={chosen}
          row={row}
          walk={walk}
          onCall={pick}
          onOpen={narrow && chosen !== null ? () => openCall(chosen) : null}
          onPlay={() => row !== null && setPlay((before) => ({ turn: before.turn + 1, row: row.row_id }))}
        />
      </div>
      {chosen !== null && !narrow && (
        <aside class="rollout-aside" aria-label="Chosen call">
          <CallPanel state={state} callId={model.columns.call_id[chosen] as string} params={params} aside />
        </aside>
      )}
    </div>
  );
}

/** A leaf's own row; of another kept call, the row that it stands in. */
function rowToShow(ofLeaf: RowView | undefined, ofCall: RowView | undefined, fate: Fate): RowView | null {
  if (ofLeaf !== undefined) return ofLeaf;
  return isKept(fate) ? (ofCall ?? null) : null;
}

/** Folds are kept for the visit, by rollout. */
function useFolds(key: string): [ReadonlySet<string>, (folds: ReadonlySet<string>) => void] {
  const read = (): ReadonlySet<string> =>
    new Set(JSON.parse(sessionStorage.getItem(`folds ${key}`) ?? "[]") as string[]);
  const [folds, setFolds] = useState({ key, folds: read() });
  useEffect(() => {
    if (folds.key !== key) setFolds({ key, folds: read() });
  }, [key]);
  return [
    folds.folds,
    (next) => {
      sessionStorage.setItem(`folds ${key}`, JSON.stringify([...next]));
      setFolds({ key, folds: next });
    },
  ];
}

function forestKeys(
  model: ForestModel,
  shown: Shown,
  chosen: number | null,
  pick: (index: number) => void,
): Readonly<Record<string, () => void>> {
  const line = chosen === null ? -1 : (shown.lineOf[chosen] as number);
  const toLine = (to: number): void => {
    const index = shown.calls[Math.max(0, Math.min(shown.calls.length - 1, to))];
    if (index !== undefined) pick(index);
  };
  const toLane = (step: -1 | 1): void => {
    if (line < 0) return toLine(0);
    const to = nearestInLane(shown, line, step);
    if (to >= 0) toLine(to);
  };
  const toSibling = (step: -1 | 1): void => {
    if (chosen === null) return;
    const above = model.parent[chosen] as number;
    const siblings =
      above >= 0
        ? (model.children[above] as readonly number[])
        : [...shown.calls].filter((index) => model.parent[index] === -1);
    const next = siblings[siblings.indexOf(chosen) + step];
    if (next !== undefined) pick(next);
  };
  return {
    j: () => toLine(line + 1),
    k: () => toLine(line < 0 ? 0 : line - 1),
    h: () => toLane(-1),
    l: () => toLane(1),
    "[": () => toSibling(-1),
    "]": () => toSibling(1),
  };
}

/** The line nearest to this one whose call stands in the next lane to that side that has any. */
function nearestInLane({ lanes }: Shown, line: number, step: -1 | 1): number {
  const own = lanes.lane[line] as number;
  for (let lane = own + step; lane >= 0 && lane < lanes.width; lane += step) {
    for (let away = 1; away < lanes.size; away++) {
      if (lanes.lane[line - away] === lane) return line - away;
      if (lanes.lane[line + away] === lane) return line + away;
    }
  }
  return -1;
}

interface BarProps {
  /** Calls that the rollout has; the page may still be reading them. */
  readonly of: number;
  readonly shown: Shown;
  readonly model: ForestModel;
  readonly filter: Filter;
  readonly find: string;
  readonly search: { current: HTMLInputElement | null };
}

function ForestBar({ of, shown, model, filter, find, search }: BarProps): JSX.Element {
  return (
    <div class="bar" role="group" aria-label="Filter calls">
      <div class="filters">
        {FILTERS.map((one) => (
          <button
            key={one}
            type="button"
            class="filter"
            aria-pressed={one === filter}
            onClick={() => choose({ only: one === "all" ? null : one })}
          >
            {one}
          </button>
        ))}
      </div>
      <input
        ref={search}
        type="search"
        placeholder="Find a call  /"
        aria-label="Find a call"
        value={find}
        onInput={(event) => choose({ find: event.currentTarget.value })}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
      />
      <span class="dim bar-count">
        {shown.calls.length === model.size
          ? count(model.size)
          : `${count(shown.calls.length)} of ${count(model.size)}`}
        {model.size < of && `, reading ${count(of)}`}
      </span>
    </div>
  );
}
