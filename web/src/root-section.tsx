// Why a later root is one: both token runs where they part, and what its request kept, dropped and added.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { CallView, PartingView, RewriteView } from "../../src/page/view.ts";
import { count, counted } from "./format.ts";
import { labelOfId } from "./forest-model.ts";
import { MessageView } from "./messages.tsx";
import type { PlaceState } from "./place.ts";
import { callPath, linkTo } from "./route.ts";
import { Term } from "./term.tsx";
import { useTexts, visibleText } from "./token-texts.ts";

export function RootSection({
  state,
  call,
}: {
  readonly state: PlaceState;
  readonly call: CallView;
}): JSX.Element | null {
  if (call.root === "child" || call.root === "no_place") return null;
  const { parting, rewrite } = call;
  return (
    <section class={`panel root-section ${call.root}`}>
      <h3>Why it is a root</h3>
      <p>{reason(state, call)}</p>
      {parting !== null && <Parting state={state} parting={parting} drift={call.root === "drift"} />}
      {rewrite !== null && call.root !== "drift" && <Rewrite state={state} rewrite={rewrite} />}
    </section>
  );
}

function reason(state: PlaceState, call: CallView): JSX.Element {
  const other = call.parting?.other_call_id ?? call.root_follows;
  const link =
    other === null ? null : <a {...linkTo(callPath(state.place, other))}>{labelOfId(state.model, other)}</a>;
  switch (call.root) {
    case "first":
      return (
        <>
          The first <Term of="root">root</Term> of the rollout: there is no earlier sequence to start with.
        </>
      );
    case "rewrite":
      return (
        <>
          <Term of="rewrite">Rewrite</Term>: the agent changed its context after {link}, so this prompt starts
          with no earlier sequence.
        </>
      );
    case "drift":
      return (
        <>
          <Term of="drift">Drift</Term>: the messages go on from {link}, but the tokens do not.
        </>
      );
    case "asked_again":
      return (
        <>
          <Term of="asked_again">Asked again</Term>: the messages of {link} once more.
        </>
      );
    case "other_agent":
      return (
        <>
          <Term of="other_agent">Other agent</Term>: the first root of{" "}
          {call.agent === null ? "an agent without a label" : <b>{call.agent}</b>}.
        </>
      );
    case "unknown":
      return (
        <>
          The prompt starts with no earlier sequence. <Term of="unknown_root">Why cannot be told</Term>: the
          record has no messages. The call before it is {link}.
        </>
      );
    case "child":
    case "no_place":
      return <></>;
  }
}

function Parting({
  state,
  parting,
  drift,
}: {
  readonly state: PlaceState;
  readonly parting: PartingView;
  readonly drift: boolean;
}): JSX.Element {
  const { shared, recorded, sent, index, other_call_id: other } = parting;
  const ids = useMemo(() => [...shared, ...recorded, ...sent], [parting]);
  useTexts(state.texts, ids);
  const start = index - shared.length;
  return (
    <div class="parting">
      <p class="dim">
        Both start with the same {counted(index, "token")}, and part at token {count(index)}
        {drift ? "" : ` of ${count(parting.other_length)}`}.
      </p>
      <RunLine
        state={state}
        name={`recorded in ${labelOfId(state.model, other)}`}
        kind="recorded"
        start={start}
        shared={shared}
        rest={recorded}
      />
      <RunLine state={state} name="sent here" kind="sent" start={start} shared={shared} rest={sent} />
    </div>
  );
}

interface RunLineProps {
  readonly state: PlaceState;
  readonly name: string;
  readonly kind: "recorded" | "sent";
  readonly start: number;
  readonly shared: readonly number[];
  readonly rest: readonly number[];
}

function RunLine({ state, name, kind, start, shared, rest }: RunLineProps): JSX.Element {
  const cell = (id: number, at: number, parts: string): JSX.Element => {
    const text = state.texts.text(id);
    return (
      <span key={at} class={`run-token ${parts}`}>
        <span>{text === null ? id : text === "" ? "∅" : visibleText(text)}</span>
        <small>{text === null ? "" : id}</small>
      </span>
    );
  };
  return (
    <div class={`run ${kind}`}>
      <span class="run-name">{name}</span>
      <span class="run-tokens" role="group" aria-label={`${name}, from token ${start}`}>
        {start > 0 && <span class="run-more">…</span>}
        {shared.map((id, at) => cell(id, at, "shared"))}
        {rest.length === 0 ? (
          <span class="run-end">ends here</span>
        ) : (
          rest.map((id, at) => cell(id, shared.length + at, at === 0 ? "parted first" : "parted"))
        )}
      </span>
    </div>
  );
}

/** Entries shown before a person asks for all. */
const ENTRIES_SHOWN = 12;

function Rewrite({
  state,
  rewrite,
}: {
  readonly state: PlaceState;
  readonly rewrite: RewriteView;
}): JSX.Element {
  const [all, setAll] = useState(false);
  const number = (fate: string): number => rewrite.entries.filter((entry) => entry.fate === fate).length;
  const shown = all ? rewrite.entries : rewrite.entries.slice(0, ENTRIES_SHOWN);
  return (
    <div class="rewrite">
      <p>
        Beside the history of{" "}
        <a {...linkTo(callPath(state.place, rewrite.other_call_id))}>
          {labelOfId(state.model, rewrite.other_call_id)}
        </a>{" "}
        this request <span class="fate kept">kept {number("kept")}</span>{" "}
        <span class="fate dropped">dropped {number("dropped")}</span>{" "}
        <span class="fate added">added {number("added")}</span>
      </p>
      {shown.map(({ fate, message }, at) => (
        <MessageView key={at} message={message} fate={fate} />
      ))}
      {rewrite.entries.length > shown.length && (
        <button type="button" class="link" onClick={() => setAll(true)}>
          Show all {rewrite.entries.length} messages
        </button>
      )}
    </div>
  );
}
