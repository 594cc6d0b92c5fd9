// The lines of the list: groups, newest first, each with its rollouts by generation index. Pure.
import type { RolloutLine } from "../../src/page/view.ts";

export const LIST_FILTERS = ["all", "open", "sealed", "refused", "alarms"] as const;
export type ListFilter = (typeof LIST_FILTERS)[number];

export interface GroupLine {
  readonly kind: "group";
  readonly id: string;
  readonly rollouts: number;
  readonly size: number | null;
  readonly sealed: number;
  /** Of the rollouts that have a reward and were not refused. */
  readonly mean: number | null;
}

/** `spread` is the largest advantage of the group, either way. */
export type ListLine =
  | GroupLine
  | { readonly kind: "rollout"; readonly rollout: RolloutLine; readonly spread: number };

export function passes(line: RolloutLine, filter: ListFilter): boolean {
  switch (filter) {
    case "all":
      return true;
    case "open":
    case "sealed":
      return line.state === filter;
    case "refused":
      return line.measured?.refusal !== null && line.measured?.refusal !== undefined;
    case "alarms":
      return (line.measured?.alarms.length ?? 0) > 0;
  }
}

export function groupLines(rollouts: readonly RolloutLine[], filter: ListFilter, find: string): ListLine[] {
  const groups = new Map<string, RolloutLine[]>();
  for (const line of rollouts) {
    const members = groups.get(line.group_id);
    if (members === undefined) groups.set(line.group_id, [line]);
    else members.push(line);
  }
  const needle = find.trim().toLowerCase();
  const lines: ListLine[] = [];
  for (const [id, members] of [...groups].reverse()) {
    const shown = members.filter((line) => passes(line, filter) && matches(line, needle));
    if (shown.length === 0) continue;
    const spread = Math.max(0, ...members.map((line) => Math.abs(line.measured?.advantage ?? 0)));
    lines.push(groupLine(id, members));
    shown.sort((one, other) => one.generation_index - other.generation_index);
    for (const rollout of shown) lines.push({ kind: "rollout", rollout, spread });
  }
  return lines;
}

function groupLine(id: string, members: readonly RolloutLine[]): GroupLine {
  const rewards = members.flatMap((line) =>
    line.reward === null || passes(line, "refused") ? [] : [line.reward],
  );
  return {
    kind: "group",
    id,
    rollouts: members.length,
    size: members.find((line) => line.group_size !== null)?.group_size ?? null,
    sealed: members.filter((line) => line.state !== "open").length,
    mean: rewards.length === 0 ? null : rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length,
  };
}

function matches(line: RolloutLine, needle: string): boolean {
  if (needle === "") return true;
  const texts = [line.rollout_id, line.group_id, line.measured?.refusal?.reason, ...Object.values(line.tags)];
  return texts.some((text) => text?.toLowerCase().includes(needle));
}

export function totalsOf(rollouts: readonly RolloutLine[]): {
  groups: number;
  rollouts: number;
  calls: number;
} {
  return {
    groups: new Set(rollouts.map((line) => line.group_id)).size,
    rollouts: rollouts.length,
    calls: rollouts.reduce((sum, line) => sum + line.admitted, 0),
  };
}
