// The forest of one rollout: a line a call, lanes beside it. An ARIA tree whose focus stays on the whole while the
// chosen call is its active one, so that lines may come and go as they scroll.
import type { JSX, RefObject } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { count, duration } from "./format.ts";
import { isFault, type Shown } from "./forest-view.ts";
import {
  labelOf,
  labelOfId,
  nameAt,
  rootOf,
  statusOf,
  type Fate,
  type ForestModel,
  type Kept,
} from "./forest-model.ts";
import { Graph, graphWidth, type GraphSize } from "./graph.tsx";
import { Term } from "./term.tsx";
import type { TermKey } from "./glossary.ts";
import { bringIntoView, useKeptScroll, useWindow } from "./virtual.ts";
import type { Walk } from "./walk.ts";

export interface ForestProps {
  readonly name: string;
  readonly model: ForestModel;
  readonly kept: Kept;
  readonly shown: Shown;
  readonly folded: ReadonlySet<string>;
  readonly chosen: number | null;
  readonly walk: Walk | null;
  readonly narrow: boolean;
  readonly tree: RefObject<HTMLDivElement | null>;
  /** `play`: a person pointed at it, so that a leaf's walk is to be seen. */
  readonly onChoose: (index: number) => void;
  readonly onOpen: (index: number) => void;
  readonly onFold: (index: number, fold: boolean) => void;
}

/** A forest of few lanes has room to be looked at. */
function sizeOf(narrow: boolean, lanes: number): GraphSize {
  if (narrow) return { line: 46, lane: 18, lanes: 6 };
  return { line: 36, lane: lanes <= 6 ? 34 : 22, lanes: 14 };
}

export function Forest(props: ForestProps): JSX.Element {
  const { model, kept, shown, chosen, walk, narrow, tree } = props;
  const size = sizeOf(narrow, shown.lanes.width);
  const window = useWindow(tree, shown.calls.length, size.line);
  useKeptScroll(tree, props.name, shown.calls.length > 0);
  const depths = useDepths(model);
  const longest = useMemo(() => longestOf(model), [model]);
  const first = useRef(true);
  useEffect(() => {
    // Coming back to a place that was scrolled to stays there; a call chosen by a link is brought into sight.
    const line = chosen === null ? -1 : (shown.lineOf[chosen] as number);
    if (line >= 0 && tree.current !== null) bringIntoView(tree.current, line, size.line);
    first.current = false;
  }, [chosen]);
  const width = graphWidth(shown, size);
  const lines = Array.from({ length: window.to - window.from }, (_none, offset) => window.from + offset);
  return (
    <div
      ref={tree}
      class="forest"
      style={{ "--lines": shown.calls.length }}
      role="tree"
      tabIndex={0}
      aria-label="Calls of the rollout"
      aria-activedescendant={
        chosen !== null && isDrawn(shown, chosen, window) ? lineId(model, chosen) : undefined
      }
      onKeyDown={(event) => onTreeKey(event, props)}
    >
      <div class="forest-lines" style={{ height: `${shown.calls.length * size.line}px` }} role="presentation">
        <Graph
          model={model}
          kept={kept}
          shown={shown}
          window={window}
          size={size}
          chosen={chosen}
          walk={walk}
        />
        {lines.map((line) => {
          const index = shown.calls[line] as number;
          return (
            <CallLine
              key={index}
              {...props}
              index={index}
              top={line * size.line}
              left={width}
              depth={depths[index] as number}
              longest={longest}
              walked={walk?.reached.has(index) === true}
            />
          );
        })}
      </div>
    </div>
  );
}

function isDrawn(shown: Shown, index: number, window: { from: number; to: number }): boolean {
  const line = shown.lineOf[index] as number;
  return line >= window.from && line < window.to;
}

function lineId(model: ForestModel, index: number): string {
  return `call-${model.columns.order[index]}`;
}

function useDepths(model: ForestModel): Int32Array {
  return useMemo(() => {
    const depths = new Int32Array(model.size);
    for (let index = 0; index < model.size; index++) {
      const above = model.parent[index] as number;
      depths[index] = above < 0 ? 1 : (depths[above] as number) + 1;
    }
    return depths;
  }, [model]);
}

