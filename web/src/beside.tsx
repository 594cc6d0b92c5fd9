// Those that stand beside a call: its siblings and twins, each with what it generated, side by side with the call's own.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { CallView } from "../../src/page/view.ts";
import { count } from "./format.ts";
import { FATE_WORDS, labelOfId } from "./forest-model.ts";
import { useData, type PlaceState } from "./place.ts";
import { callPath, linkTo } from "./route.ts";
import { Term } from "./term.tsx";
import { useTexts, visibleText } from "./token-texts.ts";
import { useAsked } from "./use.ts";

/** Cards drawn; the others are links. */
const CARDS = 4;
const TOKENS_SHOWN = 60;

export function Beside({
  state,
  call,
}: {
  readonly state: PlaceState;
  readonly call: CallView;
}): JSX.Element | null {
  const twins = new Set(call.twins);
  const others = [...new Set([...call.siblings, ...call.twins])];
  if (others.length === 0 && call.children.length === 0) return null;
  return (
    <section class="panel">
      {others.length > 0 && (
        <>
          <h3>
            {call.siblings.length > 0 && <Term of="siblings">Siblings</Term>}
            {call.siblings.length > 0 && twins.size > 0 && " and "}
            {twins.size > 0 && <Term of="twins">twins</Term>} <span class="dim">{count(others.length)}</span>
          </h3>
          <div class="beside">
            <Card state={state} callId={call.call_id} own twin={false} />
            {others.slice(0, CARDS).map((id) => (
              <Card key={id} state={state} callId={id} own={false} twin={twins.has(id)} />
            ))}
          </div>
          {others.length > CARDS && <Links state={state} ids={others.slice(CARDS, CARDS + 40)} />}
        </>
      )}
      {call.children.length > 0 && (
        <>
          <h3>
            Children <span class="dim">{count(call.children.length)}</span>
          </h3>
          <p class="neighbours">
            <Links state={state} ids={call.children.slice(0, 40)} />
            {call.children.length > 40 && ` and ${count(call.children.length - 40)} more`}
          </p>
        </>
      )}
    </section>
  );
}

function Links({ state, ids }: { readonly state: PlaceState; readonly ids: readonly string[] }): JSX.Element {
  return (
    <>
      {ids.map((id) => (
        <a key={id} class="neighbour" {...linkTo(callPath(state.place, id))}>
          {labelOfId(state.model, id)}
        </a>
      ))}
    </>
  );
}

interface CardProps {
  readonly state: PlaceState;
  readonly callId: string;
  readonly own: boolean;
  readonly twin: boolean;
}

function Card({ state, callId, own, twin }: CardProps): JSX.Element {
  const data = useData();
  const { place, model, kept, texts } = state;
  const asked = useAsked(`${place.source} ${place.rollout} ${callId}`, () => data.call(place, callId));
  const call = asked.value;
  const fate = kept.fates[model.indexOfId.get(callId) ?? -1] ?? "undecided";
  const ids = useMemo(() => (call === null ? [] : call.generated.slice(0, TOKENS_SHOWN)), [call]);
  useTexts(texts, ids);
  const told = ids.map((id) => texts.text(id));
  return (
    <div class={own ? "card own" : "card"}>
      <header>
        <span class={`fate-dot ${fate}`} aria-hidden="true" />
        {own ? (
          <b>{labelOfId(model, callId)}</b>
        ) : (
          <a {...linkTo(callPath(place, callId))}>{labelOfId(model, callId)}</a>
        )}
        <span class="dim">{twin ? "twin" : own ? "this call" : FATE_WORDS[fate]}</span>
      </header>
      <p class="mono card-text">
        {told.every((text) => text !== null) ? told.map((text) => visibleText(text)).join("") : ids.join(" ")}
        {call !== null && call.generated.length > TOKENS_SHOWN && "…"}
      </p>
      {call !== null && (
        <small class="dim">
          {count(call.carried.length)} + {count(call.generated.length)} · {call.finish_reason ?? call.status}
        </small>
      )}
    </div>
  );
}
