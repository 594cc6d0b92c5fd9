// Groups and rollouts, live: reward, advantage, trees, leaves, rows, refusals, alarms; filter and search in the address.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RolloutListView } from "../../src/page/view.ts";
import { count, counted } from "./format.ts";
import { useKeys } from "./keys.ts";
import { groupLines, LIST_FILTERS, passes, totalsOf, type ListFilter, type ListLine } from "./list-lines.ts";
import { ColumnNames, GroupRow, RolloutRow } from "./list-rows.tsx";
import { AnswerError } from "./page-data.ts";
import { useData } from "./place.ts";
import { choose, forestPath, linkTo, open } from "./route.ts";
import { Term } from "./term.tsx";
import { useLive, useNarrow } from "./use.ts";
import { bringIntoView, useKeptScroll, useWindow } from "./virtual.ts";

export function ListPage({
  params,
  onLocked,
}: {
  readonly params: URLSearchParams;
  readonly onLocked: () => void;
}): JSX.Element {
  const { list, error } = useList(onLocked);
  const find = params.get("q") ?? "";
  const filter = (LIST_FILTERS.find((one) => one === params.get("show")) ?? "all") satisfies ListFilter;
  const lines = useMemo(
    () => (list === null ? [] : groupLines(list.rollouts, filter, find)),
    [list, filter, find],
  );
  if (error !== null && list === null) return <p class="notice fault">{error}</p>;
  if (list === null)
    return (
      <p class="notice dim" aria-busy="true">
        Reading the ledger…
      </p>
    );
  if (list.rollouts.length === 0) return <NoRollouts />;
  return (
    <div class="list-page">
      <ListHead list={list} filter={filter} find={find} />
      {lines.length === 0 ? (
        <p class="notice dim">No rollout matches.</p>
      ) : (
        <Lines lines={lines} params={params} />
      )}
    </div>
  );
}

/** Asks anew after each change, and while some rollouts are still being measured. */
function useList(onLocked: () => void): {
  readonly list: RolloutListView | null;
  readonly error: string | null;
} {
  const data = useData();
  const [list, setList] = useState<RolloutListView | null>(null);
  const [error, setError] = useState<string | null>(null);
  const busy = useRef(false);
  const again = useRef(false);
  const load = async (): Promise<void> => {
    if (busy.current) {
      again.current = true;
      return;
    }
    busy.current = true;
    try {
      const view = await data.list();
      setList(view);
      setError(null);
      if (view.pending > 0) setTimeout(() => void load(), 400);
    } catch (thrown) {
      if (thrown instanceof AnswerError && (thrown.status === 401 || thrown.status === 403)) onLocked();
      setError(thrown instanceof Error ? thrown.message : String(thrown));
    } finally {
      busy.current = false;
      if (again.current) {
        again.current = false;
        setTimeout(() => void load(), 250);
      }
    }
  };
  useEffect(() => void load(), []);
  useLive(
    data.saved === null,
    () => true,
    () => void load(),
  );
  return { list, error };
}

function ListHead({
  list,
  filter,
  find,
}: {
  readonly list: RolloutListView;
  readonly filter: ListFilter;
  readonly find: string;
}): JSX.Element {
  const search = useRef<HTMLInputElement>(null);
  useKeys({ "/": () => search.current?.focus() });
  const totals = useMemo(() => totalsOf(list.rollouts), [list]);
  return (
    <header class="list-head">
      <h1>Rollouts</h1>
      <p class="list-totals">
        {counted(totals.groups, "group")}, {counted(totals.rollouts, "rollout")},{" "}
        {counted(totals.calls, "call")}
        {list.weight_version !== null && (
          <>
            {" "}
            · <Term of="weight_version">weights</Term> {list.weight_version}
          </>
        )}
        {list.pending > 0 && <span class="dim"> · measuring {count(list.pending)}</span>}
      </p>
      <div class="bar" role="group" aria-label="Filter rollouts">
        <div class="filters">
          {LIST_FILTERS.map((one) => (
            <button
              key={one}
              type="button"
              class="filter"
              aria-pressed={one === filter}
              onClick={() => choose({ show: one === "all" ? null : one })}
            >
              {one}{" "}
              <span class="filter-count">
                {count(list.rollouts.filter((line) => passes(line, one)).length)}
              </span>
            </button>
          ))}
        </div>
        <input
          ref={search}
          type="search"
          placeholder="Find a rollout or group  /"
          aria-label="Find a rollout or group"
          value={find}
          onInput={(event) => choose({ q: event.currentTarget.value })}
          onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
        />
      </div>
    </header>
  );
}

