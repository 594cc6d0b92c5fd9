// Throws mutated requests at a gateway whose engine's answers are mutated too, clients leaving as they like, and checks
// what must hold all the same: every answer is one of HTTP's and no bug's, every record verifies and every rollout is
// complete, and the heap does not grow. The requests are mutations of those that public clients really send.
import { mkdtemp, rm } from "node:fs/promises";
import { readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Agent, request as send } from "undici";
import { wireRequests, type WireRequest } from "../../src/dialect/testing/wire-fixtures.ts";
import { startStandIn } from "../../src/engine/stand-in.ts";
import { vllmEngine } from "../../src/engine/vllm.ts";
import type { LogFields } from "../../src/gateway/log.ts";
import { startGateway } from "../../src/gateway/server.ts";
import type { Ledger } from "../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../src/ledger/sqlite-ledger.ts";
import { rolloutId } from "../../src/lineage/call.ts";
import { checkRecords } from "../../src/rows/check-records.ts";
import { Dice, mutateBytes, mutateJson } from "./mutate.ts";
import { startWildEngine } from "./wild-engine.ts";

export interface FuzzOptions {
  readonly seed: number;
  readonly requests: number;
  readonly concurrency: number;
  /** How the engine is asked: with messages, or from token ids wherever it can be. */
  readonly way: "text" | "auto";
  readonly onProgress?: (done: number) => void;
}

export interface FuzzFigures {
  readonly requests: number;
  readonly spoilt_answers: number;
  /** How many answers had each status; `gone`: the client left, or the connection broke. */
  readonly statuses: Readonly<Record<string, number>>;
  readonly calls: Readonly<Record<string, number>>;
  /** Calls that were asked from token ids. */
  readonly token_in: number;
  readonly roots: number;
  /** Bytes of heap in use after a collection, at a fifth, two fifths and so on of the way. */
  readonly heap: readonly number[];
  /** What must not be: bugs, records that do not verify, rollouts that are not complete. */
  readonly faults: readonly string[];
}

/** Calls in a rollout before the next one begins and this one is checked and swept. */
const CALLS_A_ROLLOUT = 200;
const REQUEST_WITHIN_MS = 20_000;
const MAX_FAULTS = 20;
const HEAP_SAMPLES = 5;
/** Messages after which a conversation goes no further. */
const MAX_HISTORY = 20;
const GOING_ON: WireRequest = {
  method: "POST",
  path: "/r/ROLLOUT/v1/chat/completions",
  headers: {},
  body: { model: "any" },
};

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

export async function runFuzz(options: FuzzOptions): Promise<FuzzFigures> {
  const dice = new Dice(options.seed);
  const folder = await mkdtemp(join(tmpdir(), "coppice-fuzz-"));
  const standIn = await startStandIn({ template: "chatml", keepRequests: 1, maxModelLength: 20_000 });
  const wild = await startWildEngine(standIn.url, dice);
  const engine = vllmEngine({ url: wild.url, kind: "stand-in" });
  const ledger = await openSqliteLedger(join(folder, "fuzz.db"));
  const faults: string[] = [];
  const fault = (text: string): void => void (faults.length < MAX_FAULTS && faults.push(text));
  const gateway = await startGateway({
    engine,
    ledger,
    host: "127.0.0.1",
    port: 0,
    way: options.way,
    blank: ["^x-anthropic-billing-header:.*$"],
    callDeadlineMs: REQUEST_WITHIN_MS / 2,
    limits: { bodyBytes: 1_000_000 },
    log: (event, fields) => {
      noteBugs(event, fields, fault);
      if (event === "token_in_checked") wild.begin();
    },
  });
  if (options.way === "text") wild.begin();
  const run = new FuzzRun({ url: gateway.url, ledger, dice, fault });
  try {
    await run.all(options);
  } finally {
    await run.close();
    await gateway.close();
    await ledger.close();
    await engine.close();
    await wild.close();
    await standIn.close();
    await rm(folder, { recursive: true, force: true });
  }
  return { ...run.figures(), spoilt_answers: wild.spoilt, faults };
}

/** Errors that nobody planned, and records that could not be made. */
function noteBugs(event: string, fields: LogFields | undefined, fault: (text: string) => void): void {
  const isBug = event === "request_failed" && fields?.["code"] === "ledger_error";
  if (isBug || event === "call_not_recorded") fault(`${event}: ${JSON.stringify(fields)}`);
}

interface FuzzParts {
  readonly url: string;
  readonly ledger: Ledger;
  readonly dice: Dice;
  readonly fault: (text: string) => void;
}

class FuzzRun {
  readonly #parts: FuzzParts;
  readonly #pool = new Agent({ connections: 64, bodyTimeout: REQUEST_WITHIN_MS });
  readonly #requests: readonly WireRequest[];
  readonly #statuses = new Map<string, number>();
  readonly #calls = new Map<string, number>();
  #sent = 0;
  /** A conversation of the rollout at hand that may go on, in either direction. */
  #history: readonly unknown[] = [];
  #roots = 0;
  #tokenIn = 0;
  readonly #heap: number[] = [];

  constructor(parts: FuzzParts) {
    this.#parts = parts;
    const folder = new URL("../../src/dialect/testing/wire/", import.meta.url);
    this.#requests = readdirSync(folder).flatMap((name) => wireRequests(name.replace(/\.json$/, "")));
  }

