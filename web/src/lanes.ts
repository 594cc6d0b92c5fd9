// Where each call stands in the drawing: a line a call in the order shown, a lane an open chain, a new lane at each
// root. A call's kept child goes on in its lane, other children leave it to the right. O(n) with a bound on lanes, and
// any window of lines can be drawn without looking at the rest: lanes that are open there are told by checkpoints.

/** Lanes that are handed out; what is open beyond that shares the last one. */
export const MOST_LANES = 40;
/** Roots step to the right, so that trees stand apart, until this many; then free lanes are taken again. */
const STEPS = 7;
const CHECKPOINT = 128;

/** A vertical line in one lane, in lines from top to bottom. */
export interface Stem {
  readonly lane: number;
  readonly from: number;
  readonly to: number;
  readonly kept: boolean;
}

export interface Lanes {
  readonly size: number;
  /** Lane of each line's call. */
  readonly lane: Int16Array;
  /** Lane that the line from the parent comes down in; -1 for a call without a parent that is shown. */
  readonly via: Int16Array;
  /** Lane that leaves this call for children after its main one; -1 for none. */
  readonly stub: Int16Array;
  /** Line of the parent; -1 for none. */
  readonly parentLine: Int32Array;
  readonly width: number;
  /** Stems that touch lines `from` to `to`. */
  stemsIn(from: number, to: number): Stem[];
}

interface Layout {
  readonly parentLine: Int32Array;
  readonly childLines: readonly (readonly number[] | undefined)[];
  readonly keptLine: (line: number) => boolean;
  /** The child that goes on in each line's lane; -1 for none. Known once the line was passed. */
  readonly main: Int32Array;
}

/** @param parentLine line of each line's parent, -1 where it is not shown */
export function layLanes(parentLine: Int32Array, keptLine: (line: number) => boolean): Lanes {
  const size = parentLine.length;
  const lane = new Int16Array(size);
  const via = new Int16Array(size).fill(-1);
  const stub = new Int16Array(size).fill(-1);
  const layout: Layout = {
    parentLine,
    childLines: childLinesOf(parentLine),
    keptLine,
    main: new Int32Array(size).fill(-1),
  };
  const taken = new LaneBoard();
  const stems: Stem[] = [];
  const checkpoints: number[][] = [];
  let open: number[] = [];
  for (let line = 0; line < size; line++) {
    if (line % CHECKPOINT === 0) {
      open = open.filter((index) => (stems[index] as Stem).to >= line);
      checkpoints.push([...open]);
    }
    taken.freeUntil(line);
    const above = parentLine[line] as number;
    if (above < 0) lane[line] = taken.takeForRoot();
    else placeChild(layout, { line, above, lane, via, stub }, taken);
    const first = stems.length;
    openStems(layout, line, { lane, stub, taken, stems });
    for (let index = first; index < stems.length; index++) open.push(index);
  }
  return {
    size,
    lane,
    via,
    stub,
    parentLine,
    width: taken.width,
    stemsIn: (from, to) => stemsIn(stems, checkpoints, { from, to }),
  };
}

function childLinesOf(parentLine: Int32Array): (number[] | undefined)[] {
  const children: (number[] | undefined)[] = Array.from({ length: parentLine.length });
  for (const [line, above] of parentLine.entries()) {
    if (above < 0) continue;
    const siblings = children[above];
    if (siblings === undefined) children[above] = [line];
    else siblings.push(line);
  }
  return children;
}

/** The latest kept child, else the latest. */
function mainChild({ childLines, keptLine }: Layout, line: number): number {
  const children = childLines[line];
  if (children === undefined) return -1;
  for (let index = children.length - 1; index >= 0; index--) {
    if (keptLine(children[index] as number)) return children[index] as number;
  }
  return children.at(-1) as number;
}

interface Placing {
  readonly line: number;
  readonly above: number;
  readonly lane: Int16Array;
  readonly via: Int16Array;
  readonly stub: Int16Array;
}

function placeChild(layout: Layout, { line, above, lane, via, stub }: Placing, taken: LaneBoard): void {
  const main = layout.main[above] as number;
  const own = lane[above] as number;
  const trunk = line <= main ? own : (stub[above] as number);
  const last = layout.childLines[above]?.at(-1);
  via[line] = trunk;
  lane[line] = line === main || (line > main && line === last) ? trunk : taken.take(trunk + 1);
}

/** Opens the lanes that lead from a call to its children, or lets its lane go where it has none. */
function openStems(
  layout: Layout,
  line: number,
  { lane, stub, taken, stems }: { lane: Int16Array; stub: Int16Array; taken: LaneBoard; stems: Stem[] },
): void {
  const children = layout.childLines[line];
  const own = lane[line] as number;
  if (children === undefined) {
    taken.release(own, line);
    return;
  }
  const main = mainChild(layout, line);
  layout.main[line] = main;
  const last = children.at(-1) as number;
  if (own < MOST_LANES - 1)
    stems.push({ lane: own, from: line, to: main, kept: layout.keptLine(main) && layout.keptLine(line) });
  if (last === main) return;
  const side = taken.take(own + 1);
  stub[line] = side;
  if (side < MOST_LANES - 1) stems.push({ lane: side, from: line, to: last, kept: false });
}

function stemsIn(
  stems: readonly Stem[],
  checkpoints: readonly (readonly number[])[],
  { from, to }: { readonly from: number; readonly to: number },
): Stem[] {
  const start = Math.floor(Math.max(0, from) / CHECKPOINT);
  const found = (checkpoints[start] ?? [])
    .map((index) => stems[index] as Stem)
    .filter((stem) => stem.to >= from);
  // Stems stand in the order in which they open.
  let low = 0;
  let high = stems.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((stems[middle] as Stem).from < start * CHECKPOINT) low = middle + 1;
    else high = middle;
  }
  for (let index = low; index < stems.length && (stems[index] as Stem).from <= to; index++) {
    if ((stems[index] as Stem).to >= from) found.push(stems[index] as Stem);
  }
  return found;
}

/** Which lanes are in use. A lane that is let go on one line is free from the next line on. */
class LaneBoard {
  readonly #used = new Uint8Array(MOST_LANES);
  #released: number[] = [];
  #rootLane = -1;
  width = 0;

  takeForRoot(): number {
    const from = this.#rootLane + 1 < STEPS ? this.#rootLane + 1 : 0;
    const lane = this.take(from);
    this.#rootLane = lane;
    return lane;
  }

  take(from: number): number {
    let lane = Math.min(from, MOST_LANES - 1);
    while (lane < MOST_LANES - 1 && this.#used[lane] === 1) lane += 1;
    // The last lane is everybody's.
    if (lane < MOST_LANES - 1) this.#used[lane] = 1;
    this.width = Math.max(this.width, lane + 1);
    return lane;
  }

  release(lane: number, line: number): void {
    this.#released.push(line, lane);
  }

  freeUntil(line: number): void {
    if (this.#released.length === 0) return;
    const kept: number[] = [];
    for (let index = 0; index < this.#released.length; index += 2) {
      if ((this.#released[index] as number) < line) this.#used[this.#released[index + 1] as number] = 0;
      else kept.push(this.#released[index] as number, this.#released[index + 1] as number);
    }
    this.#released = kept;
  }
}
