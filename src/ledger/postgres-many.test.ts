import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { callId, rolloutId } from "../lineage/call.ts";
import type { Ledger } from "./ledger.ts";
import { locationOf } from "./postgres-connection.ts";
import { openPostgresLedger, type PostgresLedgerOptions } from "./postgres-ledger.ts";
import { admitOne, expectDigests, expectRefusal } from "./testing/contract-subject.ts";
import { newDatabase, type TestDatabase } from "./testing/postgres-database.ts";
import { admission, answer, key, opening, outcome } from "./testing/sample-calls.ts";

let database: TestDatabase;
const opened: Ledger[] = [];
beforeAll(async () => {
  database = await newDatabase();
  await (await openPostgresLedger(database.url)).close();
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((ledger) => ledger.close()));
  await database.empty();
});
afterAll(() => database.drop());

async function gateway(options: PostgresLedgerOptions = {}): Promise<Ledger> {
  const ledger = await openPostgresLedger(database.url, options);
  opened.push(ledger);
  return ledger;
}

describe("many gateways on one PostgreSQL", () => {
  test("four that start at once on an empty database agree on its tables", async () => {
    const fresh = await newDatabase();
    try {
      const ledgers = await Promise.all([0, 1, 2, 3].map(() => openPostgresLedger(fresh.url)));
      await ledgers[0]?.setWeightVersion("7");
      expect(await ledgers[3]?.weightVersion()).toBe("7");
      await Promise.all(ledgers.map((ledger) => ledger.close()));
    } finally {
      await fresh.drop();
    }
  });

  test("what one has committed the other reads at once", async () => {
    const [one, other] = [await gateway(), await gateway()];
    const admitted = await admitOne(one, admission("c1"));
    expect(await other.rollout(key())).toMatchObject({ counts: { admitted: 1 } });
    const { call } = await one.settle(answer(admitted));
    expect(await other.calls(key())).toEqual([call]);
    expect((await other.summaries(key(), 1)).map(({ callId: id }) => id)).toEqual(["c1"]);
  });

  test("a call that one admitted may settle through the other", async () => {
    const [one, other] = [await gateway(), await gateway()];
    const settled = await other.settle(answer(await admitOne(one, admission("c1"))));
    expect(settled).toMatchObject({ late: false, call: { settledOrder: 2 } });
  });

  test("one count, without gaps, whoever counts: three gateways, three rollouts, everything at once", async () => {
    const ledgers = [await gateway(), await gateway(), await gateway()];
    const ids = ["r0", "r1", "r2"].map((id) => rolloutId(id));
    await Promise.all(
      Array.from({ length: 90 }, async (_, index) => {
        const at = { rolloutId: ids[index % 3] as (typeof ids)[0] };
        const admitted = await admitOne(ledgers[index % 2] as Ledger, admission(`c${index}`, at));
        await ledgers[(index + 1) % 3]?.settle(answer(admitted, at));
      }),
    );
    for (const id of ids) {
      const calls = await (ledgers[0] as Ledger).calls(key(null, id));
      const places = calls.flatMap((call) => [call.admittedOrder, call.settledOrder as number]);
      expect(places.sort((a, b) => a - b)).toEqual(Array.from({ length: 60 }, (_, index) => index + 1));
      expectDigests(calls);
    }
  });

  test("two that open, or call, a rollout at once open it once; two that want one place: one gets it", async () => {
    const ledgers = [await gateway(), await gateway()] as const;
    for (let round = 0; round < 10; round++) {
      const id = rolloutId(`race${round}`);
      const both = await Promise.all(ledgers.map((ledger) => ledger.open(opening({ rolloutId: id }))));
      expect(both[0]).toEqual(both[1]);
      const called = rolloutId(`called${round}`);
      const places = await Promise.all(
        ledgers.map((ledger, index) =>
          admitOne(ledger, admission(`r${round}.${index}`, { rolloutId: called })),
        ),
      );
      expect(new Set(places.map(({ admittedOrder }) => admittedOrder))).toEqual(new Set([1, 2]));
      const place = { groupId: `g${round}`, generationIndex: 0 };
      const wanted = await Promise.allSettled(
        ledgers.map((ledger, index) =>
          ledger.open(opening({ rolloutId: rolloutId(`p${round}.${index}`), ...place })),
        ),
      );
      expect(wanted.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    }
  });

  test("a new attempt fences calls in flight at the other gateway", async () => {
    const [one, other] = [await gateway(), await gateway()];
    const admitted = await admitOne(one, admission("c1"));
    await other.open(opening({ attempt: 2, openedAt: 7000 }));
    expect((await one.settle(answer(admitted))).late).toBe(true);
    expect(await other.lateCalls(key(1))).toMatchObject([{ callId: "c1", status: "committed" }]);
    expect(await admitOne(one, admission("c2"))).toMatchObject({ attempt: 2, admittedOrder: 1 });
    await other.seal(outcome(), 8000);
    expect((await admitOne(one, admission("c3"))).late).toBe(true);
  });

  test("calls in flight of a gateway that died are marked unknown by another, those of the living are not", async () => {
    const dead = await gateway({ leaseMs: 600_000 });
    await admitOne(dead, admission("c1"));
    await database.query("UPDATE coppice_gateway SET expires_at = now() - interval '1 s'");
    const alive = await gateway({ leaseMs: 300 });
    const admitted = await admitOne(alive, admission("c2"));
    await expect
      .poll(async () => (await alive.call(callId("c1")))?.status, { timeout: 5000, interval: 50 })
      .toBe("unknown");
    expect(await alive.call(callId("c1"))).toMatchObject({ statusDetail: expect.stringContaining("died") });
    expect((await alive.settle(answer(admitted))).late).toBe(false);
    expect((await alive.rollout(key()))?.counts).toMatchObject({ admitted: 2, committed: 1, unknown: 1 });
  });

  test("text that a column cannot hold fails nobody: NUL and lone surrogates come back", async () => {
    const ledger = await gateway();
    await ledger.setWeightVersion("a\0b\ud800");
    expect(await ledger.weightVersion()).toBe("a\0b\ud800");
    const [one, two] = await ledger.admit([admission("c1", { responseId: "x\0" }), admission("c2")]);
    const all = [one, two].map((admitted, index) =>
      ledger.settle(
        answer(admitted as NonNullable<typeof one>, {
          more: { finishReason: "a\0", messages: [{ z: "\0", a: index }] },
        }),
      ),
    );
    const settled = await Promise.all(all);
    expect(await ledger.calls(key())).toEqual(settled.map(({ call }) => call));
  });

  test("what the database refuses of one settle is not the fault of those beside it", async () => {
    const ledger = await gateway();
    const [one, two] = await ledger.admit([admission("c1"), admission("c2")]);
    const results = await Promise.allSettled([
      ledger.settle(answer(one as NonNullable<typeof one>, { more: { messageCount: 2 ** 40 } })),
      ledger.settle(answer(two as NonNullable<typeof two>)),
    ]);
    expect(results.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    expect(await ledger.call(callId("c1"))).toMatchObject({ status: "admitted" });
  });

  test("a commit during which the connection breaks is tried again, and done once", async () => {
    const ledger = await gateway();
    const admitted = await admitOne(ledger, admission("c1"));
    // The backend dies within the commit: whether it is done, the client is not told.
    await database.query(
      `CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF nextval('once') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NULL; END $$;
       CREATE SEQUENCE once;
       CREATE CONSTRAINT TRIGGER die AFTER INSERT ON coppice_call DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION die()`,
    );
    try {
      expect((await ledger.settle(answer(admitted))).late).toBe(false);
    } finally {
      await database.query("DROP TRIGGER die ON coppice_call; DROP FUNCTION die; DROP SEQUENCE once");
    }
    expect(await ledger.calls(key())).toHaveLength(1);
    expect(await ledger.lateCalls(key())).toEqual([]);
  });

  test("a reader makes no tables, writes nothing and reads what is there", async () => {
    const fresh = await newDatabase();
    await expectRefusal(openPostgresLedger(fresh.url, { readOnly: true }), "not_found");
    await fresh.drop();
    const ledger = await gateway();
    await ledger.open(opening());
    const reader = await gateway({ readOnly: true });
    expect(await reader.rollout(key())).toMatchObject({ state: "open" });
    await expectRefusal(reader.open(opening()), "ledger_error");
    await expectRefusal(reader.admit([admission("c1")]), "ledger_error");
  });
});

describe("the URL's secrets", () => {
  test("are in no location and no error", async () => {
    expect(locationOf("postgres://me:s3cret@db.example:6543/runs?sslmode=require")).toBe(
      "postgres://db.example:6543/runs",
    );
    const wrong = new URL(database.url);
    wrong.password = "s3cret";
    const attempts = [wrong.href, "postgres://me:s3cret@127.0.0.1:1/x", "postgres://me:s3cret@[bad/x"];
    for (const url of attempts) {
      const error = await openPostgresLedger(url, { retryForMs: 100 }).then(
        () => expect.fail("it opened"),
        (thrown: unknown) => thrown as Error,
      );
      expect(error.name, error.message).toBe("CoppiceError");
      expect(error.message).not.toMatch(/s3cret|me:/);
    }
    const ledger = await gateway();
    expect(ledger.location).not.toContain("coppice:");
  });
});
