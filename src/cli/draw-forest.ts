// Draws the forest of one rollout, a line a call, like `git log --graph` with the root at the top: accepted calls
// solid and in one lane, what was thrown away hollow and beside it, roots with the reason why they are roots, and each
// row's walk from its leaf up to its root. Pure: records in, lines out; linear in the number of calls.
import { fatesOf, SIGNS, walkedCalls, type DrawnRow, type Fate, type KeptRecord } from "./call-fate.ts";
import { layOut, type LaidOut, type Lane, type LanePart } from "./forest-layout.ts";
import { paintLine, piece, widthOf, type Piece, type Style } from "./paint.ts";
import { rootNote } from "./root-note.ts";
import type { CallSummary } from "../lineage/call.ts";
import type { Refusal } from "../selection/outcome.ts";

/** What a line tells of a call; a CallSummary fits. */
export type DrawnCall = Pick<
  CallSummary,
  | "status"
  | "statusDetail"
  | "rootReason"
  | "carriedLength"
  | "generatedLength"
  | "untrainable"
  | "agent"
  | "class"
> & { readonly callId: string; readonly parentCallId: string | null };

export interface ForestDrawing extends KeptRecord {
  readonly title: string;
  /** In the order in which they were admitted. */
  readonly calls: readonly DrawnCall[];
  readonly refusal: Refusal | null;
  /** Show each call's id too, where the labels are not the ids themselves. */
  readonly ids?: boolean;
}

/** A walk longer than this is told by its ends. */
const WALK_SHOWN = 8;
const WALK_HEAD = 5;

export function drawForest(drawing: ForestDrawing, style: Style): string[] {
  const labels = labelsOf(drawing.calls);
  const walks = walksOf(drawing.rows, labels, style);
  const walked = new Set([...walkedCalls(drawing.rows), ...(drawing.accepted ?? [])]);
  const trees = layOut(drawing.calls, walked);
  const fates = fatesOf(drawing, trees);
  const graphs = trees.map((tree) =>
    tree.map(({ call, lanes }) => graphOf(lanes, fates.get(call.callId) as Fate, call, labels, style)),
  );
  const graphWidth = widest(graphs);
  const tokenWidth = drawing.calls.reduce((width, call) => Math.max(width, tokensOf(call).length), 0);
  const lines: Piece[][] = [headline(drawing, trees, fates)];
  for (const [treeIndex, tree] of trees.entries()) {
    const before = trees[treeIndex - 1];
    // Single calls need no air between them.
    if (before === undefined || tree.length > 1 || before.length > 1) lines.push([]);
    for (const [index, { call, isRoot }] of tree.entries()) {
      const graph = graphs[treeIndex]?.[index] as Piece[];
      lines.push([
        ...graph,
        piece(" ".repeat(graphWidth - widthOf(graph) + 2)),
        piece(tokensOf(call).padStart(tokenWidth), "dim"),
        ...notes(call, { isRoot, fate: fates.get(call.callId) as Fate, labels, walks, style, drawing }),
      ]);
    }
  }
  lines.push(...endNotes(drawing, trees, style));
  return lines.map((line) => paintLine(line, style));
}

function widest(graphs: readonly (readonly Piece[][])[]): number {
  return graphs.flat().reduce((width, graph) => Math.max(width, widthOf(graph)), 0);
}

/** Ids as they are where all are short, as in a trace; else c1, c2 ... by admission. */
function labelsOf(calls: readonly DrawnCall[]): ReadonlyMap<string, string> {
  const short = calls.every(({ callId }) => callId.length <= 8);
  return new Map(calls.map(({ callId }, index) => [callId, short ? callId : `c${index + 1}`]));
}

/** By leaf: the walk up to its root, and the row that it became. */
function walksOf(
  rows: readonly DrawnRow[],
  labels: ReadonlyMap<string, string>,
  style: Style,
): ReadonlyMap<string, readonly Piece[][]> {
  const arrow = style.unicode ? " → " : " -> ";
  const gap = style.unicode ? "…" : "...";
  const walks = new Map<string, Piece[][]>();
  for (const { rowId, spans } of rows) {
    const leaf = spans.at(-1);
    if (leaf === undefined) continue;
    const walk = spans.map(({ callId }) => labels.get(callId) ?? callId).reverse();
    const shown =
      walk.length <= WALK_SHOWN
        ? walk
        : [
            ...walk.slice(0, WALK_HEAD),
            `${gap} ${walk.length - WALK_HEAD - 1} more ${gap}`,
            walk.at(-1) as string,
          ];
    const told = [piece(shown.join(arrow), "walk"), piece(" = ", "dim"), piece(rowId, "bold")];
    const others = walks.get(leaf.callId);
    if (others === undefined) walks.set(leaf.callId, [told]);
    else others.push(told);
  }
  return walks;
}

function graphOf(
  lanes: Lane,
  fate: Fate,
  call: DrawnCall,
  labels: ReadonlyMap<string, string>,
  style: Style,
): Piece[] {
  const sign = SIGNS[fate];
  return [
    ...lanes.flatMap(({ solid, shape }) => {
      const [lane, arm] = laneText(shape, solid, style);
      return [piece(lane, solid ? "kept" : "dim"), piece(arm, shape === "kept-fork" ? "kept" : "dim")];
    }),
    piece(style.unicode ? sign.unicode : sign.ascii, sign.paint),
    piece(` ${labels.get(call.callId)}`, sign.paint === "rejected" ? "rejected" : "bold"),
  ];
}

