// The tables of a ledger in PostgreSQL, and their migrations. Everything of a call stands under its attempt's key, and every
// key of a call starts with it, so that the two large tables can be partitioned by a hash of it (docs/scale.md). What the
// columns mean is call-row.ts and attempt-row.ts; JSON is text, since what was stored must come back as it was.
import type { PoolClient } from "pg";
import { CoppiceError } from "../errors.ts";

/** Step n brings schema n to n + 1. */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE coppice_setting (name text PRIMARY KEY, value text NOT NULL);
  CREATE TABLE coppice_gateway (
    gateway_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    expires_at timestamptz NOT NULL
  );
  CREATE TABLE coppice_attempt (
    attempt_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rollout_id text NOT NULL,
    attempt bigint NOT NULL,
    newest boolean NOT NULL,
    state text NOT NULL,
    group_id text, group_size bigint, generation_index bigint,
    sampling text, deadline_at float8, deadline_ms float8, tags text,
    opened_at float8 NOT NULL, sealed_at float8,
    outcome text, reward float8,
    weight_version text, usual_sampling text,
    last_order bigint NOT NULL DEFAULT 0,
    last_late_order bigint NOT NULL DEFAULT 0,
    admitted bigint NOT NULL DEFAULT 0,
    committed bigint NOT NULL DEFAULT 0,
    aborted bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    unknown bigint NOT NULL DEFAULT 0,
    late bigint NOT NULL DEFAULT 0,
    published_at float8
  ) WITH (fillfactor = 50);
  CREATE UNIQUE INDEX coppice_attempt_of_rollout ON coppice_attempt (rollout_id, attempt);
  CREATE UNIQUE INDEX coppice_attempt_of_group ON coppice_attempt (group_id, generation_index) WHERE newest;
  CREATE INDEX coppice_attempt_by_state ON coppice_attempt (state, opened_at) WHERE newest;
  CREATE INDEX coppice_attempt_to_publish ON coppice_attempt ((coalesce(group_id, rollout_id)))
    WHERE newest AND published_at IS NULL;
  CREATE TABLE coppice_in_flight (
    attempt_key bigint NOT NULL,
    late boolean NOT NULL,
    admitted_order bigint NOT NULL,
    call_id text NOT NULL,
    admission text NOT NULL,
    gateway_key bigint NOT NULL,
    PRIMARY KEY (attempt_key, late, admitted_order)
  );
  CREATE UNIQUE INDEX coppice_in_flight_of_id ON coppice_in_flight (call_id);
  CREATE INDEX coppice_in_flight_of_gateway ON coppice_in_flight (gateway_key);
  CREATE TABLE coppice_call (
    attempt_key bigint NOT NULL,
    settled_order bigint NOT NULL,
    admitted_order bigint NOT NULL,
    parent_order bigint,
    admitted_at float8, settled_at float8,
    carried_length bigint NOT NULL, generated_length bigint NOT NULL, sequence_length bigint NOT NULL,
    fingerprint bigint NOT NULL,
    message_count integer NOT NULL, messages_from integer NOT NULL,
    response_tail smallint, status smallint NOT NULL, way smallint NOT NULL, class smallint,
    late boolean NOT NULL,
    call_id bytea NOT NULL,
    response_id text,
    address bytea,
    finish_reason text, weight_version text, logprobs_mode text, agent text,
    request_digest bytea, history_digest bytea,
    sampling text, more text, digest bytea NOT NULL,
    tokens bytea NOT NULL, messages text, answer text,
    PRIMARY KEY (attempt_key, late, settled_order)
  );
  -- Random ids and log-probs do not get smaller, and trying costs more than it saves.
  ALTER TABLE coppice_call ALTER COLUMN tokens SET STORAGE EXTERNAL;
  CREATE UNIQUE INDEX coppice_call_of_id ON coppice_call (call_id) WHERE NOT late;
  CREATE INDEX coppice_late_call_of_id ON coppice_call (call_id) WHERE late;
  CREATE TABLE coppice_claim (
    claim_id text PRIMARY KEY,
    group_id text NOT NULL,
    consumer text NOT NULL,
    state text NOT NULL,
    claimed_at float8 NOT NULL,
    expires_at float8 NOT NULL,
    acknowledged_at float8,
    members text NOT NULL
  );
  CREATE UNIQUE INDEX coppice_claim_held ON coppice_claim (group_id) WHERE state = 'held';
  `,
];

export const SCHEMA_VERSION: number = MIGRATIONS.length;

/** "Copp", as the file of an embedded ledger has it. */
const MIGRATION_LOCK = 0x436f7070;

/** Within a transaction: one process migrates, others wait for it. Throws `ledger_error` for a newer schema. */
export async function migrate(client: PoolClient, location: string): Promise<void> {
  await client.query("SELECT pg_advisory_xact_lock($1)", [MIGRATION_LOCK]);
  await client.query("CREATE TABLE IF NOT EXISTS coppice_schema (version integer NOT NULL)");
  const version = await schemaVersion(client);
  checkVersion(version ?? 0, location);
  for (const step of MIGRATIONS.slice(version ?? 0)) await client.query(step);
  if (version === null) await client.query("INSERT INTO coppice_schema VALUES ($1)", [SCHEMA_VERSION]);
  else await client.query("UPDATE coppice_schema SET version = $1", [SCHEMA_VERSION]);
}

/** For reading: throws `not_found` where there is no ledger, `ledger_error` for another schema. */
export async function checkSchema(client: PoolClient, location: string): Promise<void> {
  const { rows } = await client.query<{ there: boolean }>(
    "SELECT to_regclass('coppice_schema') IS NOT NULL AS there",
  );
  const version = rows[0]?.there === true ? await schemaVersion(client) : null;
  if (version === null) throw new CoppiceError("not_found", `there is no ledger in ${location}`);
  checkVersion(version, location);
  if (version < SCHEMA_VERSION) {
    throw new CoppiceError(
      "ledger_error",
      `${location} has schema ${version} and is to be read as schema ${SCHEMA_VERSION}; serve it once to bring it up to date`,
    );
  }
}

async function schemaVersion(client: PoolClient): Promise<number | null> {
  const { rows } = await client.query<{ version: number }>("SELECT version FROM coppice_schema");
  return rows[0]?.version ?? null;
}

function checkVersion(version: number, location: string): void {
  if (version <= SCHEMA_VERSION) return;
  throw new CoppiceError(
    "ledger_error",
    `${location} has schema ${version} and this version of Coppice knows schemas up to ${SCHEMA_VERSION}; use a newer Coppice`,
  );
}
