// A process that a test kills: admits and settles calls as fast as it can, many at once, and says on standard output what
// it was promised, one line each, before it asks for the next. Started as `node --import register.mjs crash-child.ts FILE
// RUN SEED`; it never ends by itself.
import { writeSync } from "node:fs";
import { callId, rolloutId, type Call } from "../../lineage/call.ts";
import { openSqliteLedger } from "../sqlite-ledger.ts";
import { admission, answer } from "./sample-calls.ts";

const [path, run, seed] = process.argv.slice(2) as [string, string, string];
const LANES = 12;

/** mulberry32: the same run again from its seed. */
function randomFrom(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const ledger = await openSqliteLedger(path);
writeSync(1, "ready\n");

async function work(lane: number): Promise<void> {
  const random = randomFrom(Number(seed) + lane);
  const rollout = rolloutId(`run${run}-r${lane % 4}`);
  let parent: Call | undefined;
  let sequence: number[] = [];
  for (let index = 0; ; index++) {
    const id = callId(`run${run}-${lane}-${index}`);
    const [admitted] = await ledger.admit([admission(id, { rolloutId: rollout })]);
    writeSync(1, `admitted ${id}\n`);
    if (admitted === undefined) throw new Error("admitted nothing");
    // Some calls are left hanging, some have large payloads.
    if (random() < 0.1) continue;
    const fresh = Array.from({ length: random() < 0.05 ? 20_000 : 40 }, () => Math.floor(random() * 2 ** 32));
    const prompt = [...sequence, ...fresh];
    const generated = Array.from({ length: 20 }, () => Math.floor(random() * 2 ** 32));
    const how = { rolloutId: rollout, prompt, generated, ...(parent === undefined ? {} : { parent }) };
    const { call } = await ledger.settle(answer(admitted, how));
    writeSync(1, `settled ${id} ${call.settledOrder} ${call.digest}\n`);
    const goesOn = random() < 0.9 && prompt.length < 5_000;
    parent = goesOn ? call : undefined;
    sequence = goesOn ? [...prompt, ...generated] : [];
  }
}

await Promise.all(Array.from({ length: LANES }, (_, lane) => work(lane)));
