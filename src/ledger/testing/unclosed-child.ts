// A program that asks a ledger for something, has nothing else to do and closes nothing.
import { writeSync } from "node:fs";
import { openSqliteLedger } from "../sqlite-ledger.ts";

const ledger = await openSqliteLedger(process.argv[2] as string);
void ledger.setWeightVersion("7").then(() => writeSync(1, "kept"));
