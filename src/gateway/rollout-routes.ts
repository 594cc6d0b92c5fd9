// The management API for rollouts: open, list, read, outcome, delete; a call's tokens; the weight version.
import type { FastifyReply, FastifyRequest } from "fastify";
import { CoppiceError } from "../errors.ts";
import type { Ledger, Rollout, RolloutFilter } from "../ledger/ledger.ts";
import { callId, rolloutId, type CallSummary, type RolloutId } from "../lineage/call.ts";
import { checkPinned } from "./chat-body.ts";
import { changingLine, type ChangingLine } from "./changing-line.ts";
import type { EventHub } from "./events.ts";
import { checkGroupOfOpening } from "./group-keys.ts";
import { checkRoomInGroup } from "./group-rows.ts";
import type { KeptAnswers } from "./kept-answers.ts";
import { isRevocable, type Keyring } from "./keys.ts";
import { answers, listQuery, openBody, outcomeBody, weightsBody } from "./management-schemas.ts";
import { parseBody, parseQuery } from "./parse-request.ts";
import type { RolloutIndexes } from "./rollout-indexes.ts";
import {
  callJson,
  everyCallIsARoot,
  rolloutView,
  rolloutWithCallsView,
  sealedRolloutView,
} from "./rollout-view.ts";
import type { Routes } from "./routes.ts";
import { sealRollout, type SealParts } from "./seal-rollout.ts";
import type { WeightVersions } from "./weight-versions.ts";

export interface RolloutRouteParts extends SealParts {
  readonly ledger: Ledger;
  readonly indexes: RolloutIndexes;
  readonly kept: KeptAnswers;
  readonly weights: WeightVersions;
  readonly events: EventHub;
  readonly keyring: Keyring;
}

/** Roots whose messages are compared: a line that changes with every request changes between any two. */
const ROOTS_COMPARED = 6;

export function addRolloutRoutes(routes: Routes, parts: RolloutRouteParts): void {
  const { ledger } = parts;
  routes.add({
    method: "PUT",
    url: "/rollouts/:rollout",
    permission: "rollout",
    checksGroup: true,
    doc: {
      summary: "Open a rollout, or say again how it was opened",
      body: openBody,
      answer: answers.openedRollout,
    },
    handle: (request, reply) => open(request, reply, parts),
  });
  routes.add({
    method: "GET",
    url: "/rollouts",
    permission: "operate",
    doc: { summary: "List newest attempts, oldest opened first", query: listQuery, answer: answers.rollouts },
    handle: async (request, reply) => {
      const { group_id, state, limit } = parseQuery(listQuery, request);
      const filter: RolloutFilter = {
        ...(group_id === undefined ? {} : { groupId: group_id }),
        ...(state === undefined ? {} : { state }),
        ...(limit === undefined ? {} : { limit }),
      };
      const rollouts = await ledger.rollouts(filter);
      return reply.send({ rollouts: rollouts.map(rolloutView) });
    },
  });
  routes.add({
    method: "GET",
    url: "/rollouts/:rollout",
    permission: "rollout",
    doc: { summary: "Read a rollout: state, counts, alarms and its calls", answer: answers.rolloutWithCalls },
    handle: async (request, reply) => {
      const rollout = await knownRollout(ledger, rolloutOf(request));
      const calls = rollout.state === "swept" ? [] : await ledger.summaries(rollout, 0);
      const line = everyCallIsARoot(calls) ? await lineOfRoots(ledger, calls) : null;
      return reply.send(rolloutWithCallsView(rollout, calls, line));
    },
  });
  routes.add({
    method: "POST",
    url: "/rollouts/:rollout/outcome",
    permission: "rollout",
    doc: {
      summary: "Post the outcome, which seals the rollout; 422 where a reference fails, and it stays open",
      body: outcomeBody,
      answer: answers.sealedRollout,
    },
    handle: async (request, reply) => {
      const id = rolloutOf(request);
      const body = parseBody(outcomeBody, request);
      checkSameId(id, body.rollout_id);
      const { rollout, refusal } = await sealRollout(id, body, parts);
      parts.kept.forgetRollout(id);
      return reply.send(sealedRolloutView(rollout, refusal));
    },
  });
  routes.add({
    method: "DELETE",
    url: "/rollouts/:rollout",
    permission: "operate",
    doc: { summary: "Delete a rollout's calls; it stays known as swept", answer: answers.swept },
    handle: async (request, reply) => {
      const id = rolloutOf(request);
      const rollout = await knownRollout(ledger, id);
      await ledger.sweep({ rolloutId: id, attempt: rollout.attempt });
      parts.indexes.drop(id);
      parts.kept.forgetRollout(id);
      parts.events.publish("rollout_swept", () => ({ rollout_id: id, attempt: rollout.attempt }));
      return reply.send({ rollout_id: id, state: "swept" });
    },
  });
  addCallAndWeightRoutes(routes, parts);
}

