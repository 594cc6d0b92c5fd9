import { describe, expect, test } from "vitest";
import { openSqliteLedger } from "../ledger/sqlite-ledger.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { callId, rolloutId, type RolloutId } from "../lineage/call.ts";
import { recordCall, RolloutIndex, type CapturedCall } from "../lineage/record-call.ts";
import { RolloutIndexes } from "./rollout-indexes.ts";

function captured(rollout: RolloutId, name: string, admittedOrder: number, prompt: number[]): CapturedCall {
  return {
    rolloutId: rollout,
    attempt: 1,
    callId: callId(name),
    responseId: `response-of-${name}`,
    status: "committed",
    statusDetail: null,
    admittedOrder,
    admittedAt: 1,
    settledAt: 2,
    namedParent: null,
    promptTokenIds: Uint32Array.from(prompt),
    generatedTokenIds: Uint32Array.of(1000 + admittedOrder),
    generatedLogprobs: Float32Array.of(-1),
    mediaDigests: [],
    finishReason: "stop",
    untrainable: null,
    weightVersions: [],
    way: "text",
    notes: [],
    sampling: { asked: {}, used: {} },
    logprobsMode: null,
    agent: null,
    class: null,
    messages: null,
    answer: null,
  };
}

/** One process: its indexes, and calls that go through them. */
function gatewayOn(ledger: Ledger, indexes: RolloutIndexes) {
  return {
    admit: async (rollout: RolloutId, name: string) => {
      const [admitted] = await ledger.admit([
        {
          rolloutId: rollout,
          callId: callId(name),
          responseId: `response-of-${name}`,
          admittedAt: 1,
          agent: null,
          class: null,
        },
      ]);
      if (admitted === undefined) throw new Error("nothing was admitted");
      indexes.noteAdmitted(rollout, admitted, `response-of-${name}`);
      return admitted;
    },
    settle: async (rollout: RolloutId, name: string, order: number, prompt: number[]) => {
      const one = captured(rollout, name, order, prompt);
      const lineage = (await indexes.before(rollout, 1, order)).place(one);
      const { call } = await ledger.settle(
        recordCall(one, lineage, lineage.root?.kind === "drift" ? null : lineage.root),
      );
      indexes.noteSettled(call);
      return call;
    },
  };
}

/** Counts the reads of summaries. */
function counting(ledger: Ledger): { ledger: Ledger; reads: () => number } {
  let reads = 0;
  const watched = new Proxy(ledger, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        if (name === "summaries") reads += 1;
        return (value as (...args: unknown[]) => unknown).apply(target, args);
      };
    },
  });
  return { ledger: watched, reads: () => reads };
}

