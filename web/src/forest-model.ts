// The calls of one rollout as the page holds them: parallel arrays by admission, parents and children as indices, and
// what became of each once its rows are known. Built from columns and grown by later ones. Pure.
import {
  ROOT_CODES,
  STATUS_CODES,
  type CallColumns,
  type KeptView,
  type RootCode,
  type RowView,
} from "../../src/page/view.ts";

/** `unwalked`: no walk came into its tree; `lost`: it failed or is unknown; `undecided`: nobody has said yet. */
export type Fate = "kept" | "context" | "rejected" | "unwalked" | "aborted" | "lost" | "undecided";

export const FATE_WORDS: Readonly<Record<Fate, string>> = {
  kept: "accepted",
  context: "context",
  rejected: "rejected",
  unwalked: "not walked",
  aborted: "aborted",
  lost: "not recorded",
  undecided: "undecided",
};

export interface ForestModel {
  readonly size: number;
  readonly columns: CallColumns;
  /** Index by place in the count, and by call id. */
  readonly indexOf: ReadonlyMap<number, number>;
  readonly indexOfId: ReadonlyMap<string, number>;
  /** -1 for none. */
  readonly parent: Int32Array;
  readonly children: readonly (readonly number[] | undefined)[];
  readonly twins: ReadonlyMap<number, readonly number[]>;
  readonly trees: number;
  readonly leaves: number;
  /** True where ids are long and calls are named c1, c2 ... by admission. */
  readonly numbered: boolean;
}

export function buildModel(columns: CallColumns): ForestModel {
  const size = columns.order.length;
  const indexOf = new Map(columns.order.map((order, index) => [order, index]));
  const parent = Int32Array.from(columns.parent, (order) => (order === 0 ? -1 : (indexOf.get(order) ?? -1)));
  const children: number[][] = Array.from({ length: size });
  let trees = 0;
  let leaves = 0;
  for (let index = 0; index < size; index++) {
    const above = parent[index] as number;
    if (above < 0) continue;
    const siblings = children[above];
    if (siblings === undefined) children[above] = [index];
    else siblings.push(index);
  }
  for (let index = 0; index < size; index++) {
    if (rootOf(columns, index) === "no_place") continue;
    if (parent[index] === -1) trees += 1;
    if (children[index] === undefined) leaves += 1;
  }
  return {
    size,
    columns,
    indexOf,
    indexOfId: new Map(columns.call_id.map((id, index) => [id, index])),
    parent,
    children,
    twins: twinsOf(columns, indexOf),
    trees,
    leaves,
    numbered: columns.call_id.some((id) => id.length > 8),
  };
}

function twinsOf(columns: CallColumns, indexOf: ReadonlyMap<number, number>): Map<number, number[]> {
  const twins = new Map<number, number[]>();
  for (const orders of columns.twins) {
    const same = orders.flatMap((order) => indexOf.get(order) ?? []);
    for (const index of same) twins.set(index, same);
  }
  return twins;
}

export function rootOf(columns: CallColumns, index: number): RootCode {
  return ROOT_CODES[columns.root[index] as number] as RootCode;
}

export function statusOf(columns: CallColumns, index: number): (typeof STATUS_CODES)[number] {
  return STATUS_CODES[columns.status[index] as number] as (typeof STATUS_CODES)[number];
}

/** A short name: the id where ids are short, else c1, c2 ... by admission. */
export function labelOf(model: ForestModel, index: number): string {
  return model.numbered ? `c${index + 1}` : (model.columns.call_id[index] as string);
}

/** The label of a call id; the id itself where it is not of this rollout. */
export function labelOfId(model: ForestModel, id: string): string {
  const index = model.indexOfId.get(id);
  return index === undefined ? id : labelOf(model, index);
}

export function nameAt(
  columns: CallColumns,
  column: "finish" | "agent" | "class",
  index: number,
): string | null {
  return columns.names[columns[column][index] as number] ?? null;
}

export interface Kept {
  readonly fates: readonly Fate[];
  /** Rows by the index of the call that their walk starts from. */
  readonly rowOfLeaf: ReadonlyMap<number, RowView>;
  /** The first row that each call stands in. */
  readonly rowOfCall: ReadonlyMap<number, RowView>;
  readonly rows: readonly RowView[];
}

export function decideFates(model: ForestModel, kept: KeptView | null): Kept {
  const rows = kept?.kind === "rows" ? kept.rows : [];
  const rowOfLeaf = new Map<number, RowView>();
  const rowOfCall = new Map<number, RowView>();
  const trained = new Set<number>();
  for (const row of rows) {
    for (const span of row.spans) {
      const index = model.indexOf.get(span.order);
      if (index === undefined) continue;
      if (span.trained) trained.add(index);
      if (span.trained || !rowOfCall.has(index)) rowOfCall.set(index, row);
    }
    const leaf = model.indexOf.get(row.spans.at(-1)?.order ?? -1);
    if (leaf !== undefined) rowOfLeaf.set(leaf, row);
  }
  const walkedTrees = walkedRoots(model, rowOfCall);
  const fates: Fate[] = [];
  const roots = new Int32Array(model.size);
  for (let index = 0; index < model.size; index++) {
    const above = model.parent[index] as number;
    roots[index] = above < 0 ? index : (roots[above] as number);
    fates.push(fateOf(index, walkedTrees.has(roots[index] as number)));
  }
  return { fates, rowOfLeaf, rowOfCall, rows };

  function fateOf(index: number, treeWalked: boolean): Fate {
    if (trained.has(index)) return "kept";
    const status = statusOf(model.columns, index);
    if (status === "aborted") return "aborted";
    if (status === "admitted") return "undecided";
    if (status !== "committed") return "lost";
    if (rowOfCall.has(index)) return "context";
    if (rows.length === 0) return "undecided";
    return treeWalked ? "rejected" : "unwalked";
  }
}

function walkedRoots(model: ForestModel, rowOfCall: ReadonlyMap<number, RowView>): Set<number> {
  const roots = new Set<number>();
  for (const row of new Set(rowOfCall.values())) {
    const root = model.indexOf.get(row.spans[0]?.order ?? -1);
    if (root !== undefined) roots.add(root);
  }
  return roots;
}

/** A leaf's walk up to its root by parents alone: the leaf first. */
export function walkUp(model: ForestModel, leaf: number): number[] {
  const walk: number[] = [];
  for (let at = leaf; at >= 0; at = model.parent[at] as number) walk.push(at);
  return walk;
}
