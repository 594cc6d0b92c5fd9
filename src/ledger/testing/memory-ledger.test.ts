import { describeLedgerContract } from "./contract.ts";
import { MemoryLedger } from "./memory-ledger.ts";

describeLedgerContract("the naive ledger", async () => {
  const ledger = new MemoryLedger();
  return {
    ledger,
    restart: async () => {
      ledger.restart();
      return ledger;
    },
    dispose: async () => {},
  };
});
