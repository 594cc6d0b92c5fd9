// What of a forest is shown: calls that folds and the filter leave, and their lanes. Pure.
import { labelOf, nameAt, rootOf, statusOf, type Fate, type ForestModel, type Kept } from "./forest-model.ts";
import { layLanes, type Lanes } from "./lanes.ts";

export const FILTERS = ["all", "kept", "rejected", "roots", "leaves", "faults"] as const;
export type Filter = (typeof FILTERS)[number];

export interface Shown {
  /** Call index of each line. */
  readonly calls: Int32Array;
  /** Line of each call; -1 where it is not shown. */
  readonly lineOf: Int32Array;
  readonly lanes: Lanes;
  /** Calls that match; equal to the number of lines where nothing is folded. */
  readonly matches: number;
}

export interface Showing {
  readonly folded: ReadonlySet<string>;
  readonly filter: Filter;
  readonly find: string;
}

export function showForest(model: ForestModel, kept: Kept, { folded, filter, find }: Showing): Shown {
  const hidden = new Uint8Array(model.size);
  const calls: number[] = [];
  const needle = find.trim().toLowerCase();
  for (let index = 0; index < model.size; index++) {
    const above = model.parent[index] as number;
    const isHidden =
      above >= 0 && (hidden[above] === 1 || folded.has(model.columns.call_id[above] as string));
    if (isHidden) hidden[index] = 1;
    else if (passes(model, kept.fates[index] as Fate, index, filter) && matchesText(model, index, needle))
      calls.push(index);
  }
  const lineOf = new Int32Array(model.size).fill(-1);
  for (const [line, index] of calls.entries()) lineOf[index] = line;
  const parentLine = Int32Array.from(calls, (index) => {
    const above = model.parent[index] as number;
    return above < 0 ? -1 : (lineOf[above] as number);
  });
  const lanes = layLanes(parentLine, (line) => isKept(kept.fates[calls[line] as number] as Fate));
  return { calls: Int32Array.from(calls), lineOf, lanes, matches: calls.length };
}

export function isKept(fate: Fate): boolean {
  return fate === "kept" || fate === "context";
}

function passes(model: ForestModel, fate: Fate, index: number, filter: Filter): boolean {
  switch (filter) {
    case "all":
      return true;
    case "kept":
      return isKept(fate);
    case "rejected":
      return fate === "rejected" || fate === "unwalked";
    case "roots":
      return model.parent[index] === -1;
    case "leaves":
      return model.children[index] === undefined;
    case "faults":
      return isFault(model, index);
  }
}

export function isFault(model: ForestModel, index: number): boolean {
  const { columns } = model;
  const status = statusOf(columns, index);
  return (
    columns.untrainable[columns.order[index] as number] !== undefined ||
    rootOf(columns, index) === "drift" ||
    (status !== "committed" && status !== "admitted")
  );
}

function matchesText(model: ForestModel, index: number, needle: string): boolean {
  if (needle === "") return true;
  const { columns } = model;
  const order = columns.order[index] as number;
  const texts = [
    labelOf(model, index),
    columns.call_id[index],
    columns.response_id[index],
    nameAt(columns, "agent", index),
    nameAt(columns, "class", index),
    nameAt(columns, "finish", index),
    rootOf(columns, index),
    statusOf(columns, index),
    columns.untrainable[order],
    columns.detail[order],
  ];
  return texts.some((text) => text?.toLowerCase().includes(needle));
}