describe("indexes of rollouts", () => {
  test("read nothing from the ledger while this gateway alone does the calls", async () => {
    const watched = counting(await openSqliteLedger(":memory:"));
    const gateway = gatewayOn(watched.ledger, new RolloutIndexes(watched.ledger));
    const rollout = rolloutId("r");
    let prompt = [1, 2];
    let parent: unknown = null;
    for (let turn = 0; turn < 5; turn++) {
      const { admittedOrder } = await gateway.admit(rollout, `c${turn}`);
      const call = await gateway.settle(rollout, `c${turn}`, admittedOrder, prompt);
      expect(call.parentCallId).toBe(parent);
      parent = call.callId;
      prompt = [...prompt, 1000 + admittedOrder, 7];
    }
    expect(watched.reads()).toBe(0);
  });

  test("hold no tokens and no messages of calls that are on disk: memory does not grow with prompts", async () => {
    const ledger = await openSqliteLedger(":memory:");
    const indexes = new RolloutIndexes(ledger);
    const gateway = gatewayOn(ledger, indexes);
    const rollout = rolloutId("r");
    const { admittedOrder } = await gateway.admit(rollout, "a");
    await gateway.settle(rollout, "a", admittedOrder, [1, 2]);
    const index = await indexes.before(rollout, 1, 100);
    const { found } = index.place(captured(rollout, "b", 100, [1, 2, 1000 + admittedOrder, 7]));
    expect(found?.parent?.callId).toBe("a");
    for (const payload of [
      "carriedTokenIds",
      "generatedTokenIds",
      "generatedLogprobs",
      "messages",
      "answer",
    ]) {
      expect(found?.parent).not.toHaveProperty(payload);
    }
  });

  test("read what another gateway did since, once, and only that", async () => {
    const memory = await openSqliteLedger(":memory:");
    const watched = counting(memory);
    const here = gatewayOn(watched.ledger, new RolloutIndexes(watched.ledger));
    const there = gatewayOn(memory, new RolloutIndexes(memory));
    const rollout = rolloutId("r");
    const first = await there.admit(rollout, "a");
    await there.settle(rollout, "a", first.admittedOrder, [1]);
    const second = await here.admit(rollout, "b");
    const b = await here.settle(rollout, "b", second.admittedOrder, [1, 1001, 5]);
    expect(b.parentCallId).toBe("a");
    expect(watched.reads()).toBe(1);
    const third = await here.admit(rollout, "c");
    await here.settle(rollout, "c", third.admittedOrder, [9]);
    expect(watched.reads()).toBe(1);
  });

  test("hold no more calls than their bound, and load again what they let go", async () => {
    const memory = await openSqliteLedger(":memory:");
    const indexes = new RolloutIndexes(memory, 4);
    const gateway = gatewayOn(memory, indexes);
    const rollouts = ["r0", "r1", "r2"].map((name) => rolloutId(name));
    const last = new Map<RolloutId, { prompt: number[]; parent: unknown }>();
    for (let turn = 0; turn < 4; turn++) {
      for (const rollout of rollouts) {
        const { prompt, parent } = last.get(rollout) ?? { prompt: [1], parent: null };
        const { admittedOrder } = await gateway.admit(rollout, `${rollout}-${turn}`);
        const call = await gateway.settle(rollout, `${rollout}-${turn}`, admittedOrder, prompt);
        expect(call.parentCallId).toBe(parent);
        last.set(rollout, { prompt: [...prompt, 1000 + admittedOrder, 3], parent: call.callId });
      }
      expect(indexes.size).toBeLessThanOrEqual(4 + 3);
    }
    expect(indexes.size).toBeLessThanOrEqual(4);
  });

  test("know the ids of calls in flight, and of those that another gateway recorded", async () => {
    const memory = await openSqliteLedger(":memory:");
    const indexes = new RolloutIndexes(memory);
    const rollout = rolloutId("r");
    await gatewayOn(memory, indexes).admit(rollout, "mine");
    await gatewayOn(memory, new RolloutIndexes(memory)).admit(rollout, "theirs");
    for (const id of ["mine", "response-of-mine", "theirs", "response-of-theirs"]) {
      expect(await indexes.knows(rollout, id)).toBe(true);
    }
    expect(await indexes.knows(rollout, "nobody")).toBe(false);
    expect(await indexes.knows(rolloutId("other"), "mine")).toBe(false);
  });

  test("forget an attempt when a newer one begins", async () => {
    const memory = await openSqliteLedger(":memory:");
    const indexes = new RolloutIndexes(memory);
    const gateway = gatewayOn(memory, indexes);
    const rollout = rolloutId("r");
    const { admittedOrder } = await gateway.admit(rollout, "old");
    await gateway.settle(rollout, "old", admittedOrder, [1]);
    indexes.noteOpened(rollout, 2);
    expect(indexes.size).toBe(0);
    const older = await indexes.before(rollout, 1, 3);
    expect(older).toBeInstanceOf(RolloutIndex);
    expect(older.place(captured(rollout, "x", 5, [1, 1001, 2])).found?.parent).toBeNull();
  });
});
