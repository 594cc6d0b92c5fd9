// Writes an answer of the stand-in onto its connection: at once or token by token, whole or broken as the faults have
// it. It stops when the client has gone.
import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { findFault, type Fault, type Framing } from "./faults.ts";
import { breakConnection, SERVER } from "./server.ts";

const FRAMING: Framing = {
  newline: "\n",
  space: true,
  comments: false,
  byteOrderMark: false,
  newlines: 2,
  lastNewlines: 2,
};

/** Bytes after which a fast answer is written out, to give a slow client its say. */
const WRITE_BYTES = 64 * 1024;

export interface WireOptions {
  /** Milliseconds before each token. */
  readonly delayMs: number;
  /** Aborted when the client has gone. */
  readonly gone: AbortSignal;
}

/** One JSON answer. */
export async function writeWhole(
  response: ServerResponse,
  json: string,
  faults: readonly Fault[],
  options: WireOptions & { readonly tokens: number },
): Promise<void> {
  if (!(await wait(options.delayMs * options.tokens, options.gone))) return;
  const error = findFault(faults, "error_event");
  const told = Buffer.from(error === undefined ? json : errorJson(error.status));
  const half = told.length >> 1;
  const body = findFault(faults, "end_early") === undefined ? told : told.subarray(0, half);
  response.writeHead(200, { "content-type": "application/json", "content-length": body.length, ...SERVER });
  if (findFault(faults, "cut") !== undefined) {
    await breakOff(response, body.subarray(0, half));
    return;
  }
  if (findFault(faults, "stall") !== undefined) {
    response.write(body.subarray(0, half));
    return;
  }
  response.end(body);
  return;
}

/** Frames as server-sent events; `before` of them come ahead of the first token. */
export async function writeFrames(
  response: ServerResponse,
  frames: readonly string[],
  faults: readonly Fault[],
  options: WireOptions & { readonly before: number },
): Promise<void> {
  const framing = { ...FRAMING, ...findFault(faults, "framing")?.framing };
  const plan = planFrames(frames, faults, options.before);
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", ...SERVER });
  if (framing.byteOrderMark) response.write("\uFEFF");
  let waiting = "";
  for (const [place, frame] of plan.frames.entries()) {
    const isToken = place >= options.before && frame !== "[DONE]";
    if (options.delayMs > 0 && isToken && !(await wait(options.delayMs, options.gone))) return;
    waiting += encode(frame, framing, place === plan.frames.length - 1);
    if (options.delayMs === 0 && waiting.length < WRITE_BYTES) continue;
    if (!(await write(response, waiting, options.gone))) return;
    waiting = "";
  }
  if (waiting !== "") response.write(waiting);
  if (plan.cut !== null) {
    await breakOff(response, cutFrame(encode(plan.cut, framing, false), plan.inside));
    return;
  }
  if (plan.stall) return;
  response.end();
  return;
}

interface FramePlan {
  readonly frames: readonly string[];
  /** The frame inside which the connection breaks. */
  readonly cut: string | null;
  readonly inside: "event" | "character";
  readonly stall: boolean;
}

function planFrames(frames: readonly string[], faults: readonly Fault[], before: number): FramePlan {
  const plain = { cut: null, inside: "event" as const, stall: false };
  const after = (tokens: number): number => Math.max(0, before + tokens);
  const cut = findFault(faults, "cut");
  if (cut !== undefined) {
    const at = after(cut.afterTokens);
    return { ...plain, frames: frames.slice(0, at), cut: frames[at] ?? "", inside: cut.inside };
  }
  const stall = findFault(faults, "stall");
  if (stall !== undefined)
    return { ...plain, frames: frames.slice(0, after(stall.afterTokens)), stall: true };
  const early = findFault(faults, "end_early");
  if (early !== undefined) return { ...plain, frames: frames.slice(0, after(early.afterTokens)) };
  const error = findFault(faults, "error_event");
  if (error !== undefined) {
    // -1 stands for an error before everything, the chunk that opens the message included.
    const head = error.afterTokens < 0 ? [] : frames.slice(0, after(error.afterTokens));
    return { ...plain, frames: [...head, errorJson(error.status), "[DONE]"] };
  }
  const broken = findFault(faults, "broken_frame");
  if (broken !== undefined) {
    const at = after(broken.afterTokens);
    const frame =
      '{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"argum';
    return { ...plain, frames: [...frames.slice(0, at), frame, ...frames.slice(at)] };
  }
  if (findFault(faults, "no_done") !== undefined) return { ...plain, frames: frames.slice(0, -1) };
  return { ...plain, frames };
}

export function errorJson(status: number): string {
  const message = "Internal server error";
  return JSON.stringify({ error: { message, type: "InternalServerError", param: null, code: status } });
}

function encode(frame: string, framing: Framing, last: boolean): string {
  const comment = framing.comments ? `: still here${framing.newline}${framing.newline}` : "";
  const newlines = last ? framing.lastNewlines : framing.newlines;
  return `${comment}data:${framing.space ? " " : ""}${frame}${framing.newline.repeat(newlines)}`;
}

/** The first part of a frame: up to inside its first character of several bytes, or half of it. */
function cutFrame(frame: string, inside: "event" | "character"): Buffer {
  const bytes = Buffer.from(frame);
  const character = inside === "character" ? bytes.findIndex((byte) => byte >= 0x80) : -1;
  return bytes.subarray(0, character === -1 ? bytes.length >> 1 : character + 1);
}

/** Sends what there is, then closes the connection without ending the answer. */
async function breakOff(response: ServerResponse, bytes: Buffer): Promise<void> {
  await new Promise<void>((resolve) => {
    response.write(bytes, () => resolve());
  });
  breakConnection(response);
}

/** False where the client has gone. */
async function write(response: ServerResponse, text: string, gone: AbortSignal): Promise<boolean> {
  if (gone.aborted) return false;
  if (response.write(text)) return true;
  await new Promise<void>((resolve) => {
    const go = (): void => {
      response.off("drain", go);
      gone.removeEventListener("abort", go);
      resolve();
    };
    response.on("drain", go);
    gone.addEventListener("abort", go);
  });
  return !gone.aborted;
}

/** False where the client has gone before the time was over. */
export async function wait(ms: number, gone: AbortSignal): Promise<boolean> {
  if (gone.aborted) return false;
  if (ms <= 0) return true;
  try {
    await sleep(ms, undefined, { signal: gone });
    return true;
  } catch (error) {
    if (gone.aborted) return false;
    throw error;
  }
}