const ASCII_LANES = {
  pass: "| ",
  fork: "|-",
  "kept-fork": "|=",
  last: "`-",
  blank: "  ",
  deep: "> ",
} as const;
const HEAVY_LANES = {
  pass: "┃ ",
  fork: "┠╌",
  "kept-fork": "┣━",
  last: "┖╌",
  blank: "  ",
  deep: "⋯ ",
} as const;
const LIGHT_LANES = {
  pass: "│ ",
  fork: "├╌",
  "kept-fork": "┝━",
  last: "└╌",
  blank: "  ",
  deep: "⋯ ",
} as const;

/** The lane itself and its arm towards the call. */
function laneText(shape: LanePart["shape"], solid: boolean, style: Style): readonly [string, string] {
  const text = style.unicode ? (solid ? HEAVY_LANES : LIGHT_LANES)[shape] : ASCII_LANES[shape];
  return [text.charAt(0), text.slice(1)];
}

/** What the prompt adds to the parent's sequence, and what was sampled. */
function tokensOf(call: DrawnCall): string {
  return `${call.carriedLength}+${call.generatedLength}`;
}

interface NoteContext {
  readonly isRoot: boolean;
  readonly fate: Fate;
  readonly labels: ReadonlyMap<string, string>;
  readonly walks: ReadonlyMap<string, readonly Piece[][]>;
  readonly style: Style;
  readonly drawing: ForestDrawing;
}

function notes(call: DrawnCall, { isRoot, fate, labels, walks, style, drawing }: NoteContext): Piece[] {
  const told: Piece[][] = [];
  if (isRoot) told.push(rootNote(call.rootReason, labels));
  if (fate === "rejected") told.push([piece("rejected", "rejected")]);
  if (fate === "unwalked") told.push([piece("not walked", "rejected")]);
  if (fate === "context") told.push([piece("context", "context")]);
  if (call.status !== "committed") {
    const why = call.statusDetail === null ? "" : `: ${call.statusDetail.replaceAll(/\s+/g, " ")}`;
    told.push([piece(`${call.status}${why}`, fate === "lost" ? "fault" : "warning")]);
  }
  if (call.untrainable !== null) told.push([piece(`untrainable: ${call.untrainable}`, "warning")]);
  if (call.agent !== null) told.push([piece(`agent ${call.agent}`, "dim")]);
  if (call.class !== null && call.class !== "main") told.push([piece(call.class, "dim")]);
  told.push(...(walks.get(call.callId) ?? []));
  if (drawing.ids === true && labels.get(call.callId) !== call.callId) told.push([piece(call.callId, "dim")]);
  const between = piece(style.unicode ? "  ·  " : "; ", "dim");
  return told.flatMap((note, index) => [index === 0 ? piece("   ") : between, ...note]);
}

function isLone(tree: readonly LaidOut<DrawnCall>[]): boolean {
  return tree.length === 1 && tree[0]?.isRoot === false;
}

function headline(
  { title, calls }: ForestDrawing,
  trees: readonly (readonly LaidOut<DrawnCall>[])[],
  fates: ReadonlyMap<string, Fate>,
): Piece[] {
  const standing = trees.filter((tree) => !isLone(tree));
  const leaves = standing.reduce((sum, tree) => sum + tree.filter(({ isLeaf }) => isLeaf).length, 0);
  const counts = new Map<Fate, number>();
  for (const fate of fates.values()) counts.set(fate, (counts.get(fate) ?? 0) + 1);
  const told = (["kept", "context", "rejected", "unwalked", "aborted", "lost"] as const)
    .filter((fate) => counts.has(fate))
    .map((fate) => `${counts.get(fate)} ${fate === "unwalked" ? "not walked" : fate}`);
  const facts = [
    counted(calls.length, "call", "calls"),
    counted(standing.length, "tree", "trees"),
    counted(leaves, "leaf", "leaves"),
    ...told,
  ];
  return [piece(title, "bold"), piece(`  ${facts.join(", ")}`, "dim")];
}

function counted(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** Below the forest: the alarm of a forest that is all roots, and the refusal. */
function endNotes(
  { refusal, calls }: ForestDrawing,
  trees: readonly (readonly LaidOut<DrawnCall>[])[],
  style: Style,
): Piece[][] {
  const ends: Piece[][] = [];
  const roots = trees.filter((tree) => !isLone(tree)).length;
  if (roots > 2 && roots === calls.length) {
    ends.push(
      [],
      [
        piece(`${style.unicode ? "⚠" : "!"} ${calls.length} calls, ${roots} roots`, "warning"),
        piece(": no prompt goes on from an earlier sequence"),
      ],
    );
  }
  if (refusal !== null) {
    ends.push(
      [],
      [
        piece(`${style.unicode ? "✗" : "x"} no rows: ${refusal.reason}`, "fault"),
        piece(`  ${refusal.detail}`),
      ],
    );
  }
  return ends;
}
