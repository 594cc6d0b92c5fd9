// A gateway as the simulation has it: the product's own recorder, indexes and marks over a connection to the ledger that
// can break before or after a verb was done, and a life that can end at any verb.
import { EventHub } from "../../src/gateway/events.ts";
import { gatewayMetrics } from "../../src/gateway/gateway-metrics.ts";
import { Recorder } from "../../src/gateway/recorder.ts";
import { RolloutIndexes } from "../../src/gateway/rollout-indexes.ts";
import { UnrecordedMarks } from "../../src/gateway/unrecorded-marks.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { CallId } from "../../src/lineage/call.ts";
import type { Ledger } from "../../src/ledger/ledger.ts";
import type { Chance } from "./chance.ts";

export class Broken extends Error {}

export interface SimulatedGateway {
  readonly name: number;
  /** What its clock is ahead of the true time, in milliseconds. */
  readonly skewMs: number;
  readonly ledger: Ledger;
  readonly recorder: Recorder;
  readonly marks: UnrecordedMarks;
  /** Calls whose answer could not be recorded, by their marks. */
  readonly marked: ReadonlySet<CallId>;
  isDead: boolean;
}

const VERBS = [
  "open",
  "admit",
  "settle",
  "seal",
  "claim",
  "acknowledge",
  "summaries",
  "rollout",
  "calls",
] as const;

export function simulatedGateway(
  given: { readonly name: number; readonly skewMs: number; readonly breaks: number },
  ledger: () => Ledger,
  chance: Chance,
): SimulatedGateway {
  const gateway = { isDead: false };
  const connection = new Proxy({} as Ledger, {
    get: (_target, verb) => {
      const real = ledger();
      const property = real[verb as keyof Ledger];
      if (typeof property !== "function") return property;
      const run = (property as (...given: unknown[]) => Promise<unknown>).bind(real);
      if (!VERBS.includes(verb as (typeof VERBS)[number])) return run;
      return async (...args: unknown[]) => {
        if (gateway.isDead) throw new Broken("the gateway is dead");
        if (chance.in(given.breaks)) throw new Broken("the connection broke before it was asked");
        const answer = await run(...args);
        if (gateway.isDead) throw new Broken("the gateway died meanwhile");
        if (chance.in(given.breaks)) throw new Broken("the connection broke before it answered");
        return answer;
      };
    },
  });
  const log = (): void => undefined;
  const nought = (): number => 0;
  const marked = new Set<CallId>();
  const marks = new (class extends UnrecordedMarks {
    override add(mark: Parameters<UnrecordedMarks["add"]>[0]): void {
      marked.add(mark.callId);
      super.add(mark);
    }
  })(connection, log);
  const recorder = new Recorder({
    ledger: connection,
    engine: { kind: "stand-in", logprobsMode: "raw" } as unknown as Engine,
    indexes: new RolloutIndexes(connection),
    marks,
    metrics: gatewayMetrics({ callsInFlight: nought, unmarkedRecords: nought, bodyBytesInFlight: nought }),
    events: new EventHub(),
    log,
    tokensOnly: true,
    traces: null,
  });
  return Object.assign(gateway, {
    name: given.name,
    skewMs: given.skewMs,
    ledger: connection,
    recorder,
    marks,
    marked,
  });
}
