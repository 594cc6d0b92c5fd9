// One call: what it is, why it is a root, its tokens, messages, sampling, and those that stand beside it.
import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { UNTIMED, type CallView } from "../../src/page/view.ts";
import type { Message } from "../../src/lineage/call.ts";
import { clock, count, duration } from "./format.ts";
import { FATE_WORDS, labelOfId } from "./forest-model.ts";
import { MessageView } from "./messages.tsx";
import { useData, type PlaceState } from "./place.ts";
import { callPath, choose, linkTo, open, rowPath } from "./route.ts";
import { RootSection } from "./root-section.tsx";
import { Beside } from "./beside.tsx";
import { Term } from "./term.tsx";
import { TokenLegend, Tokens, type TokenRun } from "./tokens.tsx";
import { useAsked } from "./use.ts";

interface CallProps {
  readonly state: PlaceState;
  readonly callId: string;
  readonly params: URLSearchParams;
  /** Beside the forest, where there is less room. */
  readonly aside?: boolean;
}

export function CallPanel({ state, callId, params, aside = false }: CallProps): JSX.Element {
  const data = useData();
  const { place, model } = state;
  const index = model.indexOfId.get(callId);
  const settled = index === undefined ? 0 : (model.columns.settled[index] as number);
  const asked = useAsked(`${place.source} ${place.rollout} ${callId} ${settled}`, () =>
    data.call(place, callId),
  );
  if (asked.state === "failed") return <p class="notice fault">{asked.error.message}</p>;
  const call = asked.value;
  if (call === null)
    return (
      <p class="notice dim" aria-busy="true">
        Reading the call…
      </p>
    );
  return (
    <section class={aside ? "call aside" : "call"} aria-label={`Call ${labelOfId(model, callId)}`}>
      <CallHead state={state} call={call} aside={aside} />
      <div class="call-columns">
        <div class="call-main">
          {call.untrainable !== null && (
            <p class="notice fault">
              <Term of="untrainable">Untrainable</Term>: {call.untrainable}
            </p>
          )}
          {call.status_detail !== null && (
            <p class="notice">
              {call.status}: {call.status_detail}
            </p>
          )}
          <RootSection state={state} call={call} />
          <CallTokens state={state} call={call} params={params} />
          <Messages state={state} call={call} />
        </div>
        <div class="call-side">
          <Facts state={state} call={call} />
          <Beside state={state} call={call} />
          <SamplingSection call={call} />
        </div>
      </div>
    </section>
  );
}

function CallHead({
  state,
  call,
  aside,
}: {
  readonly state: PlaceState;
  readonly call: CallView;
  readonly aside: boolean;
}): JSX.Element {
  const { model, kept, place } = state;
  const index = model.indexOfId.get(call.call_id) ?? -1;
  const fate = kept.fates[index] ?? "undecided";
  const row = kept.rowOfCall.get(index);
  const Heading = aside ? "h2" : "h1";
  return (
    <header class="call-head">
      <Heading>
        <span class={`fate-dot ${fate}`} aria-hidden="true" />
        {labelOfId(model, call.call_id)}
      </Heading>
      <span class={`chip big ${fate}`}>{FATE_WORDS[fate]}</span>
      {row !== undefined && (
        <a class="chip big row-chip" {...linkTo(rowPath(place, row.segment_index))}>
          row {row.row_id}
        </a>
      )}
      {aside && (
        <a class="button" {...linkTo(callPath(place, call.call_id))}>
          Open
        </a>
      )}
      {labelOfId(model, call.call_id) !== call.call_id && <code class="whole-id">{call.call_id}</code>}
    </header>
  );
}

function CallTokens({
  state,
  call,
  params,
}: {
  readonly state: PlaceState;
  readonly call: CallView;
  readonly params: URLSearchParams;
}): JSX.Element {
  const { model, kept, place } = state;
  const index = model.indexOfId.get(call.call_id) ?? -1;
  const row = kept.rowOfCall.get(index);
  const span = row?.spans.find((one) => one.order === call.order);
  const run = useMemo(() => tokenRun(call, span?.trained === true), [call, span?.trained]);
  const chosen = params.get("token");
  const follow = (at: number): void => {
    if (row !== undefined && span !== undefined)
      open(rowPath(place, row.segment_index, { token: String(span.start + at) }));
  };
  return (
    <section class="panel">
      <h3>
        Tokens{" "}
        <span class="dim">
          <Term of="carried">carried</Term> {count(call.carried.length)} ·{" "}
          <Term of="generated">generated</Term> {count(call.generated.length)}
        </span>
      </h3>
      {run.ids.length === 0 ? (
        <p class="dim">No tokens are recorded for this call.</p>
      ) : (
        <>
          <TokenLegend trained={span?.trained === true} />
          <Tokens
            run={run}
            book={state.texts}
            label={`Tokens of ${labelOfId(model, call.call_id)}`}
            chosen={chosen === null ? null : Number(chosen)}
            onChoose={(at) => choose({ token: String(at) })}
            onFollow={follow}
            followLabel={() => (row === undefined ? null : `Follow into row ${row.row_id}`)}
          />
        </>
      )}
    </section>
  );
}

