// The lanes beside the lines in sight, as one SVG: stems, branches, dots, and the walk that is chosen on top.
import type { JSX } from "preact";
import type { Window } from "./virtual.ts";
import { isKept, type Shown } from "./forest-view.ts";
import { rootOf, type Fate, type ForestModel, type Kept } from "./forest-model.ts";
import type { Walk } from "./walk.ts";

export interface GraphSize {
  readonly line: number;
  readonly lane: number;
  /** Lanes drawn apart; deeper ones share the last place. */
  readonly lanes: number;
}

const LEFT = 16;

export function graphWidth(shown: Shown, size: GraphSize): number {
  return LEFT * 2 + 10 + (Math.max(1, Math.min(size.lanes, shown.lanes.width)) - 1) * size.lane;
}

interface GraphProps {
  readonly model: ForestModel;
  readonly kept: Kept;
  readonly shown: Shown;
  readonly window: Window;
  readonly size: GraphSize;
  readonly chosen: number | null;
  readonly walk: Walk | null;
}

export function Graph({ model, kept, shown, window, size, chosen, walk }: GraphProps): JSX.Element {
  const { lanes } = shown;
  const x = (lane: number): number => LEFT + Math.min(lane, size.lanes - 1) * size.lane;
  const y = (line: number): number => (line - window.from + 0.5) * size.line;
  const first = Math.max(0, window.from - 1);
  const plain: string[] = [];
  const solid: string[] = [];
  for (const stem of lanes.stemsIn(first, window.to)) {
    const from = Math.max(stem.from, first);
    const to = Math.min(stem.to, window.to);
    if (to > from) (stem.kept ? solid : plain).push(`M${x(stem.lane)} ${y(from)}V${y(to)}`);
  }
  for (let line = window.from; line < Math.min(window.to + 1, lanes.size); line++) {
    const fate = kept.fates[shown.calls[line] as number] as Fate;
    const via = lanes.via[line] as number;
    const lane = lanes.lane[line] as number;
    if (via >= 0 && via !== lane)
      (isKept(fate) ? solid : plain).push(branch(x(via), x(lane), y(line), size.line));
  }
  for (let line = first; line < Math.min(window.to, lanes.size); line++) {
    const stub = lanes.stub[line] as number;
    if (stub >= 0) plain.push(leave(x(lanes.lane[line] as number), x(stub), y(line), size.line));
  }
  return (
    <svg
      class="graph"
      width={graphWidth(shown, size)}
      height={(window.to - window.from) * size.line}
      style={{ top: `${window.from * size.line}px` }}
      aria-hidden="true"
    >
      <path class="stem" d={plain.join("")} />
      <path class="stem kept" d={solid.join("")} />
      {walk !== null && <path class="stem walk" d={walkPath(walk, { shown, window, size, x, y })} />}
      {Array.from({ length: Math.max(0, Math.min(window.to, lanes.size) - window.from) }, (_none, offset) => {
        const line = window.from + offset;
        const index = shown.calls[line] as number;
        return (
          <Dot
            key={index}
            x={x(lanes.lane[line] as number)}
            y={y(line)}
            fate={kept.fates[index] as Fate}
            root={model.parent[index] === -1 && rootOf(model.columns, index) !== "no_place"}
            chosen={index === chosen}
            walked={walk?.reached.has(index) === true}
            leaf={kept.rowOfLeaf.has(index)}
          />
        );
      })}
    </svg>
  );
}

/** Down a lane, then over to another just above the line. */
function branch(from: number, to: number, y: number, line: number): string {
  const bend = Math.min(line * 0.62, 22);
  return `M${from} ${y - bend}C${from} ${y - bend * 0.25} ${from} ${y} ${Math.max(from + 6, to - 8)} ${y}H${to}`;
}

/** Out of a call into the lane of its later children. */
function leave(from: number, to: number, y: number, line: number): string {
  return `M${from} ${y}H${to - 8}Q${to} ${y} ${to} ${y + Math.min(10, line * 0.4)}`;
}

function walkPath(
  walk: Walk,
  at: {
    shown: Shown;
    window: Window;
    size: GraphSize;
    x: (lane: number) => number;
    y: (line: number) => number;
  },
): string {
  const { lanes, lineOf } = at.shown;
  const path: string[] = [];
  for (const index of walk.edges(at.window, lineOf)) {
    const line = lineOf[index] as number;
    const above = lanes.parentLine[line] as number;
    if (above < 0) continue;
    const via = lanes.via[line] as number;
    const lane = lanes.lane[line] as number;
    const start = lanes.lane[above] as number;
    const top = Math.max(above, at.window.from - 1);
    if (via === start) path.push(`M${at.x(via)} ${at.y(top)}V${at.y(line) - (via === lane ? 0 : 20)}`);
    else
      path.push(
        leave(at.x(start), at.x(via), at.y(above), at.size.line),
        `M${at.x(via)} ${at.y(top) + 10}V${at.y(line)}`,
      );
    if (via !== lane) path.push(branch(at.x(via), at.x(lane), at.y(line), at.size.line));
  }
  return path.join("");
}

interface DotProps {
  readonly x: number;
  readonly y: number;
  readonly fate: Fate;
  readonly root: boolean;
  readonly chosen: boolean;
  readonly walked: boolean;
  readonly leaf: boolean;
}

function Dot({ x, y, fate, root, chosen, walked, leaf }: DotProps): JSX.Element {
  const state = `${fate} ${chosen ? "chosen" : ""} ${walked ? "walked" : ""}`;
  return (
    <g class={`dot ${state}`}>
      {chosen && <circle class="halo" cx={x} cy={y} r="12" />}
      {root ? (
        <rect class="mark" x={x - 5.5} y={y - 5.5} width="11" height="11" rx="2.5" />
      ) : (
        <circle class="mark" cx={x} cy={y} r="5.5" />
      )}
      {leaf && <circle class="leaf-ring" cx={x} cy={y} r="9" />}
      {(fate === "lost" || fate === "aborted") && (
        <path class="cross" d={`M${x - 3} ${y - 3}l6 6m0-6l-6 6`} />
      )}
    </g>
  );
}