  async all({ requests, concurrency, onProgress }: FuzzOptions): Promise<void> {
    const batch = Math.max(CALLS_A_ROLLOUT, concurrency);
    for (let batchIndex = 0; this.#sent < requests; batchIndex++) {
      const rollout = `f${batchIndex}`;
      const until = Math.min(requests, this.#sent + batch);
      const worker = async (): Promise<void> => {
        while (this.#sent < until) {
          this.#sent += 1;
          await this.#one(rollout);
        }
      };
      await Promise.all(Array.from({ length: concurrency }, worker));
      await this.#check(rollout);
      if (this.#sent >= ((this.#heap.length + 1) * requests) / HEAP_SAMPLES) this.#heap.push(heapInUse());
      if (batchIndex % 20 === 0) onProgress?.(this.#sent);
    }
  }

  figures(): Omit<FuzzFigures, "spoilt_answers" | "faults"> {
    return {
      requests: this.#sent,
      statuses: Object.fromEntries([...this.#statuses].sort(([one], [other]) => (one < other ? -1 : 1))),
      calls: Object.fromEntries(this.#calls),
      roots: this.#roots,
      token_in: this.#tokenIn,
      heap: this.#heap,
    };
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #one(rollout: string): Promise<void> {
    const { dice, url, fault } = this.#parts;
    const { path, body, headers } = this.#request(rollout);
    const leaveAfter = dice.oneIn(8) ? dice.below(30) : REQUEST_WITHIN_MS;
    const leaving = new AbortController();
    const timer = setTimeout(() => leaving.abort(), leaveAfter);
    const { signal } = leaving;
    let status = "gone";
    try {
      const answered = await send(url + path, {
        dispatcher: this.#pool,
        method: "POST",
        headers,
        body,
        signal,
      });
      status = String(answered.statusCode);
      const text = await answered.body.text();
      if (answered.statusCode >= 400 && !isJson(text))
        fault(`${status} at ${path} is no JSON: ${text.slice(0, 200)}`);
      if (status === "200") this.#remember(path, body, text);
      if (answered.statusCode === 500 && text.includes("internal error")) fault(`a bug at ${path}: ${text}`);
    } catch (error) {
      // A stream that broke says so; a call that nobody ended is a fault.
      if (leaveAfter === REQUEST_WITHIN_MS && signal.aborted) fault(`no answer at ${path}: ${String(error)}`);
    }
    clearTimeout(timer);
    this.#statuses.set(status, (this.#statuses.get(status) ?? 0) + 1);
  }

  #request(rollout: string): { path: string; body: Buffer; headers: Record<string, string> } {
    const { dice } = this.#parts;
    const goesOn = dice.oneIn(3);
    const wire = goesOn ? GOING_ON : dice.pick(this.#requests);
    const history = { messages: [...this.#history, { role: "user", content: "Go on." }] };
    const short = { ...wire.body, ...(goesOn ? history : {}), max_tokens: 1 + dice.below(8) };
    const json = dice.oneIn(goesOn ? 2 : 5) ? short : mutateJson(short, dice);
    const bytes = Buffer.from(JSON.stringify(json) ?? "");
    const { authorization: _authorization, "x-api-key": _key, "content-type": _type, ...kept } = wire.headers;
    const headers: Record<string, string> = { ...kept };
    if (dice.oneIn(20))
      headers["content-encoding"] = dice.pick(["gzip", "br", "zstd", "deflate", "lzma", "identity"]);
    if (dice.oneIn(10)) headers["idempotency-key"] = dice.pick(["a", "b", "c"]);
    if (dice.oneIn(20)) headers["x-coppice-parent"] = dice.pick(["nobody", "call-1", "chatcmpl-1:0"]);
    if (dice.oneIn(20)) headers["x-coppice-class"] = dice.pick(["main", "title", "nonsense"]);
    const path = wire.path.replace("ROLLOUT", rollout);
    return { path, headers, body: dice.oneIn(6) ? mutateBytes(bytes, dice) : bytes };
  }

  /** What came back whole is the past of a request to come. */
  #remember(path: string, body: Buffer, text: string): void {
    if (!path.includes("/chat/completions") || !isJson(text)) return;
    const answer = (JSON.parse(text) as { readonly choices?: readonly { readonly message?: unknown }[] })
      .choices;
    const asked = JSON.parse(body.toString()) as { readonly messages: readonly unknown[] };
    this.#history = [...asked.messages, answer?.[0]?.message ?? null].slice(0, MAX_HISTORY);
  }

  /** Every record verifies, and the rollout is complete; then it goes, so that what stays in memory is a leak. */
  async #check(rollout: string): Promise<void> {
    const { ledger, fault } = this.#parts;
    const key = { rolloutId: rolloutId(rollout), attempt: null };
    let known = await ledger.rollout(key);
    for (let tries = 0; known !== null && isOpen(known.counts) && tries < 200; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      known = await ledger.rollout(key);
    }
    this.#history = [];
    if (known === null) return;
    if (isOpen(known.counts)) fault(`${rollout} is not complete: ${JSON.stringify(known.counts)}`);
    const calls = await ledger.calls(key);
    const corrupt = checkRecords(calls);
    if (corrupt !== null) fault(`${rollout}: ${corrupt.detail}`);
    for (const call of calls) {
      const kind = call.status === "committed" && call.untrainable !== null ? "untrainable" : call.status;
      this.#calls.set(kind, (this.#calls.get(kind) ?? 0) + 1);
      if (call.parentCallId === null) this.#roots += 1;
      if (call.way === "token-in") this.#tokenIn += 1;
    }
    await fetch(`${this.#parts.url}/rollouts/${rollout}`, { method: "DELETE" });
  }
}

function isOpen(counts: { admitted: number; committed: number; failed: number; aborted: number }): boolean {
  return counts.admitted !== counts.committed + counts.failed + counts.aborted;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}

function heapInUse(): number {
  collect();
  collect();
  return process.memoryUsage().heapUsed;
}
