// The worked example: the same nine calls with compaction off and on. The switch changes the forest; the facts of both
// stand side by side. All of it comes from runs of the product's own code over its acceptance vectors.
import type { JSX } from "preact";
import type { ExampleFacts, ExampleView } from "../../src/page/view.ts";
import { counted, signed } from "./format.ts";
import { useData, type PlaceState } from "./place.ts";
import { replace } from "./route.ts";
import { Term } from "./term.tsx";
import { TrainsOnce } from "./row.tsx";
import { useAsked } from "./use.ts";

export function ExampleHead({ state }: { readonly state: PlaceState }): JSX.Element {
  const data = useData();
  const asked = useAsked("example", () => data.example());
  const on = state.place.source === "example-on";
  return (
    <header class="example-head">
      <div class="example-words">
        <h1>The worked example</h1>
        <p>
          An agent takes seven actions and throws two answers away: nine <Term of="call">calls</Term>,{" "}
          <b>c4</b> and <b>c7</b> <Term of="rejected">rejected</Term>. Left alone, its context makes one{" "}
          <Term of="tree">tree</Term>. Compacted every two actions, each <Term of="rewrite">rewrite</Term>{" "}
          begins a new one.
        </p>
        <Switch on={on} />
      </div>
      {asked.value !== null && <Facts example={asked.value} on={on} />}
      {state.keptView?.kind === "rows" && <TrainsOnce kept={state.keptView} />}
    </header>
  );
}

function Switch({ on }: { readonly on: boolean }): JSX.Element {
  const turn = (): void => replace(on ? "#/example/off" : "#/example/on");
  return (
    <button type="button" class="switch" role="switch" aria-checked={on} onClick={turn}>
      <span class="switch-name">Compaction</span>
      <span class={on ? "" : "now"}>off</span>
      <span class="switch-track" aria-hidden="true">
        <span class="switch-thumb" />
      </span>
      <span class={on ? "now" : ""}>on</span>
    </button>
  );
}

function Facts({ example, on }: { readonly example: ExampleView; readonly on: boolean }): JSX.Element {
  const lines: readonly (readonly [JSX.Element | string, (facts: ExampleFacts) => string])[] = [
    [
      <Term of="forest">shape</Term>,
      ({ trees }) => (trees === 1 ? "one tree" : `a forest of ${trees} trees`),
    ],
    [<Term of="leaf">leaves</Term>, ({ leaves }) => `${leaves.length}: ${leaves.join(" ")}`],
    [
      <Term of="walk">leaves walked</Term>,
      ({ leaves_walked }) => `${leaves_walked.length}: ${leaves_walked.join(" ")}`,
    ],
    ["how they are found", ({ outcome }) => HOW[outcome]],
    [<Term of="row">rows</Term>, ({ rows, row_tokens }) => `${rows}, of ${row_tokens.join(", ")} tokens`],
    [<Term of="trained">trained</Term>, ({ trained_tokens }) => counted(trained_tokens, "token")],
    [
      <Term of="rejected">rejected</Term>,
      ({ rejected }) => `${rejected.join(" ")}: never walked, never trained`,
    ],
    [
      <Term of="advantage">advantage</Term>,
      ({ advantage, rows }) => `${signed(advantage)}${rows > 1 ? " on each row" : ""}`,
    ],
  ];
  return (
    <table class="example-facts">
      <thead>
        <tr>
          <th scope="col">
            <span class="unseen">Fact</span>
          </th>
          <th scope="col" class={on ? "" : "now"}>
            compaction off
          </th>
          <th scope="col" class={on ? "now" : ""}>
            compaction on
          </th>
        </tr>
      </thead>
      <tbody>
        {lines.map(([name, fact], at) => (
          <tr key={at}>
            <th scope="row">{name}</th>
            <td class={on ? "" : "now"}>{fact(example.off.facts)}</td>
            <td class={on ? "now" : ""}>{fact(example.on.facts)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const HOW: Readonly<Record<ExampleFacts["outcome"], string>> = {
  final: "the final response’s call",
  accepted: "the accepted list, cut at each root: its last call in each tree",
  accepted_and_final: "the accepted list, whose last is the final response",
  infer: "inferred: the one leaf that is left",
  failed: "not at all: the agent failed",
  none: "not at all: no outcome",
};
