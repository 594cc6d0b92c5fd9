// Opens the ledger that a command was given: by --ledger or COPPICE_LEDGER.
import { Option } from "commander";
import type { Ledger } from "../ledger/ledger.ts";
import { openLedger } from "../ledger/open-ledger.ts";
import { UsageError } from "./usage.ts";

export function ledgerOption(): Option {
  return new Option(
    "--ledger <file>",
    "the ledger: a SQLite file, or postgres://USER:PASSWORD@HOST/DATABASE",
  ).env("COPPICE_LEDGER");
}

/** Opens it for reading, beside a running server or without one. The caller closes it. */
export async function openForReading(path: string | undefined): Promise<Ledger> {
  if (path === undefined) throw new UsageError("give --ledger FILE or postgres://... (or COPPICE_LEDGER)");
  return openLedger(path, { readOnly: true });
}
