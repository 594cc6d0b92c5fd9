// The page at size, in a real Chromium over a real gateway and SQLite: 100,000 calls in one rollout, 2,000 rollouts in
// the list, a call of 128k tokens. Told: milliseconds from asking for the page until its lines are there, long tasks
// (above 50 ms) while scrolling, the script's bytes. After a build: node bench/page.mjs. Ends with one JSON line.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import chromium from "@sparticuz/chromium";
import { chromium as playwright } from "playwright-core";
import { startStandIn } from "../dist/engine/stand-in.js";
import { vllmEngine } from "../dist/engine/vllm.js";
import { startGateway } from "../dist/gateway/server.js";
import { openSqliteLedger } from "../dist/ledger/sqlite-ledger.js";
import { recordCall, RolloutIndex } from "../dist/lineage/record-call.js";
import { registerPage } from "../dist/page/register-page.js";
import { machine, round, spread } from "./measure.mjs";

const CALLS = 100_000;
const CHAINS = 1000;
const ROLLOUTS = 2000;
const CALLS_EACH = 6;
const GROUP = 8;
const LONG = 128 * 1024;
const ROUNDS = 5;

const tokens = (length, seed) =>
  Uint32Array.from({ length }, (_none, at) => (seed * 7919 + at * 104_729) % 900_000);

function captured(rolloutId, callId, { admittedOrder, attempt }, prompt, generated) {
  return {
    rolloutId,
    attempt,
    callId,
    responseId: `resp-${callId}`,
    status: "committed",
    statusDetail: null,
    admittedOrder,
    admittedAt: Date.now(),
    settledAt: Date.now() + 800,
    namedParent: null,
    promptTokenIds: prompt,
    generatedTokenIds: generated,
    generatedLogprobs: Float32Array.from(generated, (id) => -((id % 97) / 40)),
    mediaDigests: [],
    finishReason: "stop",
    untrainable: null,
    weightVersions: [{ version: "1", start: 0 }],
    way: "text",
    notes: [],
    sampling: { asked: {}, used: {} },
    logprobsMode: "raw",
    agent: null,
    class: null,
    messages: null,
    answer: null,
  };
}

/** One call under each of `chains`, all at once; their sequences grow. Returns the call ids. */
async function step(ledger, rolloutId, index, chains, turn) {
  const ids = chains.map((_none, at) => `${rolloutId}-${turn}-${at}`);
  const admitted = await ledger.admit(
    ids.map((callId) => ({
      rolloutId,
      callId,
      responseId: null,
      admittedAt: Date.now(),
      agent: null,
      class: null,
    })),
  );
  const settled = await Promise.all(
    ids.map((callId, at) => {
      const prompt = Uint32Array.of(...chains[at], ...tokens(8, turn * 31 + at));
      const generated = tokens(12, turn * 17 + at * 3);
      const call = captured(rolloutId, callId, admitted[at], prompt, generated);
      chains[at] = Uint32Array.of(...prompt, ...generated);
      return ledger.settle(recordCall(call, index.place(call), null));
    }),
  );
  for (const { call } of settled) index.add(call);
  return ids;
}

async function fill(ledger) {
  const index = new RolloutIndex();
  const chains = Array.from({ length: CHAINS }, (_none, at) => Uint32Array.of(at));
  for (let turn = 0; turn < CALLS / CHAINS; turn++) await step(ledger, "large", index, chains, turn);
  for (let from = 0; from < ROLLOUTS; from += 50) {
    await Promise.all(Array.from({ length: 50 }, (_none, at) => fillSmall(ledger, from + at)));
  }
  const [admitted] = await ledger.admit([
    {
      rolloutId: "long",
      callId: "long-call",
      responseId: null,
      admittedAt: Date.now(),
      agent: null,
      class: null,
    },
  ]);
  const call = captured("long", "long-call", admitted, tokens(LONG, 1), tokens(512, 2));
  await ledger.settle(recordCall(call, new RolloutIndex().place(call), null));
}

async function fillSmall(ledger, number) {
  const rolloutId = `rollout-${number}`;
  const index = new RolloutIndex();
  const chains = [Uint32Array.of(number)];
  let last = "";
  for (let turn = 0; turn < CALLS_EACH; turn++) [last] = await step(ledger, rolloutId, index, chains, turn);
  const place = { groupId: `group-${Math.floor(number / GROUP)}`, generationIndex: number % GROUP };
  await ledger.seal(
    {
      rolloutId,
      ...place,
      reward: (number % 3) / 2,
      accepted: null,
      final: last,
      failed: null,
      infer: false,
    },
    Date.now(),
  );
}

/** Milliseconds until `lines` are there, and what scrolling through all of it cost. */
async function look(browser, url, lines, scroller) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  await page.goto(url);
  await page.waitForSelector(lines);
  const openMs = await page.evaluate("performance.now()");
  // The page's policy forbids what waits for a condition in the page, so it is asked from here.
  while (await page.evaluate("/reading|measuring/.test(document.body.textContent)"))
    await page.waitForTimeout(20);
  const wholeMs = await page.evaluate("performance.now()");
  await page.waitForTimeout(1000);
  await browser.startTracing(page, { categories: ["toplevel"] });
  const scrolled = await page.evaluate(`(${scrollThrough.toString()})(${JSON.stringify(scroller)})`);
  const cpu = longestCpuMs(await browser.stopTracing());
  await context.close();
  return { openMs, wholeMs, scrolled: { ...scrolled, ...cpu } };
}

