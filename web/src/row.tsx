// One row: its segments by call, its totals, the check that each kept token trains once, and every token, each of which
// leads back to its call.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { KeptView, RowTokensView, RowView, SpanView } from "../../src/page/view.ts";
import { count, counted, decimal, signed } from "./format.ts";
import { labelOf } from "./forest-model.ts";
import { useKeys } from "./keys.ts";
import { useData, type PlaceState } from "./place.ts";
import { callPath, choose, linkTo, open, rowPath } from "./route.ts";
import { Figure, toneOf } from "./rollout-head.tsx";
import { RowStrip } from "./strip.tsx";
import { Term } from "./term.tsx";
import { TokenLegend, Tokens, type TokenRun } from "./tokens.tsx";
import { useAsked } from "./use.ts";

export function RowPage({
  state,
  index,
  params,
}: {
  readonly state: PlaceState;
  readonly index: number;
  readonly params: URLSearchParams;
}): JSX.Element {
  const data = useData();
  const { place, keptView } = state;
  const row = keptView?.kind === "rows" ? keptView.rows[index] : undefined;
  const tokens = useAsked(row === undefined ? null : `${place.source} ${place.rollout} ${row.row_id}`, () =>
    data.rowTokens(place, index),
  );
  const count_ = keptView?.kind === "rows" ? keptView.rows.length : 0;
  const go = (to: number): void => {
    if (to >= 0 && to < count_) open(rowPath(place, to));
  };
  useKeys({ "[": () => go(index - 1), "]": () => go(index + 1) });
  if (keptView === null)
    return (
      <p class="notice dim" aria-busy="true">
        Building the rows…
      </p>
    );
  if (row === undefined || keptView.kind !== "rows") {
    return (
      <p class="notice">
        This rollout has no row {index}
        {keptView.kind === "refused" ? `: ${keptView.refusal.reason}. ${keptView.refusal.detail}` : "."}
      </p>
    );
  }
  return (
    <section class="row-page" aria-label={`Row ${row.row_id}`}>
      <header class="row-head">
        <h1>{row.row_id}</h1>
        <span class="row-moves">
          <button
            type="button"
            class="icon"
            disabled={index === 0}
            onClick={() => go(index - 1)}
            aria-label="Row before"
          >
            ‹
          </button>
          <span class="dim">
            <Term of="segment">segment</Term> {row.segment_index} · {counted(row.segment_count, "row")}
          </span>
          <button
            type="button"
            class="icon"
            disabled={index >= count_ - 1}
            onClick={() => go(index + 1)}
            aria-label="Next row"
          >
            ›
          </button>
        </span>
      </header>
      <Totals row={row} rolloutTrained={keptView.rollout_trainable_tokens} />
      <TrainsOnce kept={keptView} />
      <RowStrip
        model={state.model}
        row={row}
        tokens={row.tokens <= CELLS_SHOWN ? tokens.value : null}
        built={row.spans.length}
        chosen={null}
        onCall={(call) => open(callPath(place, state.model.columns.call_id[call] as string))}
      />
      {tokens.state === "failed" && <p class="notice fault">{tokens.error.message}</p>}
      {tokens.value !== null && <RowTokens state={state} row={row} tokens={tokens.value} params={params} />}
      <Spans state={state} row={row} />
    </section>
  );
}

function Totals({
  row,
  rolloutTrained,
}: {
  readonly row: RowView;
  readonly rolloutTrained: number;
}): JSX.Element {
  return (
    <div class="numbers">
      <Figure term="row" name="tokens" value={count(row.tokens)} />
      <Figure term="trained" name="trained" value={count(row.trained)} tone="good" />
      <Figure term="context" name="context" value={count(row.tokens - row.trained)} />
      <Figure term="carried" name="prompt" value={count(row.prompt_length)} />
      <Figure term="reward" name="reward" value={decimal(row.reward)} />
      <Figure term="advantage" name="advantage" value={signed(row.advantage)} tone={toneOf(row.advantage)} />
      <Figure term="trained" name="trained in the rollout" value={count(rolloutTrained)} />
    </div>
  );
}

