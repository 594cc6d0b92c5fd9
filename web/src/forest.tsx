// The forest of one rollout: a line a call, lanes beside it. An ARIA tree whose focus stays on the whole while the
// chosen call is its active one, so that lines may come and go as they scroll.
import type { JSX, RefObject } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Shown } from "./forest-view.ts";
import type { ForestModel, Kept } from "./forest-model.ts";
import { CallLine, lineId } from "./call-line.tsx";
import { Graph, graphWidth, type GraphSize } from "./graph.tsx";
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
