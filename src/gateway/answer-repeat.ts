// A request that may be a repeat: given the kept answer where it is one, else sampled, and its answer kept where it was
// committed and did not arrive, or has an Idempotency-Key. kept-answers.ts says what a repeat is.
import type { FastifyReply } from "fastify";
import type { Ledger } from "../ledger/ledger.ts";
import type { RolloutId } from "../lineage/call.ts";
import type { CallAddress } from "./call-address.ts";
import { textHeader } from "./caller-agent.ts";
import type { ClientLine } from "./client-line.ts";
import { STREAM_HEADERS } from "./client-stream.ts";
import type { KeptAnswer, KeptAnswers, KeptRequest } from "./kept-answers.ts";

export interface RepeatableCall {
  readonly body: Readonly<Record<string, unknown>>;
  readonly stream: boolean;
  readonly address: CallAddress;
  readonly line: ClientLine;
  readonly reply: FastifyReply;
}

/** @param sample answers the call anew; what it throws is thrown here */
export async function answerRepeat(
  call: RepeatableCall,
  parts: { readonly kept: KeptAnswers; readonly ledger: Ledger },
  sample: () => Promise<void>,
): Promise<void> {
  const { address, line, reply } = call;
  const { rolloutId } = address;
  if (rolloutId === null) return sample();
  const request = parts.kept.open({
    rolloutId,
    agent: address.agent,
    namedParent: address.namedParent,
    api: apiOf(reply.request.url),
    idempotencyKey: textHeader(reply.request.headers, "idempotency-key"),
    body: call.body,
  });
  const arrived = arrival(reply);
  const kept = await keptAnswer(request, rolloutId, line, parts.ledger);
  if (kept !== null) {
    void arrived.then((whole) => whole && request.arrived());
    return giveAgain(kept, reply);
  }
  try {
    await sample();
    keep(call, request, arrived);
  } finally {
    request.release();
  }
}

/** Null where there is none, or it belongs to an attempt that is over. */
async function keptAnswer(
  request: KeptRequest,
  rolloutId: RolloutId,
  line: ClientLine,
  ledger: Ledger,
): Promise<KeptAnswer | null> {
  const kept = await request.find(line.signal);
  if (kept === null) return null;
  const rollout = await ledger.rollout({ rolloutId, attempt: null });
  if (rollout?.attempt === kept.attempt && rollout.state === "open") return kept;
  request.forget();
  return request.find(line.signal);
}

function keep(
  { line, reply, stream }: RepeatableCall,
  request: KeptRequest,
  arrived: Promise<boolean>,
): void {
  const attempt = line.committedIn;
  const { text } = line.copy;
  if (attempt === null || text === null) return;
  const callId = reply.getHeader("x-coppice-call-id");
  const headers = callId === undefined ? {} : { "x-coppice-call-id": String(callId) };
  const answer: KeptAnswer = { attempt, streamed: stream, headers, text };
  if (request.keyed) request.keep(answer);
  else void arrived.then((whole) => whole || request.keep(answer));
}

async function giveAgain({ streamed, headers, text }: KeptAnswer, reply: FastifyReply): Promise<void> {
  if (!streamed) {
    await reply.headers(headers).type("application/json; charset=utf-8").send(text);
    return;
  }
  void reply.hijack();
  reply.raw.writeHead(200, { ...STREAM_HEADERS, ...headers });
  reply.raw.end(text);
}

/**
 * True once the whole answer was handed to the operating system, false where the connection ended before. That a client
 * died with the last bytes on their way cannot be told: its repeat is then sampled anew.
 */
function arrival({ raw }: FastifyReply): Promise<boolean> {
  return new Promise((resolve) => {
    if (raw.destroyed) resolve(false);
    raw.once("finish", () => resolve(true));
    raw.once("close", () => resolve(false));
  });
}

/** Which API a path means, whatever stands in front. */
function apiOf(url: string): string {
  const path = url.split("?", 1)[0] as string;
  return path.slice(path.lastIndexOf("/") + 1);
}
