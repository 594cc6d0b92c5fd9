// An empty database of the run's PostgreSQL, for one test.
import pg from "pg";
import { inject } from "vitest";

export interface TestDatabase {
  readonly url: string;
  drop(): Promise<void>;
  /** Empties the ledger that stands in it: quicker than a new one. */
  empty(): Promise<void>;
  /** One statement, past the ledger. */
  query(sql: string): Promise<readonly Record<string, unknown>[]>;
}

const EMPTY = ["setting", "gateway", "attempt", "in_flight", "call", "claim"]
  .map((table) => `DELETE FROM coppice_${table};`)
  .join(" ");

let made = 0;

export async function newDatabase(): Promise<TestDatabase> {
  const answer = await fetch(inject("postgres"));
  const server = await answer.text();
  if (!answer.ok) throw new Error(`PostgreSQL did not start: ${server}`);
  const name = `coppice_test_${process.pid}_${made++}`;
  const run = async (sql: string, database: string): Promise<readonly Record<string, unknown>[]> => {
    const client = new pg.Client({ connectionString: urlOf(server, database) });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(sql)).rows;
    } finally {
      await client.end();
    }
  };
  await run(`CREATE DATABASE ${name}`, "postgres");
  return {
    url: urlOf(server, name),
    query: (sql) => run(sql, name),
    empty: async () => {
      await run(EMPTY, name);
    },
    drop: async () => {
      await run(`DROP DATABASE ${name} WITH (FORCE)`, "postgres");
    },
  };
}

function urlOf(server: string, database: string): string {
  const url = new URL(server);
  url.pathname = `/${database}`;
  return url.href;
}
