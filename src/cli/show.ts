// `coppice show`: one rollout's forest in the terminal, with the walk from each kept leaf and the rows that come of it.
import { Command } from "commander";
import { CoppiceError } from "../errors.ts";
import { rowsOfOneRollout } from "../gateway/group-rows.ts";
import type { Ledger, Rollout } from "../ledger/ledger.ts";
import { rolloutId } from "../lineage/call.ts";
import type { Row } from "../rows/row.ts";
import type { Refusal } from "../selection/outcome.ts";
import { legendLine } from "./call-fate.ts";
import { drawForest } from "./draw-forest.ts";
import { drawRows } from "./draw-rows.ts";
import { ledgerOption, openForReading } from "./open-ledger.ts";
import { styleFor } from "./paint.ts";

interface ShowOptions {
  readonly ledger?: string;
  readonly json?: boolean;
}

export function showCommand(): Command {
  return new Command("show")
    .description("draw a rollout's forest: roots and why they are roots, what was kept, the walks, the rows")
    .argument("[rollout]", "the rollout's id; without one, the rollouts are listed")
    .addOption(ledgerOption())
    .option("--json", "print JSON instead of a drawing")
    .action(show);
}

async function show(id: string | undefined, options: ShowOptions): Promise<void> {
  const ledger = await openForReading(options.ledger);
  try {
    if (id === undefined) await listRollouts(ledger, options.json === true);
    else await showRollout(ledger, id, options.json === true);
  } finally {
    await ledger.close();
  }
}

async function listRollouts(ledger: Ledger, json: boolean): Promise<void> {
  const rollouts = await ledger.rollouts({});
  if (json) {
    print(JSON.stringify(rollouts.map(rolloutJson)));
    return;
  }
  if (rollouts.length === 0) print(`no rollouts in ${ledger.location}`);
  for (const rollout of rollouts) {
    const { counts } = rollout;
    const place = rollout.groupId === null ? "" : `  ${rollout.groupId}[${rollout.generationIndex ?? "?"}]`;
    const reward = rollout.outcome === null ? "" : `  reward ${rollout.outcome.reward ?? "not told"}`;
    const lost = counts.unknown > 0 ? `, ${counts.unknown} unknown` : "";
    print(
      `${rollout.rolloutId}${place}  ${rollout.state}  ${counts.admitted} ${counts.admitted === 1 ? "call" : "calls"}${lost}${reward}`,
    );
  }
}

async function showRollout(ledger: Ledger, id: string, json: boolean): Promise<void> {
  const rollout = await ledger.rollout({ rolloutId: rolloutId(id, "rollout"), attempt: null });
  if (rollout === null) throw new CoppiceError("not_found", `no rollout ${id} in ${ledger.location}`);
  const calls = await ledger.calls(rollout);
  const built = rollout.state === "sealed" ? await rowsOfOneRollout(ledger, rollout, {}) : [];
  const rows: Row[] = [];
  let refusal: Refusal | null = null;
  for (const one of built) {
    if (one.kind === "failure") refusal = one.failure;
    else rows.push(...one.rows);
  }
  if (json) {
    print(
      JSON.stringify({
        ...rolloutJson(rollout),
        calls: calls.map(callJson),
        rows: rows.map(rowJson),
        refusal,
      }),
    );
    return;
  }
  const style = styleFor(process.stdout, process.env);
  const title = `${rollout.rolloutId} (${rollout.state})`;
  for (const line of drawForest({ title, calls, rows, refusal, ids: true }, style)) print(line);
  if (rows.length > 0) {
    print("");
    for (const line of drawRows(rows, style)) print(line);
  }
  print("");
  print(legendLine(style));
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function rolloutJson(rollout: Rollout): Record<string, unknown> {
  return {
    rollout_id: rollout.rolloutId,
    attempt: rollout.attempt,
    state: rollout.state,
    group_id: rollout.groupId,
    generation_index: rollout.generationIndex,
    reward: rollout.outcome?.reward ?? null,
    counts: rollout.counts,
  };
}

function callJson(call: Awaited<ReturnType<Ledger["calls"]>>[number]): Record<string, unknown> {
  return {
    call_id: call.callId,
    response_id: call.responseId,
    parent_call_id: call.parentCallId,
    root_reason: call.rootReason,
    status: call.status,
    status_detail: call.statusDetail,
    agent: call.agent,
    class: call.class,
    carried_tokens: call.carriedLength,
    generated_tokens: call.generatedLength,
    finish_reason: call.finishReason,
    untrainable: call.untrainable,
  };
}

function rowJson(row: Row): Record<string, unknown> {
  return {
    row_id: row.rowId,
    call_ids: row.callIds,
    tokens: row.tokenIds.length,
    row_trainable_tokens: row.rowTrainableTokens,
    advantage: row.advantage,
  };
}
