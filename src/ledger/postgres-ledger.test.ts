import { afterAll } from "vitest";
import { openPostgresLedger } from "./postgres-ledger.ts";
import type { LedgerHarness } from "./testing/contract-subject.ts";
import { describeLedgerContract } from "./testing/contract.ts";
import { newDatabase, type TestDatabase } from "./testing/postgres-database.ts";

let making: Promise<TestDatabase> | null = null;
afterAll(async () => (await making)?.drop());

async function harness(): Promise<LedgerHarness> {
  const database = await (making ??= newDatabase());
  let ledger = await openPostgresLedger(database.url);
  return {
    ledger,
    restart: async () => {
      await ledger.close();
      ledger = await openPostgresLedger(database.url);
      return ledger;
    },
    dispose: async () => {
      await ledger.close();
      await database.empty();
    },
  };
}

describeLedgerContract("the ledger in PostgreSQL", harness, { lives: 12 });
