// The demo on paper: for each mode the forests of both rollouts and the group's rows, then where the files are.
import { legendLine } from "./call-fate.ts";
import type { DemoMode } from "./demo-agent.ts";
import type { DemoRun } from "./demo-service.ts";
import { drawForest } from "./draw-forest.ts";
import { drawRows } from "./draw-rows.ts";
import { paintLine, piece, type Style } from "./paint.ts";

const TOLD: Readonly<Record<DemoMode, { readonly head: string; readonly why: string }>> = {
  off: {
    head: "compaction off",
    why: "each prompt goes on from the answer before; the final response is named, and its leaf is walked",
  },
  on: {
    head: "compaction every 2 actions",
    why: "each cut starts a new tree; every accepted response is named, and one leaf of each tree is walked",
  },
};

/** @param engine null for the stand-in */
export function drawDemo(runs: readonly DemoRun[], engine: string | null, style: Style): string[] {
  const model = engine ?? "a stand-in model";
  return [
    paintLine(
      [
        piece("coppice demo", "bold"),
        piece(`  7 actions with ${model}; the first answers of actions 4 and 6 are thrown away.`),
      ],
      style,
    ),
    paintLine([piece("A second rollout of the group gives up after one call, with reward 0.")], style),
    ...runs.flatMap((run) => drawRun(run, style)),
    "",
    legendLine(style),
    "",
    ...runs.map(({ rowsFile, ledgerFile }) =>
      paintLine(
        [piece("wrote ", "dim"), piece(rowsFile), piece("  ledger ", "dim"), piece(ledgerFile)],
        whole(style),
      ),
    ),
    paintLine(
      [piece("again: ", "dim"), piece(`coppice show r0 --ledger ${runs.at(-1)?.ledgerFile}`)],
      whole(style),
    ),
  ];
}

/** Paths are for copying: they are never cut. */
function whole(style: Style): Style {
  return { ...style, width: null };
}

function drawRun({ mode, rollouts, rows, failures }: DemoRun, style: Style): string[] {
  const { head, why } = TOLD[mode];
  const rule = (style.unicode ? "━" : "=").repeat(2);
  const lines = ["", paintLine([piece(`${rule} ${head} ${rule}`, "bold"), piece(`  ${why}`, "dim")], style)];
  const drawn = rows.map((row) => ({
    rolloutId: row.rollout_id,
    rowId: row.row_id,
    spans: row.spans.map((span) => ({ callId: span.call_id, trained: span.trained })),
    tokenIds: row.token_ids,
    lossMask: row.loss_mask,
    advantage: row.advantage,
  }));
  for (const { rolloutId, calls } of rollouts) {
    const refusal = failures.find((failure) => failure.rollout_id === rolloutId) ?? null;
    const own = drawn.filter((row) => row.rolloutId === rolloutId);
    const reward = rows.find((row) => row.rollout_id === rolloutId)?.reward;
    const title = reward === undefined || reward === null ? rolloutId : `${rolloutId} (reward ${reward})`;
    lines.push("", ...drawForest({ title, calls, rows: own, refusal }, style));
  }
  return [...lines, "", ...drawRows(drawn, style)];
}
