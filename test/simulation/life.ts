// One simulated life: agents call, ask again, end their rollouts and start them anew; gateways die and clocks differ;
// consumers claim, read, acknowledge, forget. What agents and consumers were told is written down here, and the promises
// (promises.ts) compare it with what the ledger has.
import { vi } from "vitest";
import { CoppiceError } from "../../src/errors.ts";
import type { AdmittedCall } from "../../src/gateway/recorder.ts";
import type { Claim, Ledger } from "../../src/ledger/ledger.ts";
import { rolloutId, type CallId, type RolloutId } from "../../src/lineage/call.ts";
import { chanceOf, Schedule, type Chance } from "./chance.ts";
import { Broken, simulatedGateway, type SimulatedGateway } from "./gateway.ts";

/** What an agent has for certain: it was told all of the answer. */
export interface Received {
  readonly callId: CallId;
  readonly rolloutId: RolloutId;
  readonly attempt: number;
  readonly prompt: readonly number[];
  readonly generated: readonly number[];
  /** True where the gateway could not record it and said so in a mark. */
  readonly isMarked: boolean;
}

export interface SimulatedLedger {
  readonly ledger: Ledger;
  /** The death of the process that holds it; gives what the next one opens. */
  readonly restart: () => Promise<Ledger>;
}

export interface Life {
  readonly schedule: Schedule;
  readonly chance: Chance;
  readonly rollouts: readonly RolloutId[];
  readonly groupOf: (rollout: RolloutId) => string;
  readonly received: Received[];
  readonly admitted: { readonly callId: CallId; readonly rolloutId: RolloutId; readonly attempt: number }[];
  /** Attempts whose outcome was taken, with their calls as they stood then. */
  readonly sealed: Map<string, readonly string[]>;
  readonly claims: Claim[];
  /** Claims whose rows a consumer has read whole. */
  readonly read: Set<string>;
  readonly acknowledged: Set<string>;
  ledger: Ledger;
}

const START = 1_700_000_000_000;
const LEASE_MS = 4000;
const DEADLINE_MS = 15_000;

/** What a ledger or a gateway may rightly say no with; anything else is a bug and ends the simulation. */
async function refusedOr<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof CoppiceError || error instanceof Broken) return null;
    throw error;
  }
}

/** Plays one life to its end, looking after each step. */
export async function playLife(
  seed: number,
  given: SimulatedLedger,
  look: (life: Life) => Promise<void>,
): Promise<Life> {
  const chance = chanceOf(seed);
  const schedule = new Schedule(START);
  const groups = 1 + chance.below(2);
  const size = 1 + chance.below(2);
  const rollouts = Array.from({ length: groups * size }, (_, index) => rolloutId(`r${index}`));
  const life: Life = {
    schedule,
    chance,
    rollouts,
    groupOf: (rollout) => `g${Math.floor(rollouts.indexOf(rollout) / size)}`,
    received: [],
    admitted: [],
    sealed: new Map(),
    claims: [],
    read: new Set(),
    acknowledged: new Set(),
    ledger: given.ledger,
  };
  const actors = new Actors(life, given, { size, breaks: chance.pick([0, 0.01, 0.05]) });
  actors.start();
  for (let steps = 0; schedule.size > 0 && steps < 1000; steps += 1) {
    await Promise.all(schedule.take(chance.in(0.3) ? 1 + chance.below(4) : 1).map((step) => step()));
    await look(life);
  }
  return life;
}

class Actors {
  readonly #life: Life;
  readonly #given: SimulatedLedger;
  readonly #size: number;
  readonly #breaks: number;
  #gateways: SimulatedGateway[] = [];
  #named = 0;
  #claimed = 0;

  constructor(life: Life, given: SimulatedLedger, how: { readonly size: number; readonly breaks: number }) {
    this.#life = life;
    this.#given = given;
    this.#size = how.size;
    this.#breaks = how.breaks;
  }

