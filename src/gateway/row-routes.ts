// Rows over HTTP: of one rollout, or of a whole group, as lines that are sent while they are written. A rollout whose
// deadline passed without an outcome is refused here, when somebody asks for its rows.
import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import { CoppiceError } from "../errors.ts";
import { streamRows, type FileFormat } from "../export/export-rows.ts";
import { rowLines } from "../export/json-lines.ts";
import type { Ledger, Rollout } from "../ledger/ledger.ts";
import { rolloutId } from "../lineage/call.ts";
import { parseGroupOptions, type GroupOptions } from "../rows/group.ts";
import type { RolloutRows } from "../rows/row.ts";
import { isOverdue, rolloutsOfGroup, rowsOfGroup, rowsOfOneRollout } from "./group-rows.ts";
import { rowsQuery, type RowsQuery } from "./management-schemas.ts";
import { parseQuery } from "./parse-request.ts";
import { knownRollout, rolloutOf } from "./rollout-routes.ts";
import type { Routes } from "./routes.ts";
import { sealRollout, type SealParts } from "./seal-rollout.ts";

const JSON_LINES = "application/x-ndjson; charset=utf-8";

export function addRowRoutes(routes: Routes, parts: SealParts): void {
  const { ledger } = parts;
  routes.add({
    method: "GET",
    url: "/rollouts/:rollout/rows",
    permission: "operate",
    doc: {
      summary: "A sealed rollout's rows, or its failure; the advantage is null until its group is complete",
      query: rowsQuery,
      contentType: JSON_LINES,
    },
    handle: async (request, reply) => {
      const query = parseQuery(rowsQuery, request);
      const options = parseGroupOptions(optionsIn(query));
      const id = rolloutOf(request);
      const rollout = await sealOverdue(await knownRollout(ledger, id), parts);
      if (rollout.state !== "sealed") throw notSealed(rollout);
      await sealAllOverdue(await membersBeside(ledger, rollout), parts);
      return sendRows(reply, await rowsOfOneRollout(ledger, rollout, options), { query, group: options });
    },
  });
  routes.add({
    method: "GET",
    url: "/groups/:group/rows",
    permission: "operate",
    doc: {
      summary: "Rows and failures of a group's sealed rollouts; advantages are null until it is complete",
      query: rowsQuery,
      contentType: JSON_LINES,
    },
    handle: async (request, reply) => {
      const query = parseQuery(rowsQuery, request);
      const options = parseGroupOptions(optionsIn(query));
      const groupId = rolloutId((request.params as { readonly group: string }).group, "group_id");
      const members = await rolloutsOfGroup(ledger, groupId);
      if (members.length === 0) {
        throw new CoppiceError("not_found", `there is no group ${groupId}`, { param: "group_id" });
      }
      if (members.every((rollout) => rollout.state === "swept")) {
        throw new CoppiceError("conflict", `group ${groupId} is swept: its calls were deleted`);
      }
      const built = await rowsOfGroup(ledger, await sealAllOverdue(members, parts), options);
      return sendRows(reply, built, { query, group: options });
    },
  });
}

/** What a query says of advantages and weights. */
export function optionsIn(query: {
  readonly advantage?: string | undefined;
  readonly weights?: string | undefined;
}): Parameters<typeof parseGroupOptions>[0] {
  const { advantage, weights } = query;
  return {
    ...(advantage === undefined ? {} : { advantage }),
    ...(weights === undefined ? {} : { weights }),
  };
}

function notSealed({ rolloutId, state }: Rollout): CoppiceError {
  const why = state === "open" ? "is open: post its outcome first" : "is swept: its calls were deleted";
  return new CoppiceError("conflict", `rollout ${rolloutId} ${why}`, { detail: { state } });
}

function membersBeside(ledger: Ledger, rollout: Rollout): Promise<readonly Rollout[]> | readonly Rollout[] {
  return rollout.groupId === null ? [] : rolloutsOfGroup(ledger, rollout.groupId);
}

async function sealAllOverdue(rollouts: readonly Rollout[], parts: SealParts): Promise<readonly Rollout[]> {
  const now = Date.now();
  const all: Rollout[] = [];
  for (const rollout of rollouts) all.push(await sealOverdue(rollout, parts, now));
  return all;
}

/** Seals a rollout whose deadline passed with an outcome that says nothing; the deadline is its refusal. */
async function sealOverdue(rollout: Rollout, parts: SealParts, now: number = Date.now()): Promise<Rollout> {
  if (!isOverdue(rollout, now)) return rollout;
  return (await sealRollout(rollout.rolloutId, {}, parts)).rollout;
}

export const CONTENT_TYPES: Readonly<Record<FileFormat, string>> = {
  jsonl: JSON_LINES,
  arrow: "application/vnd.apache.arrow.stream",
  parquet: "application/vnd.apache.parquet",
};

/** JSON Lines without a shape are those of a trace, failures included; the rest are a trainer's records. */
async function sendRows(
  reply: FastifyReply,
  rows: readonly RolloutRows[],
  { query, group }: { readonly query: RowsQuery; readonly group: GroupOptions },
): Promise<FastifyReply> {
  const { format = "jsonl", shape, force_mixed: forceMixed = false } = query;
  const chunks =
    format === "jsonl" && shape === undefined
      ? withLineEnds(rows)
      : await streamRows(rows, { ...group, format, shape: shape ?? "rows", forceMixed });
  return reply.type(CONTENT_TYPES[format]).send(Readable.from(chunks, { objectMode: false }));
}

function* withLineEnds(rows: readonly RolloutRows[]): Generator<string> {
  for (const line of rowLines(rows)) yield `${line}\n`;
}
