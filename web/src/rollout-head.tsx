// The facts of one rollout, in one line under its name.
import type { ComponentChildren, JSX } from "preact";
import type { RolloutLine } from "../../src/page/view.ts";
import { count, counted, decimal, signed } from "./format.ts";
import type { PlaceState } from "./place.ts";
import { linkTo } from "./route.ts";
import { Term } from "./term.tsx";
import type { TermKey } from "./glossary.ts";

export function RolloutHead({ state }: { readonly state: PlaceState }): JSX.Element {
  const { line, model, keptView } = state;
  const trees = keptView?.kind === "rows" ? keptView.rows[0]?.trees_not_walked : undefined;
  return (
    <header class="rollout-head">
      <h1>
        {line.rollout_id}
        <StateMark line={line} />
      </h1>
      <p class="group-line">
        <Term of="group">group</Term>{" "}
        <a {...linkTo(`#/?q=${encodeURIComponent(line.group_id)}`)}>{line.group_id}</a>
        {line.attempt > 1 && ` · attempt ${line.attempt}`}
        {Object.entries(line.tags).map(([name, value]) => (
          <span key={name} class="tag">
            {name}: {value}
          </span>
        ))}
      </p>
      <div class="numbers">
        <Figure term="reward" name="reward" value={decimal(line.reward)} />
        <Figure
          term="advantage"
          name="advantage"
          value={signed(line.measured?.advantage ?? null)}
          tone={toneOf(line.measured?.advantage ?? null)}
        />
        <Figure term="call" name="calls" value={count(model.size)} />
        <Figure term="tree" name="trees" value={count(model.trees)} />
        <Figure term="leaf" name="leaves" value={count(model.leaves)} />
        <Figure
          term="row"
          name="rows"
          value={
            keptView?.kind === "rows"
              ? count(keptView.rows.length)
              : keptView?.kind === "refused"
                ? "none"
                : "–"
          }
        />
        {trees !== undefined && trees > 0 && (
          <Figure term="trees_not_walked" name="trees not walked" value={count(trees)} />
        )}
      </div>
      {keptView?.kind === "refused" && (
        <p class="notice fault">
          <Term of="refusal">Refused</Term>: <b>{keptView.refusal.reason}</b>. {keptView.refusal.detail}
        </p>
      )}
      <Alarms line={line} />
    </header>
  );
}

export function StateMark({ line }: { readonly line: RolloutLine }): JSX.Element {
  const refused = line.measured?.refusal !== null && line.measured !== null;
  const word = refused && line.state === "sealed" ? "refused" : line.state;
  return <span class={`state ${word}`}>{word}</span>;
}

export function toneOf(advantage: number | null): string {
  if (advantage === null || advantage === 0) return "";
  return advantage > 0 ? "good" : "poor";
}

export function Figure({
  term,
  name,
  value,
  tone = "",
}: {
  readonly term: TermKey;
  readonly name: string;
  readonly value: ComponentChildren;
  readonly tone?: string;
}): JSX.Element {
  return (
    <div class="figure">
      <span class={`figure-value ${tone}`}>{value}</span>
      <Term of={term}>{name}</Term>
    </div>
  );
}

export function alarmWords(kind: string, calls: number): string {
  switch (kind) {
    case "all_roots":
      return `${count(calls)} calls, ${count(calls)} roots: no prompt goes on from an earlier sequence`;
    case "drift":
      return counted(calls, "drifted root");
    case "incomplete":
      return `${counted(calls, "answer")} not in the record`;
    case "untrainable":
      return counted(calls, "untrainable call");
    case "late":
      return counted(calls, "late call");
    default:
      return kind;
  }
}

/** The same in two or three words, for a line of the list. */
export function alarmName(kind: string, calls: number): string {
  switch (kind) {
    case "all_roots":
      return "all roots";
    case "incomplete":
      return `${count(calls)} not recorded`;
    default:
      return `${count(calls)} ${kind}`;
  }
}

function Alarms({ line }: { readonly line: RolloutLine }): JSX.Element | null {
  const alarms = line.measured?.alarms ?? [];
  if (alarms.length === 0) return null;
  return (
    <p class="alarms">
      {alarms.map(({ kind, calls }) => (
        <span key={kind} class="alarm">
          {alarmWords(kind, calls)}
        </span>
      ))}
    </p>
  );
}