  start(): void {
    const { chance, schedule, rollouts } = this.#life;
    for (let gateway = 0; gateway < 1 + chance.below(3); gateway += 1)
      this.#gateways.push(this.#newGateway());
    for (const rollout of rollouts) {
      schedule.in(chance.below(500), () => this.#open(rollout, null));
    }
    for (let consumer = 0; consumer < 2; consumer += 1) {
      schedule.in(chance.below(3000), () => this.#claim(`consumer-${consumer}`, 0));
    }
    for (let death = chance.below(4); death > 0; death -= 1) {
      schedule.in(chance.below(9000), () => this.#die());
    }
    if (chance.in(0.3)) schedule.in(chance.below(9000), () => this.#dieAll());
  }

  #newGateway(): SimulatedGateway {
    const { chance } = this.#life;
    this.#named += 1;
    const given = { name: this.#named, skewMs: chance.below(3000) - 1500, breaks: this.#breaks };
    return simulatedGateway(given, () => this.#life.ledger, chance);
  }

  /** Whichever gateway the balancer picks; from here to the next wait its clock is the clock. */
  #gateway(): SimulatedGateway {
    const gateway = this.#life.chance.pick(this.#gateways);
    vi.setSystemTime(this.#life.schedule.now + gateway.skewMs);
    return gateway;
  }

  /** Calls in flight of the dead stay admitted. */
  async #die(): Promise<void> {
    const dead = this.#life.chance.pick(this.#gateways);
    dead.isDead = true;
    this.#gateways = [...this.#gateways.filter((one) => one !== dead), this.#newGateway()];
  }

  async #dieAll(): Promise<void> {
    for (const one of this.#gateways) one.isDead = true;
    this.#life.ledger = await this.#given.restart();
    this.#gateways = this.#gateways.map(() => this.#newGateway());
  }

  async #open(rollout: RolloutId, attempt: number | null): Promise<void> {
    const { chance, schedule } = this.#life;
    const { ledger } = this.#gateway();
    const openedAt = Date.now();
    const opened = await refusedOr(
      ledger.open({
        rolloutId: rollout,
        attempt,
        groupId: this.#life.groupOf(rollout),
        groupSize: this.#size,
        generationIndex: null,
        sampling: null,
        deadlineAt: openedAt + DEADLINE_MS,
        tags: null,
        openedAt,
      }),
    );
    if (opened === null) return schedule.in(200, () => this.#retryOpen(rollout, attempt));
    const calls = 1 + chance.below(5);
    schedule.in(chance.below(300), () => this.#call(rollout, { left: calls, view: [] }));
    if (chance.in(0.2)) schedule.in(chance.below(600), () => this.#call(rollout, { left: 2, view: [] }));
  }

  /** Said again until it is heard; a rollout that has ended meanwhile is left alone. */
  async #retryOpen(rollout: RolloutId, attempt: number | null): Promise<void> {
    const known = await this.#life.ledger.rollout({ rolloutId: rollout, attempt: null });
    if (known === null || known.attempt < (attempt ?? 0)) await this.#open(rollout, attempt);
    else this.#life.schedule.in(100, () => this.#end(rollout, known.attempt));
  }

  /** @param view what the agent's next prompt starts with: an earlier sequence, or nothing after a rewrite */
  async #call(
    rollout: RolloutId,
    turn: { readonly left: number; readonly view: readonly number[] },
  ): Promise<void> {
    const { chance, schedule } = this.#life;
    const gateway = this.#gateway();
    const request = {
      rolloutId: rollout,
      agent: null,
      class: null,
      namedParent: null,
      traceParent: null,
      model: null,
      choices: 1,
      idPrefix: "chatcmpl-",
      isGone: () => false,
    };
    const call = await refusedOr(gateway.recorder.admit(request));
    if (call === null) {
      if (chance.in(0.8)) schedule.in(150, () => this.#call(rollout, turn));
      else schedule.in(150, () => this.#end(rollout, null));
      return;
    }
    if (!gateway.isDead && !call.late) {
      const [{ callId }] = call.choices as unknown as [{ callId: CallId }];
      this.#life.admitted.push({ callId, rolloutId: rollout, attempt: call.attempt });
    }
    // Few tokens, so that sequences repeat: twins, and prompts that start with a sequence of another branch.
    const carried = Array.from({ length: 1 + chance.below(2) }, () => 10 + chance.below(2));
    schedule.in(chance.below(800), () =>
      this.#answer({ gateway, call, turn, prompt: [...turn.view, ...carried] }),
    );
  }

  async #answer(asked: {
    readonly gateway: SimulatedGateway;
    readonly call: AdmittedCall;
    readonly turn: { readonly left: number; readonly view: readonly number[] };
    readonly prompt: readonly number[];
  }): Promise<void> {
    const { gateway, call, turn, prompt } = asked;
    const { chance, schedule } = this.#life;
    const rollout = call.request.rolloutId;
    const again = (): void => schedule.in(100, () => this.#call(rollout, turn));
    if (gateway.isDead) return again();
    vi.setSystemTime(schedule.now + gateway.skewMs);
    const failed = chance.in(0.1);
    const generated = failed ? [] : Array.from({ length: 1 + chance.below(2) }, () => 100 + chance.below(2));
    await gateway.recorder.settle(
      call,
      {
        messages: null,
        mediaDigests: [],
        sampling: { asked: {}, used: {} },
        way: "text",
        contextDigest: "",
        notes: [],
      },
      [
        {
          status: failed ? "failed" : "committed",
          statusDetail: failed ? "the engine failed" : null,
          promptTokenIds: failed ? null : Uint32Array.from(prompt),
          tokenIds: Uint32Array.from(generated),
          logprobs: Float32Array.from(generated, () => -0.5),
          message: null,
          finishReason: failed ? null : "stop",
          untrainable: null,
          weightVersions: [],
          notes: [],
        },
      ],
    );
    // The last byte leaves after the commit: a gateway that died before it told the agent nothing.
    if (gateway.isDead || failed) return again();
    const [{ callId }] = call.choices as unknown as [{ callId: CallId }];
    const isMarked = gateway.marked.has(callId);
    this.#life.received.push({
      callId,
      rolloutId: rollout,
      attempt: call.attempt,
      prompt,
      generated,
      isMarked,
    });
    if (turn.left <= 1) return schedule.in(chance.below(400), () => this.#end(rollout, call.attempt));
    const rewrites = chance.in(0.2);
    const keeps = chance.in(0.7);
    const view = rewrites ? [] : keeps ? [...prompt, ...generated] : turn.view;
    schedule.in(chance.below(300), () => this.#call(rollout, { left: turn.left - 1, view }));
  }

  /** Posts the outcome, again where nothing was heard; now and then it comes twice, and calls come after it. */
  async #end(rollout: RolloutId, attempt: number | null): Promise<void> {
    const { chance, schedule, sealed } = this.#life;
    const gateway = this.#gateway();
    const outcome = {
      rolloutId: rollout,
      groupId: this.#life.groupOf(rollout),
      generationIndex: null,
      reward: 1,
      accepted: null,
      final: null,
      failed: null,
      infer: true,
    };
    const flushed = await refusedOr(gateway.marks.flush(rollout).then(() => true));
    const told = flushed === null ? null : await refusedOr(gateway.ledger.seal(outcome, Date.now()));
    if (told !== null && told.state === "sealed") {
      const key = `${rollout} ${told.attempt}`;
      if (!sealed.has(key)) sealed.set(key, await callsOf(this.#life.ledger, rollout, told.attempt));
    }
    if (told === null) {
      const known = await this.#life.ledger.rollout({ rolloutId: rollout, attempt: null });
      if (known?.state === "open") schedule.in(250, () => this.#end(rollout, attempt));
      return;
    }
    if (chance.in(0.2)) schedule.in(chance.below(2000), () => this.#endAgain(rollout));
    if (chance.in(0.2)) schedule.in(chance.below(2000), () => this.#call(rollout, { left: 1, view: [] }));
    if (chance.in(0.1) && told.attempt < 3) {
      schedule.in(chance.below(2000), () => this.#open(rollout, told.attempt + 1));
    }
  }

  async #endAgain(rollout: RolloutId): Promise<void> {
    const known = await this.#life.ledger.rollout({ rolloutId: rollout, attempt: null });
    if (known?.state === "sealed") await this.#end(rollout, known.attempt);
  }

  async #claim(consumer: string, idle: number): Promise<void> {
    const { chance, schedule, claims } = this.#life;
    const { ledger } = this.#gateway();
    this.#claimed += 1;
    const request = { claimId: `claim-${this.#claimed}`, consumer, claimedAt: Date.now(), leaseMs: LEASE_MS };
    let claim = await refusedOr(ledger.claim(request));
    // Nothing was heard: the same claim is asked for again.
    if (claim === null && chance.in(0.5)) claim = await refusedOr(this.#gateway().ledger.claim(request));
    // One that was asked for twice may be over when it is heard of.
    if (claim?.state !== "held") {
      if (idle < 14) schedule.in(1500, () => this.#claim(consumer, idle + 1));
      return;
    }
    claims.push(claim);
    const held = claim;
    if (chance.in(0.15)) return schedule.in(chance.below(6000), () => this.#claim(consumer, 0));
    schedule.in(chance.below(chance.in(0.2) ? 7000 : 1500), () => this.#read(consumer, held));
  }

  async #read(consumer: string, claim: Claim): Promise<void> {
    const { chance, schedule, read } = this.#life;
    const { ledger } = this.#gateway();
    const parts = await refusedOr(Promise.all(claim.members.map((member) => ledger.rollout(member))));
    const now = await this.#life.ledger.claimOf(claim.claimId, Date.now());
    // A lease that ran out gives no rows.
    if (parts?.every((rollout) => rollout?.state === "sealed") === true && now?.state === "held") {
      read.add(claim.claimId);
    }
    schedule.in(chance.below(1500), () => this.#acknowledge(consumer, claim));
  }

  async #acknowledge(consumer: string, claim: Claim): Promise<void> {
    const { chance, schedule, read, acknowledged } = this.#life;
    if (read.has(claim.claimId)) {
      const told = await this.#tellAcknowledged(claim);
      if (told) acknowledged.add(claim.claimId);
      else if (chance.in(0.7)) return schedule.in(100, () => this.#acknowledge(consumer, claim));
      if (chance.in(0.2)) schedule.in(chance.below(3000), () => this.#acknowledgeLate(claim));
    }
    schedule.in(chance.below(1000), () => this.#claim(consumer, 0));
  }

  async #acknowledgeLate(claim: Claim): Promise<void> {
    await this.#tellAcknowledged(claim);
  }

  async #tellAcknowledged({ claimId }: Claim): Promise<boolean> {
    const { ledger } = this.#gateway();
    const now = Date.now();
    const before = await this.#life.ledger.claimOf(claimId, now);
    const told = await refusedOr(ledger.acknowledge(claimId, now));
    if (told !== null && before?.state === "expired") {
      throw new Error(`a promise does not hold: ${claimId} was acknowledged after its lease`);
    }
    return told !== null;
  }
}

/** Each call with what must not change once its rollout has ended. */
export async function callsOf(
  ledger: Ledger,
  rollout: RolloutId,
  attempt: number,
): Promise<readonly string[]> {
  const calls = await ledger.calls({ rolloutId: rollout, attempt });
  return calls.map(
    ({ callId, status, settledOrder, digest }) => `${callId} ${status} ${settledOrder} ${digest}`,
  );
}
