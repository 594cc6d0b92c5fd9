// Publishing over HTTP: a consumer claims a complete group under a lease, reads its rows, and acknowledges once it has them
// safe; only then are they swept. What is delivered again, after a lease that ran out, has another claim's id on it.
import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { CoppiceError } from "../errors.ts";
import { streamRows } from "../export/export-rows.ts";
import { rowLines } from "../export/json-lines.ts";
import { leaseOver, unknownClaim } from "../ledger/claim-rules.ts";
import type { Claim, Ledger } from "../ledger/ledger.ts";
import { finishGroup, parseGroupOptions, type GroupOptions } from "../rows/group.ts";
import type { RolloutRows } from "../rows/row.ts";
import type { EventHub } from "./events.ts";
import type { GatewayMetrics } from "./gateway-metrics.ts";
import { buildRollout, placesOf, type GroupPlace } from "./group-rows.ts";
import { rowsQuery } from "./management-schemas.ts";
import { parseBody, parseQuery } from "./parse-request.ts";
import type { RolloutIndexes } from "./rollout-indexes.ts";
import type { Routes } from "./routes.ts";
import { CONTENT_TYPES, optionsIn } from "./row-routes.ts";

export interface ClaimRouteParts {
  readonly ledger: Ledger;
  readonly indexes: RolloutIndexes;
  readonly events: EventHub;
  readonly metrics: Pick<GatewayMetrics, "claims" | "publishWaitSeconds">;
}

const DEFAULT_LEASE_S = 300;

interface ClaimBody {
  readonly consumer: string;
  readonly lease_s?: number | null | undefined;
}

const claimBody: z.ZodType<ClaimBody> = z.strictObject({
  consumer: z.string().min(1).max(200).describe("who takes the group, for people"),
  lease_s: z
    .number()
    .min(1)
    .max(86_400)
    .nullish()
    .describe(`seconds until the group is given out again; ${DEFAULT_LEASE_S} by default`),
});

const claimView = z.object({
  claim_id: z.string(),
  group_id: z.string(),
  consumer: z.string(),
  state: z.enum(["held", "expired", "acknowledged"]),
  claimed_at: z.number(),
  expires_at: z.number(),
  acknowledged_at: z.number().nullable(),
  rollouts: z.array(z.object({ rollout_id: z.string(), attempt: z.number().int() })),
});

const claimAnswer = z.object({
  claim: claimView.nullable().describe("null where no complete group waits"),
});

export function addClaimRoutes(routes: Routes, parts: ClaimRouteParts): void {
  const { ledger, events, metrics } = parts;
  routes.add({
    method: "POST",
    url: "/claims",
    permission: "operate",
    doc: {
      summary: "Claim a complete group that nobody holds, under a lease",
      body: claimBody,
      answer: claimAnswer,
    },
    handle: async (request, reply) => {
      const { consumer, lease_s: lease } = parseBody(claimBody, request);
      const claim = await ledger.claim({
        claimId: `claim-${randomUUID().replaceAll("-", "")}`,
        consumer,
        claimedAt: Date.now(),
        leaseMs: (lease ?? DEFAULT_LEASE_S) * 1000,
      });
      if (claim !== null) {
        events.publish("group_claimed", () => eventOf(claim));
        metrics.claims.add({ event: "claimed" });
        const waitMs = await waitOf(ledger, claim);
        if (waitMs !== null) metrics.publishWaitSeconds.observe(waitMs / 1000);
      }
      return reply.send({ claim: claim === null ? null : viewOf(claim) });
    },
  });
  routes.add({
    method: "GET",
    url: "/claims/:claim",
    permission: "operate",
    doc: { summary: "Read a claim and its state", answer: claimView },
    handle: async (request, reply) => reply.send(viewOf(await knownClaim(ledger, request))),
  });
  routes.add({
    method: "GET",
    url: "/claims/:claim/rows",
    permission: "operate",
    doc: {
      summary:
        "Rows and failures of the claimed group, with the claim's id on each line; 409 once its lease ran out",
      query: rowsQuery,
      contentType: CONTENT_TYPES.jsonl,
    },
    handle: async (request, reply) => {
      const query = parseQuery(rowsQuery, request);
      const options = parseGroupOptions(optionsIn(query));
      const claim = await knownClaim(ledger, request);
      if (claim.state === "expired") throw leaseOver(claim);
      if (claim.state === "acknowledged") throw alreadyAcknowledged(claim);
      const rows = await rowsOfClaim(ledger, claim, options);
      const { format = "jsonl", shape, force_mixed: forceMixed = false } = query;
      const chunks =
        format === "jsonl" && shape === undefined
          ? linesOf(rows, claim)
          : await streamRows(rows, {
              ...options,
              format,
              shape: shape ?? "rows",
              forceMixed,
              claimId: claim.claimId,
            });
      return reply
        .type(CONTENT_TYPES[format])
        .header("x-coppice-claim-id", claim.claimId)
        .send(Readable.from(chunks, { objectMode: false }));
    },
  });
  addAcknowledge(routes, parts);
}

