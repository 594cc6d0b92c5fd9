// A row as segments, a call each: what it carried and what it generated, as wide as their tokens ask. A short row
// shows the tokens themselves. While a walk is played, segments come in one by one from the leaf's end.
import type { JSX } from "preact";
import type { RowTokensView, RowView, SpanView } from "../../src/page/view.ts";
import { count } from "./format.ts";
import { labelOf, type ForestModel } from "./forest-model.ts";

/** A row of at most this many tokens shows each of them. */
export const TOKENS_SHOWN = 96;
/** Beyond this many segments a row is one drawn bar. */
const SEGMENTS_SHOWN = 48;

interface StripProps {
  readonly model: ForestModel;
  readonly row: RowView;
  readonly tokens: RowTokensView | null;
  /** Segments from the leaf's end that are built by now; all where no walk is played. */
  readonly built: number;
  readonly chosen: number | null;
  readonly onCall: (index: number) => void;
}

export function RowStrip(props: StripProps): JSX.Element {
  const { row, model, built, chosen, onCall } = props;
  if (row.spans.length > SEGMENTS_SHOWN) return <LongStrip row={row} built={built} />;
  const first = row.spans.length - built;
  return (
    <div class="strip">
      {row.spans.map((span, place) => {
        const index = model.indexOf.get(span.order);
        if (index === undefined) return null;
        return (
          <button
            key={span.order}
            type="button"
            class={`segment ${place >= first ? "built" : "unbuilt"} ${span.trained ? "trained" : "context"} ${index === chosen ? "chosen" : ""}`}
            style={{ flexGrow: Math.sqrt(span.carried + span.generated) }}
            onClick={() => onCall(index)}
          >
            <span class="segment-name">
              {labelOf(model, index)}
              <span class="unseen">
                , {span.carried} carried, {span.generated} generated, {span.trained ? "trained" : "context"}:
              </span>
            </span>
            <SegmentTokens span={span} tokens={row.tokens <= TOKENS_SHOWN ? props.tokens : null} />
          </button>
        );
      })}
    </div>
  );
}

function SegmentTokens({
  span,
  tokens,
}: {
  readonly span: SpanView;
  readonly tokens: RowTokensView | null;
}): JSX.Element {
  if (tokens === null) {
    return (
      <span class="segment-bars">
        <i class="carried" style={{ flexGrow: span.carried }} />
        <i class="generated" style={{ flexGrow: span.generated }} />
        <span class="segment-counts">
          {count(span.carried)} + {count(span.generated)}
        </span>
      </span>
    );
  }
  const ids = tokens.ids.slice(span.start, span.start + span.carried + span.generated);
  return (
    <span class="segment-cells">
      {ids.map((id, offset) => (
        <i key={offset} class={tokens.mask[span.start + offset] === 1 ? "cell trained" : "cell"}>
          {id}
        </i>
      ))}
    </span>
  );
}

/** At most one mark a pixel or so, however many segments there are. */
const MARKS = 600;

function LongStrip({ row, built }: { readonly row: RowView; readonly built: number }): JSX.Element {
  const from = row.spans[row.spans.length - built]?.start ?? row.tokens;
  const path: string[] = [];
  let end = -1;
  for (const span of row.spans) {
    if (!span.trained || span.start < from) continue;
    const left = Math.max(end, Math.floor(((span.start + span.carried) / row.tokens) * MARKS));
    const right = Math.max(
      left + 1,
      Math.ceil(((span.start + span.carried + span.generated) / row.tokens) * MARKS),
    );
    path.push(`M${left} 0h${right - left}v24h-${right - left}z`);
    end = right;
  }
  const x = (from / row.tokens) * MARKS;
  return (
    <svg
      class="strip-long"
      viewBox={`0 0 ${MARKS} 24`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${row.spans.length} segments, ${row.tokens} tokens`}
    >
      <rect class="context" x={x} width={Math.max(0, MARKS - x)} height="24" />
      <path class="trained" d={path.join("")} />
    </svg>
  );
}