function tokenRun(call: CallView, trained: boolean): TokenRun {
  const carried = call.carried.length;
  return {
    ids: [...call.carried, ...call.generated],
    kind: (at) => (at < carried ? "c" : trained ? "t" : "g"),
    logprob: (at) => (at < carried ? null : (call.logprobs[at - carried] ?? null)),
    weightVersion: (at) =>
      at < carried
        ? null
        : (call.weight_versions.findLast(({ start }) => start <= at - carried)?.version ?? null),
    marks: new Map([
      ...(carried > 0 ? ([[0, "carried"]] as const) : []),
      ...(call.generated.length > 0 ? ([[carried, "generated"]] as const) : []),
    ]),
  };
}

function Facts({ state, call }: { readonly state: PlaceState; readonly call: CallView }): JSX.Element {
  const { model, place } = state;
  const parent = call.parent_call_id;
  const started = clock(call.admitted_at);
  const took = duration(model.columns.took_ms[model.indexOfId.get(call.call_id) ?? -1] ?? UNTIMED);
  const facts: (readonly [ComponentChildren, ComponentChildren] | null)[] = [
    [
      <Term of="parent">Parent</Term>,
      parent === null ? "none" : <a {...linkTo(callPath(place, parent))}>{labelOfId(model, parent)}</a>,
    ],
    call.named_parent === null
      ? null
      : [
          "Named parent",
          `${call.named_parent}${call.named_parent_misfit ? " (did not fit, set aside)" : ""}`,
        ],
    [<Term of="sequence">Sequence</Term>, `${count(call.sequence_length)} tokens`],
    ["Finish", call.finish_reason ?? "–"],
    took === "" ? null : ["Took", took],
    started === null ? null : ["Admitted", started],
    [
      "Count",
      call.settled === null ? `admitted ${call.order}` : `admitted ${call.order}, settled ${call.settled}`,
    ],
    [
      <Term of="weight_version">Weights</Term>,
      call.weight_versions
        .map(({ version, start }) => (start === 0 ? version : `${version} from ${start}`))
        .join(", ") || "–",
    ],
    ["Asked by", call.way === "token-in" ? <Term of="token_in">token ids</Term> : "messages"],
    call.logprobs_mode === null ? null : ["Log-probs", call.logprobs_mode],
    call.agent === null ? null : ["Agent", call.agent],
    call.class === null ? null : ["Class", call.class.replace("_", " ")],
    call.response_id === null ? null : ["Response", <code>{call.response_id}</code>],
    call.media_digests.length === 0 ? null : ["Media", count(call.media_digests.length)],
    ["Digest", <code title={call.digest}>{call.digest.slice(0, 16)}…</code>],
  ];
  return (
    <section class="panel">
      <h3>Record</h3>
      <dl class="facts">
        {facts.map((fact, place_) =>
          fact === null ? null : (
            <div key={place_}>
              <dt>{fact[0]}</dt>
              <dd>{fact[1]}</dd>
            </div>
          ),
        )}
      </dl>
      {call.notes.map((note) => (
        <p key={note} class="dim">
          {note}
        </p>
      ))}
    </section>
  );
}

function SamplingSection({ call }: { readonly call: CallView }): JSX.Element | null {
  const { asked, used } = call.sampling;
  const names = [...new Set([...Object.keys(asked), ...Object.keys(used)])];
  if (names.length === 0) return null;
  return (
    <section class="panel">
      <h3>Sampling</h3>
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">setting</th>
            <th scope="col">asked</th>
            <th scope="col">used</th>
          </tr>
        </thead>
        <tbody>
          {names.map((name) => {
            const [one, other] = [told(asked[name]), told(used[name])];
            return (
              <tr key={name} class={one === other ? "" : "differs"}>
                <th scope="row">{name}</th>
                <td>{one}</td>
                <td>{other}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

function told(value: unknown): string {
  if (value === undefined) return "–";
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

function Messages({ state, call }: { readonly state: PlaceState; readonly call: CallView }): JSX.Element {
  const data = useData();
  const [earlier, setEarlier] = useState<{
    readonly of: string;
    readonly messages: readonly Message[];
    readonly from: CallView;
  } | null>(null);
  const known = earlier?.of === call.call_id ? earlier : null;
  const first = known?.from ?? call;
  const missing = first.messages_from;
  const showEarlier = async (): Promise<void> => {
    if (first.parent_call_id === null) return;
    const parent = await data.call(state.place, first.parent_call_id);
    // The parent's answer is the last of what it has, where the request goes on from it.
    const own = [...(parent.messages ?? []), ...(parent.answer === null ? [] : [parent.answer])];
    const used = own.slice(0, Math.max(0, missing - parent.messages_from));
    setEarlier({ of: call.call_id, from: parent, messages: [...used, ...(known?.messages ?? [])] });
  };
  if (call.messages === null && call.answer === null) {
    return (
      <section class="panel">
        <h3>Messages</h3>
        <p class="dim">This record has no messages: the operator keeps tokens only, or the trace had none.</p>
      </section>
    );
  }
  return (
    <section class="panel">
      <h3>
        Messages <span class="dim">as the agent sent them</span>
      </h3>
      {missing > 0 && (
        <button type="button" class="link" onClick={() => void showEarlier()}>
          {count(missing)} earlier {missing === 1 ? "message stands" : "messages stand"} with{" "}
          {first.parent_call_id === null ? "the parent" : labelOfId(state.model, first.parent_call_id)}: show
        </button>
      )}
      {[...(known?.messages ?? []), ...(call.messages ?? [])].map((message, at) => (
        <MessageView key={at} message={message} />
      ))}
      {call.answer !== null && (
        <div class="answer">
          <span class="answer-name">answer</span>
          <MessageView message={call.answer} />
        </div>
      )}
    </section>
  );
}
