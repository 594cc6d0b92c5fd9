// A group's advantages and row weights. A rollout counts once, however many rows it has; a refused one not at all.
// The advantage stands on each row of its rollout undivided.
import { CoppiceError } from "../errors.ts";
import type { Row, RolloutRows } from "./row.ts";

export const ADVANTAGES = ["mean", "mean_std", "leave_one_out", "none"] as const;
export const WEIGHTS = ["token", "rollout"] as const;

/**
 * - `mean`: reward minus the group's mean
 * - `mean_std`: that, divided by the sample standard deviation + 1e-6
 * - `leave_one_out`: reward minus the mean of the others
 * - `none`: null on every row
 */
export type AdvantageKind = (typeof ADVANTAGES)[number];

/**
 * Per-token weight for a loss aggregation.
 * - `token`: 1
 * - `rollout`: 1 / the rollout's trainable tokens; the consumer divides by the number of rollouts
 */
export type WeightKind = (typeof WEIGHTS)[number];

export interface GroupOptions {
  readonly advantage?: AdvantageKind;
  readonly weights?: WeightKind;
}

/** Adds 1e-6 to the deviation, so that equal rewards never divide by zero. */
const EPSILON = 1e-6;

/**
 * The rows of a complete group with advantages and weights, in the order given. Where a surviving rollout has no
 * reward yet the group is not complete: advantages stay null.
 */
export function finishGroup(rollouts: readonly RolloutRows[], options: GroupOptions = {}): RolloutRows[] {
  const survivors = rollouts.filter((rollout) => rollout.kind === "rows");
  const rewards = survivors.map((rollout) => rollout.reward);
  const advantages = advantagesOf(rewards, options.advantage ?? "mean");
  let survivor = 0;
  return rollouts.map((rollout) => {
    if (rollout.kind === "failure") return rollout;
    const advantage = advantages[survivor++] ?? null;
    return {
      ...rollout,
      rows: rollout.rows.map((row) => finishRow(row, advantage, options.weights ?? null)),
    };
  });
}

/** Rows of a group that is not complete: weights, but no advantage. */
export function openGroup(rollouts: readonly RolloutRows[], options: GroupOptions = {}): RolloutRows[] {
  return finishGroup(rollouts, { ...options, advantage: "none" });
}

/** One advantage a reward; all null for `none` or where a reward is missing. */
export function advantagesOf(rewards: readonly (number | null)[], kind: AdvantageKind): (number | null)[] {
  const known = rewards.filter((reward) => reward !== null);
  if (kind === "none" || known.length !== rewards.length) return rewards.map(() => null);
  if (known.every((reward) => reward === known[0])) return known.map(() => 0);
  const count = known.length;
  const sum = known.reduce((total, reward) => total + reward, 0);
  const mean = sum / count;
  switch (kind) {
    case "mean":
      return known.map((reward) => reward - mean);
    case "leave_one_out":
      return known.map((reward) => reward - (sum - reward) / (count - 1));
    case "mean_std": {
      const squares = known.reduce((total, reward) => total + (reward - mean) ** 2, 0);
      const deviation = Math.sqrt(squares / (count - 1));
      return known.map((reward) => (reward - mean) / (deviation + EPSILON));
    }
  }
}

function finishRow(row: Row, advantage: number | null, weights: WeightKind | null): Row {
  return { ...row, advantage, tokenWeight: tokenWeight(row, weights) };
}

function tokenWeight(row: Row, weights: WeightKind | null): number | null {
  switch (weights) {
    case null:
      return null;
    case "token":
      return 1;
    case "rollout":
      return 1 / row.rolloutTrainableTokens;
  }
}

/** Throws a usage error that lists what there is. */
export function parseGroupOptions(given: {
  readonly advantage?: string;
  readonly weights?: string;
}): GroupOptions {
  return {
    ...optionOf("advantage", given.advantage, ADVANTAGES),
    ...optionOf("weights", given.weights, WEIGHTS),
  };
}

function optionOf(
  name: string,
  value: string | undefined,
  allowed: readonly string[],
): Record<string, string> {
  if (value === undefined) return {};
  if (!allowed.includes(value)) {
    throw new CoppiceError(
      "invalid_request",
      `${name} is "${value}"; it must be one of ${allowed.join(", ")}`,
      {
        param: name,
      },
    );
  }
  return { [name]: value };
}
