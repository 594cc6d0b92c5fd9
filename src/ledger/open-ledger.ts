// Opens a ledger by what it is called: `postgres://...` is a database for many gateways, anything else the file of an
// embedded ledger.
import type { Ledger } from "./ledger.ts";
import { openPostgresLedger } from "./postgres-ledger.ts";
import { openSqliteLedger } from "./sqlite-ledger.ts";

const POSTGRES = /^postgres(?:ql)?:\/\//i;

export interface OpenOptions {
  /** Creates, migrates and marks nothing. Default false. */
  readonly readOnly?: boolean;
}

/** Throws as `openPostgresLedger` and `openSqliteLedger` do. */
export function openLedger(fileOrUrl: string, options: OpenOptions = {}): Promise<Ledger> {
  return POSTGRES.test(fileOrUrl)
    ? openPostgresLedger(fileOrUrl, options)
    : openSqliteLedger(fileOrUrl, options);
}