export function TrainsOnce({ kept }: { readonly kept: Extract<KeptView, { kind: "rows" }> }): JSX.Element {
  const { holds, tokens, calls, rows, faults } = kept.trains_once;
  return (
    <div class={holds ? "check holds" : "check broken"}>
      <span class="check-mark" aria-hidden="true">
        {holds ? "✓" : "✗"}
      </span>
      <div>
        <b>Each kept token trains once</b>
        <p>
          {holds
            ? `Checked just now: ${counted(tokens, "token")} of ${counted(calls, "kept call")}, each marked in exactly one of ${counted(rows, "row")}, with its own id and log-prob.`
            : faults.join("; ")}
        </p>
      </div>
    </div>
  );
}

function RowTokens({
  state,
  row,
  tokens,
  params,
}: {
  readonly state: PlaceState;
  readonly row: RowView;
  readonly tokens: RowTokensView;
  readonly params: URLSearchParams;
}): JSX.Element {
  const { model, place } = state;
  const run = useMemo(() => rowRun(state, row, tokens), [row, tokens]);
  const chosen = params.get("token");
  const owner = (at: number): SpanView | undefined => row.spans.findLast(({ start }) => start <= at);
  const follow = (at: number): void => {
    const span = owner(at);
    const index = span === undefined ? undefined : model.indexOf.get(span.order);
    if (span === undefined || index === undefined) return;
    open(callPath(place, model.columns.call_id[index] as string, { token: String(at - span.start) }));
  };
  return (
    <section class="panel">
      <h3>Tokens</h3>
      <TokenLegend trained />
      <Tokens
        run={run}
        book={state.texts}
        label={`Tokens of row ${row.row_id}`}
        chosen={chosen === null ? null : Number(chosen)}
        onChoose={(at) => choose({ token: String(at) })}
        onFollow={follow}
        followLabel={(at) => {
          const index = model.indexOf.get(owner(at)?.order ?? -1);
          return index === undefined ? null : `Back to call ${labelOf(model, index)}`;
        }}
      />
    </section>
  );
}

function rowRun({ model }: PlaceState, row: RowView, tokens: RowTokensView): TokenRun {
  const generated = new Uint8Array(tokens.ids.length);
  for (const span of row.spans)
    generated.fill(1, span.start + span.carried, span.start + span.carried + span.generated);
  return {
    ids: tokens.ids,
    kind: (at) => (tokens.mask[at] === 1 ? "t" : generated[at] === 1 ? "g" : "c"),
    logprob: (at) => (tokens.mask[at] === 1 ? (tokens.logprobs[at] ?? null) : null),
    weightVersion: (at) =>
      row.weight_versions.find(({ start, end }) => start <= at && at < end)?.version ?? null,
    marks: new Map(
      row.spans.flatMap((span) => {
        const index = model.indexOf.get(span.order);
        return index === undefined ? [] : [[span.start, labelOf(model, index)] as const];
      }),
    ),
  };
}

/** Below the strip every token stands in full; a short row is read in the strip itself. */
const CELLS_SHOWN = 32;

/** Lines of the table; a longer chain is read in its tokens. */
const SPANS_SHOWN = 200;

function Spans({ state, row }: { readonly state: PlaceState; readonly row: RowView }): JSX.Element {
  const { model, place } = state;
  return (
    <section class="panel">
      <h3>
        Segments by call <span class="dim">{count(row.spans.length)}</span>
      </h3>
      <table class="plain spans">
        <thead>
          <tr>
            <th scope="col">call</th>
            <th scope="col">from token</th>
            <th scope="col">carried</th>
            <th scope="col">generated</th>
            <th scope="col">here</th>
          </tr>
        </thead>
        <tbody>
          {row.spans.slice(0, SPANS_SHOWN).map((span) => {
            const index = model.indexOf.get(span.order) ?? -1;
            const id = model.columns.call_id[index] ?? "";
            return (
              <tr key={span.order}>
                <th scope="row">
                  <a {...linkTo(callPath(place, id))}>{labelOf(model, index)}</a>
                </th>
                <td>{count(span.start)}</td>
                <td>{count(span.carried)}</td>
                <td>{count(span.generated)}</td>
                <td>{span.trained ? "trained" : "context"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {row.spans.length > SPANS_SHOWN && <p class="dim">and {count(row.spans.length - SPANS_SHOWN)} more</p>}
    </section>
  );
}