function addCallAndWeightRoutes(routes: Routes, { ledger, weights, events }: RolloutRouteParts): void {
  routes.add({
    method: "GET",
    url: "/calls/:call",
    permission: "operate",
    doc: { summary: "Read a call with its tokens and log-probs", answer: answers.call },
    handle: async (request, reply) => {
      const id = callId((request.params as { readonly call: string }).call);
      const call = await ledger.call(id);
      if (call === null) throw new CoppiceError("not_found", `there is no call ${id}`, { param: "call_id" });
      const json = callJson(call, await ledger.sequence(id));
      return reply.type("application/json; charset=utf-8").send(json);
    },
  });
  routes.add({
    method: "PUT",
    url: "/weights",
    permission: "operate",
    doc: { summary: "Say which weights generate from now on", body: weightsBody, answer: answers.weights },
    handle: async (request, reply) => {
      const version = String(parseBody(weightsBody, request).version);
      await weights.set(version);
      events.publish("weights_set", () => ({ version }));
      return reply.send({ version });
    },
  });
  routes.add({
    method: "GET",
    url: "/weights",
    permission: "operate",
    doc: { summary: "Which weights the trainer named last; null before it did", answer: answers.weights },
    handle: async (_request, reply) => reply.send({ version: await weights.current() }),
  });
}

async function open(
  request: FastifyRequest,
  reply: FastifyReply,
  parts: RolloutRouteParts,
): Promise<FastifyReply> {
  const id = rolloutOf(request);
  const body = parseBody(openBody, request);
  checkSameId(id, body.rollout_id);
  if (body.sampling !== null && body.sampling !== undefined) checkPinned(body.sampling);
  await checkGroupOfOpening(request.caller, { rollout: id, groupId: body.group_id ?? null }, parts.ledger);
  const openedAt = Date.now();
  await checkRoomInGroup(parts.ledger, id, {
    groupId: body.group_id ?? null,
    groupSize: body.group_size ?? null,
    generationIndex: body.generation_index ?? null,
  });
  const rollout = await parts.ledger.open({
    rolloutId: id,
    attempt: body.attempt ?? null,
    groupId: body.group_id ?? null,
    groupSize: body.group_size ?? null,
    generationIndex: body.generation_index ?? null,
    sampling: body.sampling ?? null,
    // The ledger knows the same span again, whenever it is told.
    deadlineAt:
      body.deadline_s === null || body.deadline_s === undefined ? null : openedAt + body.deadline_s * 1000,
    tags: body.tags ?? null,
    openedAt,
  });
  parts.indexes.noteOpened(id, rollout.attempt);
  if (rollout.openedAt === openedAt) {
    parts.events.publish("rollout_opened", () => ({
      rollout_id: id,
      attempt: rollout.attempt,
      group_id: rollout.groupId,
    }));
  }
  const clientKey =
    request.caller !== null && isRevocable(request.caller) ? null : parts.keyring.rolloutKey(id);
  return reply.send({ ...rolloutView(rollout), client_key: clientKey });
}

export function rolloutOf(request: FastifyRequest): RolloutId {
  return rolloutId((request.params as { readonly rollout: string }).rollout);
}

/** The newest attempt. Throws `not_found`. */
export async function knownRollout(ledger: Ledger, id: RolloutId): Promise<Rollout> {
  const rollout = await ledger.rollout({ rolloutId: id, attempt: null });
  if (rollout !== null) return rollout;
  throw new CoppiceError("not_found", `there is no rollout ${id}`, { param: "rollout_id" });
}

function checkSameId(id: RolloutId, inBody: string | null | undefined): void {
  if (inBody === null || inBody === undefined || inBody === id) return;
  throw new CoppiceError("invalid_request", `the path names rollout ${id}, the body ${inBody}`, {
    param: "rollout_id",
  });
}

async function lineOfRoots(ledger: Ledger, calls: readonly CallSummary[]): Promise<ChangingLine | null> {
  const ids = calls.map(({ callId }) => callId).slice(0, ROOTS_COMPARED);
  const roots = await Promise.all(ids.map((id) => ledger.call(id)));
  return changingLine(
    roots.flatMap((call) => (call === null || call.messages === null ? [] : [call.messages])),
  );
}