/** The most tokens that any call adds, so that bars compare. */
function longestOf({ columns }: ForestModel): number {
  let most = 1;
  for (let index = 0; index < columns.order.length; index++) {
    most = Math.max(most, (columns.carried[index] as number) + (columns.generated[index] as number));
  }
  return most;
}

interface LineProps extends ForestProps {
  readonly index: number;
  readonly top: number;
  readonly left: number;
  readonly depth: number;
  readonly longest: number;
  readonly walked: boolean;
}

function CallLine({
  model,
  kept,
  folded,
  index,
  top,
  left,
  depth,
  longest,
  walked,
  chosen,
  onChoose,
  onOpen,
  onFold,
}: LineProps): JSX.Element {
  const { columns } = model;
  const fate = kept.fates[index] as Fate;
  const id = columns.call_id[index] as string;
  const children = model.children[index];
  const isFolded = folded.has(id);
  const place = siblingPlace(model, index);
  return (
    <div
      id={lineId(model, index)}
      role="treeitem"
      class={`line ${fate} ${index === chosen ? "chosen" : ""} ${walked ? "walked" : ""}`}
      style={{ top: `${top}px`, paddingLeft: `${left}px` }}
      aria-level={depth}
      aria-posinset={place.at}
      aria-setsize={place.of}
      aria-selected={index === chosen}
      aria-expanded={children === undefined ? undefined : !isFolded}
      data-call={id}
      onClick={() => onChoose(index)}
      onDblClick={() => onOpen(index)}
    >
      <span class="line-label">{labelOf(model, index)}</span>
      <span class="unseen">{drawnWords(model, kept, index)}</span>
      {isFolded && (
        <button
          type="button"
          class="chip fold"
          tabIndex={-1}
          onClick={(event) => {
            event.stopPropagation();
            onFold(index, false);
          }}
        >
          folded
        </button>
      )}
      <TokenBar
        carried={columns.carried[index] as number}
        generated={columns.generated[index] as number}
        longest={longest}
        fate={fate}
      />
      <LineNotes model={model} kept={kept} index={index} fate={fate} />
      <span class="line-took">{duration(columns.took_ms[index] as number)}</span>
    </div>
  );
}

function siblingPlace(model: ForestModel, index: number): { at: number; of: number } {
  const above = model.parent[index] as number;
  const siblings = above < 0 ? undefined : model.children[above];
  // Counting among a crowd of siblings on every line would cost more than it tells.
  if (siblings === undefined || siblings.length > 200) return { at: 1, of: siblings?.length ?? -1 };
  return { at: siblings.indexOf(index) + 1, of: siblings.length };
}

function TokenBar({
  carried,
  generated,
  longest,
  fate,
}: {
  readonly carried: number;
  readonly generated: number;
  readonly longest: number;
  readonly fate: Fate;
}): JSX.Element {
  // By square root: a prompt of a hundred thousand tokens and one of ten are both to be seen.
  const wide = (tokens: number): string =>
    `${Math.max(tokens === 0 ? 0 : 3, Math.sqrt(tokens / longest) * 100)}%`;
  return (
    <span class="line-tokens">
      <span class="token-bar">
        <i class="carried" style={{ width: wide(carried) }} />
        <i class={`generated ${fate}`} style={{ width: wide(generated) }} />
      </span>
      <span class="token-counts">
        {count(carried)} + {count(generated)}
        <span class="unseen"> tokens carried and generated</span>
      </span>
    </span>
  );
}

const ROOT_TERMS: Readonly<Record<string, readonly [TermKey, string]>> = {
  first: ["root", "root"],
  rewrite: ["rewrite", "root: rewrite"],
  drift: ["drift", "root: drift"],
  asked_again: ["asked_again", "root: asked again"],
  other_agent: ["other_agent", "root: other agent"],
  unknown: ["unknown_root", "root"],
};