/** Runs in the page: a slow scroll of 240 frames, then 40 leaps to anywhere. */
async function scrollThrough(scroller) {
  const box = globalThis.document.querySelector(scroller);
  const tasks = [];
  const observer = new globalThis.PerformanceObserver((list) =>
    tasks.push(...list.getEntries().map((entry) => entry.duration)),
  );
  observer.observe({ type: "longtask" });
  const frame = () => new Promise((resolve) => globalThis.requestAnimationFrame(resolve));
  const gaps = [];
  let before = performance.now();
  const tick = async () => {
    await frame();
    const now = performance.now();
    gaps.push(now - before);
    before = now;
  };
  for (let at = 0; at < 240; at++) {
    box.scrollTop += 120;
    await tick();
  }
  for (let at = 0; at < 40; at++) {
    box.scrollTop = ((at * 0.618) % 1) * box.scrollHeight;
    await tick();
  }
  await new Promise((resolve) => setTimeout(resolve, 300));
  observer.disconnect();
  const worst = gaps.toSorted((one, other) => other - one);
  return {
    longTasks: tasks.length,
    longestTaskMs: Math.max(0, ...tasks),
    frameP99Ms: worst[Math.floor(gaps.length / 100)],
    height: box.scrollHeight,
  };
}

/** Tasks of the page's main thread by the time that they had a processor, which other programs do not add to. */
function longestCpuMs(trace) {
  const { traceEvents } = JSON.parse(trace.toString());
  const mains = new Set(
    traceEvents.flatMap((event) =>
      event.name === "thread_name" && event.args.name === "CrRendererMain"
        ? [`${event.pid} ${event.tid}`]
        : [],
    ),
  );
  const tasks = traceEvents
    .filter((event) => event.ph === "X" && event.tdur !== undefined && mains.has(`${event.pid} ${event.tid}`))
    .map((event) => event.tdur / 1000);
  return {
    longCpuTasks: tasks.filter((ms) => ms > 50).length,
    longestCpuTaskMs: tasks.reduce((most, ms) => Math.max(most, ms), 0),
  };
}

async function several(browser, url, lines, scroller) {
  const seen = [];
  for (let turn = 0; turn < ROUNDS; turn++) seen.push(await look(browser, url, lines, scroller));
  const open = spread(seen.map(({ openMs }) => openMs));
  const whole = spread(seen.map(({ wholeMs }) => wholeMs));
  const told = { wholeMs: round(whole.median), openMs: { median: round(open.median), max: round(open.max) } };
  const scrolls = seen.map(({ scrolled }) => scrolled);
  return {
    ...told,
    longTasks: Math.max(...scrolls.map((one) => one.longTasks)),
    longestTaskMs: round(Math.max(...scrolls.map((one) => one.longestTaskMs))),
    longTasksByCpu: Math.max(...scrolls.map((one) => one.longCpuTasks)),
    longestTaskByCpuMs: round(Math.max(...scrolls.map((one) => one.longestCpuTaskMs))),
    frameP99Ms: round(Math.max(...scrolls.map((one) => one.frameP99Ms))),
  };
}

function scriptBytes() {
  const assets = new URL("../dist/page/site/assets/", import.meta.url);
  const name = readdirSync(assets).find((file) => file.endsWith(".js"));
  return gzipSync(readFileSync(new URL(name, assets)), { level: 9 }).length;
}

const folder = mkdtempSync(join(tmpdir(), "coppice-bench-page-"));
const ledger = await openSqliteLedger(join(folder, "ledger.db"));
const standIn = await startStandIn();
const engine = vllmEngine({ url: standIn.url, logprobsMode: "raw" });
const log = () => undefined;
const gateway = await startGateway({
  engine,
  ledger,
  host: "127.0.0.1",
  port: 0,
  log,
  extend: (routes) => registerPage(routes, { ledger, engine, log }),
});
const browser = await playwright.launch({
  executablePath: await chromium.executablePath(),
  args: ["--no-sandbox", "--disable-gpu"],
  headless: true,
});
try {
  const started = performance.now();
  await fill(ledger);
  console.error(`filled in ${round((performance.now() - started) / 1000)} s`);
  const page = `${gateway.url}/page/`;
  const result = {
    bench: "page",
    machine: machine(),
    calls_100k: await several(browser, `${page}#/rollout/large`, "[role=treeitem]", ".forest"),
    rollouts_2000: await several(browser, page, ".table-lines .name", ".table-lines"),
    tokens_128k: await several(browser, `${page}#/rollout/long/call/long-call`, ".token", ".page-scroll"),
    script_gzip_bytes: scriptBytes(),
  };
  console.log(JSON.stringify(result));
} finally {
  await browser.close();
  await gateway.close();
  await ledger.close();
  await engine.close();
  await standIn.close();
  rmSync(folder, { recursive: true });
}
