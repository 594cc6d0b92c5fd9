// One line of the forest: the call's name, what it added and sampled, and what there is to say of it. Its place and its
// dot are the forest's and the graph's.
import type { JSX } from "preact";
import { count, duration } from "./format.ts";
import { isFault } from "./forest-view.ts";
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
import type { TermKey } from "./glossary.ts";
import { Term } from "./term.tsx";

export function lineId(model: ForestModel, index: number): string {
  return `call-${model.columns.order[index]}`;
}

interface LineProps {
  readonly model: ForestModel;
  readonly kept: Kept;
  readonly folded: ReadonlySet<string>;
  readonly chosen: number | null;
  readonly onChoose: (index: number) => void;
  readonly onOpen: (index: number) => void;
  readonly onFold: (index: number, fold: boolean) => void;
  readonly index: number;
  readonly top: number;
  readonly left: number;
  readonly depth: number;
  readonly longest: number;
  readonly walked: boolean;
}

export function CallLine({
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
