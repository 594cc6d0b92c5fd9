// What every ledger promises, as one suite that each of them runs. A ledger's own test file says how to make one and how
// its process dies; what only one kind of ledger does is tested there.
import { afterEach, beforeEach, describe } from "vitest";
import type { Ledger } from "../ledger.ts";
import { describeCalls } from "./contract-calls.ts";
import { describeClaims } from "./contract-claims.ts";
import { describeLate } from "./contract-late.ts";
import { describeModel } from "./contract-model.ts";
import { describeOpening } from "./contract-opening.ts";
import { describeSealing } from "./contract-sealing.ts";
import type { LedgerHarness, Subject } from "./contract-subject.ts";

export interface ContractOptions {
  /** Random lives to compare, each in a ledger of its own. */
  readonly lives?: number;
}

export function describeLedgerContract(
  name: string,
  makeLedger: () => Promise<LedgerHarness>,
  options: ContractOptions = {},
): void {
  describe(`${name} keeps the ledger's contract`, () => {
    let harness: LedgerHarness;
    let ledger: Ledger;
    beforeEach(async () => {
      harness = await makeLedger();
      ledger = harness.ledger;
    });
    afterEach(() => harness.dispose());
    const subject: Subject = {
      get ledger(): Ledger {
        return ledger;
      },
      async restart(): Promise<void> {
        ledger = await harness.restart();
      },
    };
    describeOpening(subject);
    describeSealing(subject);
    describeCalls(subject);
    describeLate(subject);
    describeClaims(subject);
    describeModel(makeLedger, options.lives ?? 100);
  });
}
