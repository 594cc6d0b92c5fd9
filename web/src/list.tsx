// Groups and rollouts, live: reward, advantage, trees, leaves, rows, refusals, alarms; filter and search in the address.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RolloutLine, RolloutListView } from "../../src/page/view.ts";
import { ago, count, counted, decimal, signed } from "./format.ts";
import { useKeys } from "./keys.ts";
import {
  groupLines,
  LIST_FILTERS,
  passes,
  totalsOf,
  type GroupLine,
  type ListFilter,
  type ListLine,
} from "./list-lines.ts";
import { AnswerError } from "./page-data.ts";
import { useData } from "./place.ts";
import { choose, forestPath, linkTo, open } from "./route.ts";
import { alarmName, alarmWords, StateMark, toneOf } from "./rollout-head.tsx";
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

function ColumnNames(): JSX.Element {
  return (
    <div class="table-names" role="rowgroup">
      <div role="row" class="table-row">
        <span role="columnheader">
          <Term of="rollout">rollout</Term>
        </span>
        <span role="columnheader">state</span>
        <span role="columnheader" class="number">
          <Term of="reward">reward</Term>
        </span>
        <span role="columnheader">
          <Term of="advantage">advantage</Term>
        </span>
        <span role="columnheader" class="number">
          <Term of="call">calls</Term>
        </span>
        <span role="columnheader" class="number">
          <Term of="tree">trees</Term>
        </span>
        <span role="columnheader" class="number">
          <Term of="leaf">leaves</Term>
        </span>
        <span role="columnheader" class="number">
          <Term of="row">rows</Term>
        </span>
        <span role="columnheader">
          <Term of="alarm">alarms</Term> and <Term of="refusal">refusals</Term>
        </span>
        <span role="columnheader" class="number">
          opened
        </span>
      </div>
    </div>
  );
}

function GroupRow({
  group,
  top,
  height,
  at,
}: {
  readonly group: GroupLine;
  readonly top: number;
  readonly height: number;
  readonly at: number;
}): JSX.Element {
  return (
    <div
      role="row"
      aria-rowindex={at + 1}
      class="table-row group-row"
      style={{ top: `${top}px`, height: `${height}px` }}
    >
      <span role="cell" class="group-name">
        <span class="dim">group</span> {group.id}
      </span>
      <span role="cell" class="group-facts">
        {group.sealed} of {group.size ?? group.rollouts} sealed
        {group.mean !== null && <> · mean reward {decimal(group.mean)}</>}
      </span>
    </div>
  );
}

interface RolloutRowProps {
  readonly line: RolloutLine;
  readonly spread: number;
  readonly top: number;
  readonly height: number;
  readonly chosen: boolean;
  readonly now: number;
  readonly at: number;
}

function RolloutRow({ line, spread, top, height, chosen, now, at }: RolloutRowProps): JSX.Element {
  const { measured } = line;
  const link = linkTo(forestPath({ source: "ledger", rollout: line.rollout_id }));
  const number = (value: number | null | undefined): string =>
    value === null || value === undefined ? "–" : count(value);
  return (
    <div
      role="row"
      aria-rowindex={at + 1}
      class={chosen ? "table-row chosen" : "table-row"}
      style={{ top: `${top}px`, height: `${height}px` }}
      onClick={link.onClick}
    >
      <span role="cell" class="name">
        <a href={link.href} tabIndex={-1}>
          {line.rollout_id}
        </a>
      </span>
      <span role="cell" class="cell-state">
        <StateMark line={line} />
      </span>
      <span role="cell" class="number cell-reward">
        {decimal(line.reward)}
      </span>
      <span role="cell" class="cell-advantage">
        <AdvantageBar value={measured?.advantage ?? null} spread={spread} />
      </span>
      <span role="cell" class="number cell-calls">
        {count(line.admitted)}
      </span>
      <span role="cell" class="number cell-trees">
        {number(measured?.trees)}
      </span>
      <span role="cell" class="number cell-leaves">
        {number(measured?.leaves)}
      </span>
      <span role="cell" class="number cell-rows">
        {number(measured?.rows)}
      </span>
      <span role="cell" class="cell-notes">
        {measured?.refusal !== undefined && measured.refusal !== null && (
          <span class="chip fault" title={measured.refusal.detail}>
            {measured.refusal.reason}
          </span>
        )}
        {measured?.alarms.map(({ kind, calls }) => (
          <span key={kind} class="chip warn" title={alarmWords(kind, calls)}>
            {alarmName(kind, calls)}
          </span>
        ))}
      </span>
      <span role="cell" class="number dim cell-opened">
        {ago(line.opened_at, now)}
      </span>
    </div>
  );
}

/** From the middle: right of it better than the group's mean, left of it worse. */
function AdvantageBar({
  value,
  spread,
}: {
  readonly value: number | null;
  readonly spread: number;
}): JSX.Element {
  if (value === null) return <span class="dim">–</span>;
  const width = spread === 0 ? 0 : (Math.abs(value) / spread) * 50;
  return (
    <span class="advantage">
      <span class="advantage-track" aria-hidden="true">
        <i
          class={toneOf(value)}
          style={{ width: `${width}%`, left: value >= 0 ? "50%" : `${50 - width}%` }}
        />
      </span>
      <b class={toneOf(value)}>{signed(value)}</b>
    </span>
  );
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