/** Milliseconds from the group's last outcome on; null where that cannot be read: the claim stands all the same. */
async function waitOf(ledger: Ledger, claim: Claim): Promise<number | null> {
  const members = await Promise.all(claim.members.map((member) => ledger.rollout(member))).catch(() => []);
  const sealedAt = members.flatMap((rollout) => rollout?.sealedAt ?? []);
  return sealedAt.length === 0 ? null : Math.max(0, claim.claimedAt - Math.max(...sealedAt));
}

function addAcknowledge(routes: Routes, { ledger, indexes, events, metrics }: ClaimRouteParts): void {
  routes.add({
    method: "POST",
    url: "/claims/:claim/ack",
    permission: "operate",
    doc: {
      summary: "The claim's rows are safe: its rollouts are swept; 409 once its lease ran out",
      answer: claimView,
    },
    handle: async (request, reply) => {
      const claim = await ledger.acknowledge(idOf(request), Date.now());
      for (const { rolloutId, attempt } of claim.members) {
        indexes.drop(rolloutId);
        events.publish("rollout_swept", () => ({ rollout_id: rolloutId, attempt }));
      }
      metrics.claims.add({ event: "acknowledged" });
      events.publish("group_acknowledged", () => eventOf(claim));
      return reply.send(viewOf(claim));
    },
  });
}

/** Rows of exactly what was claimed, whatever has become of the group since. Its advantages are final. */
async function rowsOfClaim(
  ledger: Ledger,
  claim: Claim,
  options: GroupOptions,
): Promise<readonly RolloutRows[]> {
  const found = await Promise.all(claim.members.map((member) => ledger.rollout(member)));
  const rollouts = found.filter((rollout) => rollout?.state === "sealed") as NonNullable<(typeof found)[0]>[];
  const places = placesOf(rollouts);
  const placeOf = (id: (typeof rollouts)[0]["rolloutId"]): GroupPlace => places.get(id) as GroupPlace;
  const inOrder = rollouts.toSorted(
    (one, other) => placeOf(one.rolloutId).generationIndex - placeOf(other.rolloutId).generationIndex,
  );
  const built: RolloutRows[] = [];
  for (const rollout of inOrder) {
    built.push(buildRollout(rollout, await ledger.calls(rollout), placeOf(rollout.rolloutId)));
  }
  return finishGroup(built, options);
}

function* linesOf(rows: readonly RolloutRows[], { claimId }: Claim): Generator<string> {
  for (const line of rowLines(rows)) yield `${line.slice(0, -1)},"claim_id":${JSON.stringify(claimId)}}\n`;
}

function idOf(request: FastifyRequest): string {
  const { claim } = request.params as { readonly claim: string };
  if (/^claim-[0-9a-f]{32}$/.test(claim)) return claim;
  throw new CoppiceError(
    "not_found",
    "there is no such claim: ids of claims are claim-... as POST /claims told",
    {
      param: "claim_id",
    },
  );
}

async function knownClaim(ledger: Ledger, request: FastifyRequest): Promise<Claim> {
  const id = idOf(request);
  const claim = await ledger.claimOf(id, Date.now());
  if (claim === null) throw unknownClaim(id);
  return claim;
}

function alreadyAcknowledged({ claimId, groupId }: Claim): CoppiceError {
  return new CoppiceError(
    "conflict",
    `claim ${claimId} is acknowledged: the calls of group ${groupId} were deleted`,
    { param: "claim_id", detail: { claim_id: claimId, state: "acknowledged" } },
  );
}

function eventOf({ claimId, groupId, consumer }: Claim): Record<string, string> {
  return { claim_id: claimId, group_id: groupId, consumer };
}

function viewOf(claim: Claim): Record<string, unknown> {
  return {
    claim_id: claim.claimId,
    group_id: claim.groupId,
    consumer: claim.consumer,
    state: claim.state,
    claimed_at: claim.claimedAt / 1000,
    expires_at: claim.expiresAt / 1000,
    acknowledged_at: claim.acknowledgedAt === null ? null : claim.acknowledgedAt / 1000,
    rollouts: claim.members.map(({ rolloutId, attempt }) => ({ rollout_id: rolloutId, attempt })),
  };
}
