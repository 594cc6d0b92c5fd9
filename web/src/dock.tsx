// Under the forest: the row that the chosen leaf's walk builds, segment by segment; or why there is none.
import type { ComponentChildren, JSX } from "preact";
import type { RowView } from "../../src/page/view.ts";
import { count, counted, signed } from "./format.ts";
import { labelOf, type Fate } from "./forest-model.ts";
import { useData, type PlaceState } from "./place.ts";
import { linkTo, rowPath } from "./route.ts";
import { RowStrip, TOKENS_SHOWN } from "./strip.tsx";
import { Term } from "./term.tsx";
import { useAsked } from "./use.ts";
import type { Walk } from "./walk.ts";

interface DockProps {
  readonly state: PlaceState;
  readonly chosen: number | null;
  readonly row: RowView | null;
  readonly walk: Walk | null;
  readonly onCall: (index: number) => void;
  readonly onPlay: () => void;
  /** Where there is no room for the call beside the forest. */
  readonly onOpen: (() => void) | null;
}

/** Rows shown under the forest while nothing is chosen. */
const ROWS_SHOWN = 6;

export function Dock(props: DockProps): JSX.Element {
  const { state, chosen, row } = props;
  if (row !== null) return <RowDock {...props} row={row} />;
  return (
    <section class="dock empty" aria-live="polite">
      {chosen === null || isUnmade(state.keptView) ? (
        <Idle {...props} />
      ) : (
        <NoRow {...props} chosen={chosen} />
      )}
      {chosen !== null && <OpenButton onOpen={props.onOpen} />}
    </section>
  );
}

/** Without rows what is true of the rollout is true of each of its calls. */
function isUnmade(keptView: PlaceState["keptView"]): boolean {
  return keptView === null || keptView.kind !== "rows";
}

function Idle({ state, onCall }: DockProps): JSX.Element {
  const { keptView, kept } = state;
  if (keptView?.kind === "refused") {
    return (
      <p>
        <Term of="refusal">Refused</Term>: <b>{keptView.refusal.reason}</b>. {keptView.refusal.detail}
      </p>
    );
  }
  if (keptView?.kind === "unasked") {
    return (
      <p>
        {counted(keptView.calls, "call")}: every record is read and checked before a row is built.{" "}
        <button type="button" class="button" onClick={state.askRows}>
          Check and build the rows
        </button>
      </p>
    );
  }
  if (keptView?.kind === "open")
    return <p class="dim">The rollout is open: its rows come with its outcome.</p>;
  if (keptView === null)
    return (
      <p class="dim" aria-busy="true">
        Building the rows…
      </p>
    );
  const short =
    kept.rows.length <= ROWS_SHOWN && kept.rows.every((row) => row.spans.length <= ROW_SPANS_SHOWN);
  return short ? <RowList state={state} onCall={onCall} /> : <LeafChoices state={state} onCall={onCall} />;
}

const ROW_SPANS_SHOWN = 24;
const LEAVES_NAMED = 24;

function LeafChoices({ state, onCall }: Pick<DockProps, "state" | "onCall">): JSX.Element {
  const { kept, model } = state;
  const leaves = [...kept.rowOfLeaf.keys()];
  return (
    <div class="dock-idle">
      <p>
        {counted(kept.rows.length, "row")}. Choose a <Term of="leaf">leaf</Term> to see its{" "}
        <Term of="walk">walk</Term> build one:
      </p>
      <p class="leaf-choices">
        {leaves.slice(0, LEAVES_NAMED).map((leaf) => (
          <button key={leaf} type="button" class="chip row-chip" onClick={() => onCall(leaf)}>
            {labelOf(model, leaf)}
          </button>
        ))}
        {leaves.length > LEAVES_NAMED && (
          <span class="dim">and {count(leaves.length - LEAVES_NAMED)} more</span>
        )}
      </p>
    </div>
  );
}

function RowList({ state, onCall }: Pick<DockProps, "state" | "onCall">): JSX.Element {
  return (
    <div class="dock-rows">
      {state.kept.rows.map((row) => (
        <IdleRow key={row.row_id} state={state} row={row} onCall={onCall} />
      ))}
    </div>
  );
}

function IdleRow({
  state,
  row,
  onCall,
}: Pick<DockProps, "state" | "onCall"> & { readonly row: RowView }): JSX.Element {
  const data = useData();
  const { place, model } = state;
  const short = row.tokens <= CELLS_SHOWN;
  const key = short ? `${place.source} ${place.rollout} ${row.row_id}` : null;
  const tokens = useAsked(key, () => data.rowTokens(place, row.segment_index));
  const leaf = model.indexOf.get(row.spans.at(-1)?.order ?? -1);
  return (
    <div class="dock-row">
      <header>
        <a class="dock-name mono" {...linkTo(rowPath(place, row.segment_index))}>
          {row.row_id}
        </a>
        <span class="dim">
          {counted(row.tokens, "token")}, {count(row.trained)} <Term of="trained">trained</Term>
        </span>
        {leaf !== undefined && (
          <button
            type="button"
            class="link"
            onClick={() => onCall(leaf)}
            aria-label={`Play the walk of ${labelOf(model, leaf)}`}
          >
            play the walk
          </button>
        )}
      </header>
      <RowStrip
        model={model}
        row={row}
        tokens={tokens.value}
        built={row.spans.length}
        chosen={null}
        onCall={onCall}
      />
    </div>
  );
}

