// The walk from a chosen leaf up to its root, played a call at a time. Where a person asked for less motion, or the
// walk was played before, it stands finished at once.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { RowView } from "../../src/page/view.ts";
import type { ForestModel } from "./forest-model.ts";
import type { Window } from "./virtual.ts";

export interface Walk {
  /** Call indices, the leaf first. */
  readonly calls: readonly number[];
  /** Calls that the walk has come to. */
  readonly step: number;
  readonly reached: ReadonlySet<number>;
  /** Calls below whose edge to the next one the walk has gone, as far as they touch the window. */
  edges(window: Window, lineOf: Int32Array): number[];
}

const STEP_MS = 420;
/** A long walk takes no longer than this altogether. */
const MOST_MS = 4200;

export function walkOf(model: ForestModel, row: RowView): number[] {
  return row.spans.flatMap((span) => model.indexOf.get(span.order) ?? []).reverse();
}

/** @param play changes whenever the walk is to be played anew; 0 shows it finished */
export function useWalk(calls: readonly number[] | null, play: number, still: boolean): Walk | null {
  const length = calls?.length ?? 0;
  const [played, setPlayed] = useState({ play: 0, step: 0 });
  const running = play !== 0 && !still;
  const step = running ? (played.play === play ? played.step : 1) : length;
  useEffect(() => {
    if (!running || length === 0) return undefined;
    const started = performance.now();
    const stepMs = Math.min(STEP_MS, MOST_MS / length);
    let frame = 0;
    const tick = (): void => {
      const reached = Math.min(length, 1 + Math.floor((performance.now() - started) / stepMs));
      setPlayed((before) =>
        before.play === play && before.step === reached ? before : { play, step: reached },
      );
      if (reached < length) frame = requestAnimationFrame(tick);
    };
    tick();
    return () => cancelAnimationFrame(frame);
  }, [play, running, length]);
  return useMemo(() => {
    if (calls === null) return null;
    const reached = calls.slice(0, step);
    return {
      calls,
      step,
      reached: new Set(reached),
      edges: (window, lineOf) => edgesIn(reached, window, lineOf),
    };
  }, [calls, step]);
}

/** Lines fall along a walk, so the calls that touch the window are one run of it. */
function edgesIn(reached: readonly number[], window: Window, lineOf: Int32Array): number[] {
  const lineAt = (place: number): number => lineOf[reached[place] as number] ?? -1;
  let low = 0;
  let high = reached.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lineAt(middle) > window.to) low = middle + 1;
    else high = middle;
  }
  const edges: number[] = [];
  // One more on either side: its edge may reach into the window.
  for (let place = Math.max(0, low - 1); place + 1 < reached.length; place++) {
    edges.push(reached[place] as number);
    if (lineAt(place) < window.from) break;
  }
  return edges;
}