function LineNotes({
  model,
  kept,
  index,
  fate,
}: {
  readonly model: ForestModel;
  readonly kept: Kept;
  readonly index: number;
  readonly fate: Fate;
}): JSX.Element {
  const { columns } = model;
  const order = columns.order[index] as number;
  const root = ROOT_TERMS[rootOf(columns, index)];
  const follows = columns.follows[order];
  const row = kept.rowOfLeaf.get(index);
  const kind = nameAt(columns, "class", index);
  const agent = nameAt(columns, "agent", index);
  return (
    <span class="line-notes">
      {root !== undefined && (
        <span class={`chip root ${rootOf(columns, index)}`}>
          <Term inside of={root[0]}>
            {root[1]}
          </Term>
          {follows !== undefined && ` of ${labelOfId(model, follows)}`}
        </span>
      )}
      {row !== undefined && <span class="chip row-chip">row s{row.segment_index}</span>}
      {fate === "rejected" && (
        <span class="chip rejected">
          <Term inside of="rejected">
            rejected
          </Term>
        </span>
      )}
      {fate === "unwalked" && <span class="chip rejected">not walked</span>}
      {fate === "context" && (
        <span class="chip">
          <Term inside of="context">
            context
          </Term>
        </span>
      )}
      {statusOf(columns, index) !== "committed" && <span class="chip fault">{statusOf(columns, index)}</span>}
      {columns.untrainable[order] !== undefined && (
        <span class="chip fault" title={columns.untrainable[order]}>
          <Term inside of="untrainable">
            untrainable
          </Term>
        </span>
      )}
      {model.twins.has(index) && (
        <span class="chip">
          <Term inside of="twins">
            twin
          </Term>
        </span>
      )}
      {kind !== null && kind !== "main" && <span class="chip kind">{kind.replace("_", " ")}</span>}
      {agent !== null && <span class="chip agent">{agent}</span>}
    </span>
  );
}

/** What the drawing shows of a call, in words. */
function drawnWords(model: ForestModel, kept: Kept, index: number): string {
  const fate = kept.fates[index] as Fate;
  const told = [
    // Every other fate stands as a word on the line.
    fate === "kept" ? "accepted" : undefined,
    model.children[index] === undefined ? "leaf" : undefined,
    kept.rowOfLeaf.has(index) ? "walked" : undefined,
    isFault(model, index) ? "fault" : undefined,
  ];
  return told.filter((word) => word !== undefined).join(", ");
}

/** As in an ARIA tree: up and down by line, right into a call's children, left out to its parent. */
function onTreeKey(
  event: KeyboardEvent,
  { model, shown, chosen, folded, onChoose, onOpen, onFold }: ForestProps,
): void {
  if (event.metaKey || event.ctrlKey || event.altKey || event.target !== event.currentTarget) return;
  const last = shown.calls.length - 1;
  const line = chosen === null ? -1 : (shown.lineOf[chosen] as number);
  const toLine = (to: number): void => {
    const index = shown.calls[Math.max(0, Math.min(last, to))];
    if (index !== undefined) onChoose(index);
  };
  const isFolded = chosen !== null && folded.has(model.columns.call_id[chosen] as string);
  const children = chosen === null ? undefined : model.children[chosen];
  switch (event.key) {
    case "ArrowDown":
      toLine(line + 1);
      break;
    case "ArrowUp":
      toLine(line - 1);
      break;
    case "Home":
      toLine(0);
      break;
    case "End":
      toLine(last);
      break;
    case "PageDown":
      toLine(line + 20);
      break;
    case "PageUp":
      toLine(line - 20);
      break;
    case "ArrowRight":
      if (chosen === null) toLine(0);
      else if (isFolded) onFold(chosen, false);
      else if (children !== undefined) toLine(shown.lineOf[children[0] as number] as number);
      break;
    case "ArrowLeft":
      if (chosen === null) break;
      if (children !== undefined && !isFolded) onFold(chosen, true);
      else if ((model.parent[chosen] as number) >= 0)
        toLine(shown.lineOf[model.parent[chosen] as number] as number);
      break;
    case "Enter":
    case " ":
      if (chosen !== null) onOpen(chosen);
      break;
    default:
      return;
  }
  event.preventDefault();
}