/** A row of at most this many tokens shows them while nothing is chosen. */
const CELLS_SHOWN = 32;

function NoRow({ state, chosen }: DockProps & { readonly chosen: number }): JSX.Element {
  const name = <b>{labelOf(state.model, chosen)}</b>;
  const fate = state.kept.fates[chosen] as Fate;
  const why: Readonly<Record<Fate, ComponentChildren>> = {
    kept: <>{name} stands in a row.</>,
    context: <>{name} is context.</>,
    rejected: (
      <>
        {name} was <Term of="rejected">rejected</Term>: it is never walked and never trained. Its record is
        still read and checked.
      </>
    ),
    unwalked: <>{name} stands in a tree that no walk comes into.</>,
    aborted: <>{name} was aborted, and the agent did not name it: it trains nowhere.</>,
    lost: <>The answer of {name} is not in the record.</>,
    undecided: <>Nobody has said yet whether {name} is kept.</>,
  };
  return <p>{why[fate]}</p>;
}

function OpenButton({ onOpen }: Pick<DockProps, "onOpen">): JSX.Element | null {
  if (onOpen === null) return null;
  return (
    <button type="button" class="button" onClick={onOpen}>
      Open
    </button>
  );
}

function RowDock({
  state,
  chosen,
  row,
  walk,
  onCall,
  onPlay,
  onOpen,
}: DockProps & { readonly row: RowView }): JSX.Element {
  const data = useData();
  const { place } = state;
  const short = row.tokens <= TOKENS_SHOWN;
  const tokens = useAsked(short ? `${place.source} ${place.rollout} ${row.row_id}` : null, () =>
    data.rowTokens(place, row.segment_index),
  );
  const built = walk === null ? row.spans.length : walk.step;
  const done = built >= row.spans.length;
  const leaves = state.kept.rows.flatMap(
    (one) => state.model.indexOf.get(one.spans.at(-1)?.order ?? -1) ?? [],
  );
  const at = leaves.indexOf(state.model.indexOf.get(row.spans.at(-1)?.order ?? -1) ?? -1);
  return (
    <section class={done ? "dock done" : "dock"} aria-label={`Row ${row.row_id}`}>
      <header>
        <a class="dock-name mono" {...linkTo(rowPath(place, row.segment_index))}>
          {row.row_id}
        </a>
        <span class="dock-facts">
          <span>
            <b>{count(row.tokens)}</b> tokens
          </span>
          <span>
            <b>{count(row.trained)}</b> <Term of="trained">trained</Term>
          </span>
          <span>
            <Term of="advantage">advantage</Term> <b>{signed(row.advantage)}</b>
          </span>
        </span>
        <span class="dock-moves">
          <OpenButton onOpen={onOpen} />
          <button
            type="button"
            class="icon"
            disabled={at <= 0}
            onClick={() => onCall(leaves[at - 1] as number)}
            aria-label="Walk of the row before"
          >
            ‹
          </button>
          <button type="button" class="button" onClick={onPlay}>
            {done ? "Play" : "Playing"}
            <span class="unseen"> the walk</span>
          </button>
          <button
            type="button"
            class="icon"
            disabled={at < 0 || at >= leaves.length - 1}
            onClick={() => onCall(leaves[at + 1] as number)}
            aria-label="Walk of the next row"
          >
            ›
          </button>
        </span>
      </header>
      <RowStrip
        model={state.model}
        row={row}
        tokens={tokens.value}
        built={built}
        chosen={chosen}
        onCall={onCall}
      />
      <WalkWords state={state} walk={walk} row={row} />
    </section>
  );
}

/** Calls of a walk that are named; of a longer one the ends. */
const NAMED = 9;

function WalkWords({
  state,
  walk,
  row,
}: {
  readonly state: PlaceState;
  readonly walk: Walk | null;
  readonly row: RowView;
}): JSX.Element | null {
  if (walk === null) return null;
  const names = walk.calls.slice(0, walk.step).map((index) => labelOf(state.model, index));
  const shown = names.length <= NAMED ? names : [...names.slice(0, NAMED - 2), "…", names.at(-1) as string];
  return (
    <p class="walk-words" aria-live="polite">
      <Term of="walk">walk</Term> <span class="mono">{shown.join(" → ")}</span>
      {walk.step >= row.spans.length && <span class="dim"> reversed: one row</span>}
    </p>
  );
}
