import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Ledger } from "./ledger.ts";
import { openSqliteLedger } from "./sqlite-ledger.ts";
import type { LedgerHarness } from "./testing/contract-subject.ts";
import { describeLedgerContract } from "./testing/contract.ts";

async function harness(worker: boolean): Promise<LedgerHarness> {
  const folder = mkdtempSync(join(tmpdir(), "coppice-ledger-"));
  const open = (): Promise<Ledger> => openSqliteLedger(join(folder, "ledger.db"), { worker });
  let ledger = await open();
  return {
    ledger,
    restart: async () => {
      await ledger.close();
      ledger = await open();
      return ledger;
    },
    dispose: async () => {
      await ledger.close();
      rmSync(folder, { recursive: true });
    },
  };
}

describeLedgerContract("the embedded ledger, on the event loop,", () => harness(false));
describeLedgerContract("the embedded ledger, in its thread,", () => harness(true), { lives: 5 });
