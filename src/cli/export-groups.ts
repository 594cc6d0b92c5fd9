// `coppice export --out-dir`: one file a group, for exports that are long or go on while rollouts do. A file is complete or
// absent and only groups whose rows can't change any more are written, so a group whose file is there is done: running it
// again goes on where it stopped, and picks up the groups that were completed since.
import { access, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { isGroupComplete, placeOf, rowsOfGroup } from "../gateway/group-rows.ts";
import type { Rollout } from "../ledger/ledger.ts";
import { parseGroupOptions } from "../rows/group.ts";
import type { RolloutRows } from "../rows/row.ts";
import { exportTrainerRows, type ExportOptions } from "./export-rows.ts";
import { choiceOf, groupsOf } from "./ledger-rows.ts";
import { openForReading } from "./open-ledger.ts";
import { UsageError } from "./usage.ts";

export async function exportGroups(
  folder: string,
  options: ExportOptions,
  onProgress: (text: string) => void,
): Promise<void> {
  checkUsage(options);
  await mkdir(folder, { recursive: true });
  const tally = { written: 0, there: 0, open: 0 };
  const ledger = await openForReading(options.ledger);
  try {
    for await (const rollouts of groupsOf(ledger, choiceOf(options), onProgress)) {
      const path = join(folder, fileNameOf(rollouts, options));
      if (!isFinal(rollouts)) tally.open += 1;
      else if (await isThere(path)) tally.there += 1;
      else {
        const built = await rowsOfGroup(ledger, rollouts, parseGroupOptions(options));
        await exportTrainerRows(each(built), { ...options, out: path }, onProgress);
        tally.written += 1;
      }
    }
  } finally {
    await ledger.close();
  }
  process.stderr.write(
    `${tally.written} groups written to ${folder}, ${tally.there} were there, ${tally.open} may still change\n`,
  );
}

/** A group without a told size may get more rollouts, and one without a reward a reward: either would change advantages. */
function isFinal(rollouts: readonly Rollout[]): boolean {
  const bounded = rollouts.some(({ groupId, groupSize }) => groupId === null || groupSize !== null);
  const rewarded = rollouts.every(
    ({ outcome }) => outcome === null || outcome.failed !== null || outcome.reward !== null,
  );
  return bounded && rewarded && isGroupComplete(rollouts);
}

function checkUsage(options: ExportOptions): void {
  const other = [
    ["--out", options.out],
    ["--trace", options.trace],
    ["--rollout", options.rollout],
  ].find(([, value]) => value !== undefined);
  if (other !== undefined)
    throw new UsageError(`--out-dir writes a ledger's groups; it does not go with ${other[0]}`);
  if (options.format === "trace")
    throw new UsageError("--out-dir writes rows; it does not go with --format trace");
}

/** Ids are made of characters that every file system takes, but for the colon, which some do not. */
function fileNameOf(rollouts: readonly Rollout[], { shape, format }: ExportOptions): string {
  const group = placeOf(rollouts[0] as Rollout).groupId.replaceAll(":", "%3A");
  return `${group}${shape === undefined ? "" : `.${shape}`}.${format}`;
}

async function isThere(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

async function* each(rollouts: readonly RolloutRows[]): AsyncGenerator<RolloutRows> {
  yield* rollouts;
}