function Lines({
  lines,
  params,
}: {
  readonly lines: readonly ListLine[];
  readonly params: URLSearchParams;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const narrow = useNarrow();
  const height = narrow ? 64 : 40;
  const window = useWindow(box, lines.length, height);
  useKeptScroll(box, "list", lines.length > 0);
  useHeldPlace(box, lines, height);
  const chosen = params.get("chosen");
  const at = lines.findIndex((line) => line.kind === "rollout" && line.rollout.rollout_id === chosen);
  const step = (by: 1 | -1): void => {
    for (let next = at + by; next >= 0 && next < lines.length; next += by) {
      const line = lines[next] as ListLine;
      if (line.kind !== "rollout") continue;
      choose({ chosen: line.rollout.rollout_id });
      if (box.current !== null) bringIntoView(box.current, next, height);
      return;
    }
  };
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    Enter: () => chosen !== null && open(forestPath({ source: "ledger", rollout: chosen })),
  });
  const now = Date.now();
  return (
    <div class="table" role="table" aria-label="Rollouts" aria-rowcount={lines.length}>
      <ColumnNames />
      <div class="table-lines" ref={box} role="rowgroup" tabIndex={0} aria-label="Rollouts by group">
        <div style={{ height: `${lines.length * height}px` }} class="table-space" role="presentation">
          {lines.slice(window.from, window.to).map((line, offset) => {
            const top = (window.from + offset) * height;
            return line.kind === "group" ? (
              <GroupRow
                key={`group ${line.id}`}
                group={line}
                top={top}
                height={height}
                at={window.from + offset}
              />
            ) : (
              <RolloutRow
                key={line.rollout.rollout_id}
                line={line.rollout}
                spread={line.spread}
                top={top}
                height={height}
                chosen={line.rollout.rollout_id === chosen}
                now={now}
                at={window.from + offset}
              />
            );
          })}
        </div>
      </div>
    </div>
  );
}

/** New lines above leave those in sight where they are. */
function useHeldPlace(
  box: { current: HTMLDivElement | null },
  lines: readonly ListLine[],
  height: number,
): void {
  const before = useRef<{ key: string; line: number } | null>(null);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const keyOf = (line: ListLine | undefined): string =>
      line === undefined ? "" : line.kind === "group" ? `group ${line.id}` : line.rollout.rollout_id;
    const held = before.current;
    if (held !== null && element.scrollTop > 0) {
      const line = lines.findIndex((one) => keyOf(one) === held.key);
      if (line >= 0 && line !== held.line) element.scrollTop += (line - held.line) * height;
    }
    const remember = (): void => {
      const line = Math.floor(element.scrollTop / height);
      before.current = { key: keyOf(lines[line]), line };
    };
    remember();
    element.addEventListener("scroll", remember, { passive: true });
    return () => element.removeEventListener("scroll", remember);
  }, [lines, height]);
}

function NoRollouts(): JSX.Element {
  return (
    <div class="welcome">
      <h1>No rollouts yet</h1>
      <p>
        Point an agent at this gateway by its base URL. Its first call opens the rollout, and the forest grows
        here.
      </p>
      <pre>{`${location.origin}/r/ROLLOUT/v1`}</pre>
      <p>
        <a class="button strong" {...linkTo("#/example/off")}>
          See the worked example
        </a>
      </p>
    </div>
  );
}
