// Wrong usage that commander cannot see by itself, such as two options that exclude each other: exit code 2.
import type { Command } from "commander";

export class UsageError extends Error {
  override readonly name = "UsageError";
}

/**
 * The ledger that a command reads, undefined where it reads a trace. A trace that was asked for wins over a ledger that
 * only the environment names; both asked for, or none, is wrong usage.
 */
export function ledgerUnlessTrace(
  options: { readonly trace?: string; readonly ledger?: string },
  command: Command,
): string | undefined {
  const fromEnvironment = command.getOptionValueSource("ledger") === "env" && options.trace !== undefined;
  const ledger = fromEnvironment ? undefined : options.ledger;
  if ((options.trace === undefined) !== (ledger === undefined)) return ledger;
  const given = ledger === undefined ? "none" : "both";
  throw new UsageError(`give exactly one of --trace, --ledger; ${given} given`);
}

/** Options that choose from a ledger do not go with a trace, which is taken whole. */
export function checkTraceIsWhole(options: {
  readonly trace?: string;
  readonly group?: string;
  readonly rollout?: string;
}): void {
  const chosen = (["group", "rollout"] as const).find((name) => options[name] !== undefined);
  if (options.trace === undefined || chosen === undefined) return;
  throw new UsageError(`--${chosen} chooses from a ledger; a trace is made into rows whole`);
}
