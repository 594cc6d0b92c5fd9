// The rows of the list: column names, a group, a rollout.
import type { JSX } from "preact";
import type { RolloutLine } from "../../src/page/view.ts";
import { ago, count, decimal, signed } from "./format.ts";
import type { GroupLine } from "./list-lines.ts";
import { forestPath, linkTo } from "./route.ts";
import { alarmName, alarmWords, StateMark, toneOf } from "./rollout-head.tsx";
import { Term } from "./term.tsx";

export function ColumnNames(): JSX.Element {
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

export function GroupRow({
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

export function RolloutRow({ line, spread, top, height, chosen, now, at }: RolloutRowProps): JSX.Element {
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
