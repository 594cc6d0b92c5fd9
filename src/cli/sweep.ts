// `coppice sweep`: deletes what is too old to be kept. Each age is said; what has no age stays.
import { Command, InvalidArgumentError, Option } from "commander";
import { openLedger } from "../ledger/open-ledger.ts";
import { ledgerOption } from "./open-ledger.ts";
import { UsageError } from "./usage.ts";

interface SweepOptions {
  readonly ledger?: string;
  readonly open?: number;
  readonly published?: number;
  readonly late?: number;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function sweepCommand(): Command {
  return new Command("sweep")
    .description("delete what is too old to be kept")
    .addOption(ledgerOption())
    .addOption(
      new Option("--open <age>", "sweep rollouts without an outcome that were opened longer ago").argParser(
        age,
      ),
    )
    .addOption(
      new Option("--published <age>", "forget rollouts and claims acknowledged longer ago").argParser(age),
    )
    .addOption(new Option("--late <age>", "delete late calls that are older").argParser(age))
    .option("--dry-run", "count, and delete nothing")
    .option("--json", "one JSON object instead of text")
    .addHelpText(
      "after",
      "\nAges are numbers with s, m, h or d: 90s, 30m, 12h, 7d.\n" +
        "Example:\n  coppice sweep --ledger postgres://... --open 1d --published 30d --late 7d --dry-run\n" +
        "A file that a running server serves is busy; a PostgreSQL ledger is swept beside its gateways.",
    )
    .action(sweep);
}

async function sweep(options: SweepOptions): Promise<void> {
  const { open, published, late, dryRun = false } = options;
  if (options.ledger === undefined) {
    throw new UsageError("give --ledger FILE or postgres://... (or COPPICE_LEDGER)");
  }
  if (open === undefined && published === undefined && late === undefined) {
    throw new UsageError("say what is too old: --open AGE, --published AGE or --late AGE");
  }
  const now = Date.now();
  const before = (ageMs: number | undefined): number | null => (ageMs === undefined ? null : now - ageMs);
  const ledger = await openLedger(options.ledger);
  try {
    const report = await ledger.sweepOld({
      openBefore: before(open),
      publishedBefore: before(published),
      lateBefore: before(late),
      dryRun,
    });
    const { openRollouts, publishedAttempts, lateCalls } = report;
    const text =
      options.json === true
        ? JSON.stringify({
            dry_run: dryRun,
            open_rollouts: openRollouts,
            published_attempts: publishedAttempts,
            late_calls: lateCalls,
          })
        : `${dryRun ? "would sweep" : "swept"}: ${openRollouts} open rollouts, ${publishedAttempts} published attempts, ${lateCalls} late calls`;
    process.stdout.write(`${text}\n`);
  } finally {
    await ledger.close();
  }
}

function age(text: string): number {
  const [, count, unit = ""] = /^(\d+(?:\.\d+)?)([smhd])$/.exec(text) ?? [];
  if (count === undefined)
    throw new InvalidArgumentError("It must be a number with s, m, h or d, such as 12h.");
  return Number(count) * (UNITS[unit] as number);
}
