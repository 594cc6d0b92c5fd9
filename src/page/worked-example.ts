// The worked example as the page shows it: the two traces of `vectors/seed-*.json`, run through the same functions as
// a ledger's records, when the page first asks. Nothing about its shape is written down here.
import { readFileSync } from "node:fs";
import { readTrace } from "../export/trace.ts";
import { rolloutId, type Call } from "../lineage/call.ts";
import { buildForest, leavesOf } from "../lineage/forest.ts";
import { finishGroup } from "../rows/group.ts";
import type { RolloutRows } from "../rows/row.ts";
import { outcomeForm } from "./list-view.ts";
import { traceSource, type PageSource } from "./page-source.ts";
import type { ExampleFacts, ExampleView } from "./view.ts";

export type ExampleState = "off" | "on";

/** The nine calls stand in this rollout; the other of its group gives the reward to compare with. */
const EXAMPLE_ROLLOUT = "r0";

export function exampleSource(state: ExampleState): PageSource {
  const file = new URL(`../../vectors/seed-compaction-${state}.json`, import.meta.url);
  const { trace } = JSON.parse(readFileSync(file, "utf8")) as { readonly trace: readonly unknown[] };
  return traceSource(readTrace(trace, `seed-compaction-${state}`));
}

export async function exampleView(sources: Readonly<Record<ExampleState, PageSource>>): Promise<ExampleView> {
  return {
    off: { rollout_id: EXAMPLE_ROLLOUT, facts: await exampleFacts(sources.off) },
    on: { rollout_id: EXAMPLE_ROLLOUT, facts: await exampleFacts(sources.on) },
  };
}

async function exampleFacts(source: PageSource): Promise<ExampleFacts> {
  const group = await source.rollouts();
  const held = await Promise.all(
    group.map(async (rollout) => ({ rollout, calls: await source.calls(rollout) })),
  );
  const finished = finishGroup(held.map(({ rollout, calls }) => source.build(rollout, calls)));
  const index = held.findIndex(({ rollout }) => rollout.rolloutId === rolloutId(EXAMPLE_ROLLOUT));
  const { rollout, calls } = held[index] as (typeof held)[number];
  return factsOf(calls, finished[index] as RolloutRows, {
    outcome: rollout.outcome === null ? "none" : outcomeForm(rollout.outcome),
    reward: rollout.outcome?.reward ?? null,
  });
}

function factsOf(
  calls: readonly Call[],
  built: RolloutRows,
  told: Pick<ExampleFacts, "outcome" | "reward">,
): ExampleFacts {
  const forest = buildForest(calls);
  const rows = built.kind === "rows" ? built.rows : [];
  const walked = new Set<string>(rows.flatMap((row) => row.callIds));
  return {
    ...told,
    trees: forest.roots.length,
    leaves: leavesOf(forest).map(({ callId }) => callId),
    leaves_walked: rows.map((row) => row.callIds.at(-1) as string),
    rows: rows.length,
    row_tokens: rows.map((row) => row.tokenIds.length),
    trained_tokens: rows.reduce((sum, row) => sum + row.rowTrainableTokens, 0),
    rejected: calls.filter((call) => !walked.has(call.callId)).map(({ callId }) => callId),
    advantage: rows[0]?.advantage ?? null,
  };
}
