// The page in a real Chromium, as a person uses it: one browser for all, the page as it was built. What is done is in
// the files beside this one.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe } from "vitest";
import { startPageServer, type PageServer } from "../../src/page/testing/page-server.ts";
import { SampleTokenizer } from "../../src/page/testing/sample-tokenizer.ts";
import {
  hostileTrace,
  SampleRollout,
  sampleTrace,
  type TraceValue,
} from "../../src/page/testing/sample-trace.ts";
import { startBrowser } from "./browser.ts";
import { keyboardTests } from "./keyboard.ts";
import { rolloutTests } from "./rollouts.ts";
import { safetyTests } from "./safety.ts";
import { savedTests } from "./saved.ts";
import { workedExampleTests } from "./worked-example.ts";

let browser: Browser;
let server: PageServer;
let locked: PageServer;
const tokenizer = new SampleTokenizer();
const growing = new SampleRollout("growing-0", tokenizer);
const history: Record<string, unknown>[] = [
  { role: "user", content: "Count up from one, a number an answer." },
];
let turns = 0;

function nextCall(): TraceValue {
  turns += 1;
  growing.ask({ messages: [...history], answer: String(turns), at: 2_000_000 + turns * 2, took: 1 });
  history.push({ role: "assistant", content: String(turns) }, { role: "user", content: "Go on." });
  return growing.lines.at(-1) as TraceValue;
}

beforeAll(async () => {
  const lines = sampleTrace(tokenizer, 1_000_000);
  server = await startPageServer({
    lines: [...lines, ...hostileTrace(tokenizer, 1_000_100), nextCall(), nextCall(), nextCall()],
    engine: tokenizer,
  });
  locked = await startPageServer({ lines, operatorKeys: ["operator-key"] });
  browser = await startBrowser();
}, 60_000);

afterAll(async () => {
  await browser.close();
  await Promise.all([server.close(), locked.close()]);
});

const given = {
  browser: () => browser,
  url: () => server.url,
  lockedUrl: () => locked.url,
  grow: () => server.grow([nextCall()]),
  end: () =>
    server.grow([
      {
        type: "outcome",
        rollout_id: "growing-0",
        group_id: "growing",
        generation_index: 0,
        reward: 1,
        final: `resp-growing-0-${turns}`,
      },
    ]),
};

describe("the worked example", () => workedExampleTests(given));
describe("rollouts", () => rolloutTests(given));
describe("keys", () => keyboardTests(given));
describe("safety and access", () => safetyTests(given));
describe("a saved page", () => savedTests(given));
