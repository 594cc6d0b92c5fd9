// `coppice start`: everything on this machine, to look at and to try an agent against: the stand-in model, the gateway,
// the page, and the worked example played through them. What it records is gone when it ends, unless a ledger is named.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command, InvalidArgumentError, Option } from "commander";
import { startStandIn } from "../engine/stand-in.ts";
import { vllmEngine } from "../engine/vllm.ts";
import { jsonLog, type Log } from "../gateway/log.ts";
import { startGateway } from "../gateway/server.ts";
import { openSqliteLedger } from "../ledger/sqlite-ledger.ts";
import { registerPage } from "../page/register-page.ts";
import { playShortRollout, playWholeRollout } from "./demo-agent.ts";
import { workedExample } from "./demo-task.ts";

interface StartOptions {
  readonly port: number;
  readonly ledger?: string;
}

export function startCommand(): Command {
  return new Command("start")
    .description("run the gateway with a stand-in model, the worked example and the page, to look around")
    .addOption(
      new Option("--port <port>", "port to listen on; 0 takes a free one")
        .env("COPPICE_PORT")
        .default(8790)
        .argParser(portNumber),
    )
    .option("--ledger <file>", "keep what is recorded in this SQLite file (by default it is gone at the end)")
    .action(start);
}

function portNumber(text: string): number {
  const port = Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new InvalidArgumentError("It must be a whole number from 0 to 65535.");
  }
  return port;
}

async function start(options: StartOptions): Promise<void> {
  const running = await startAll(options, jsonLog());
  process.stdout.write(
    `Coppice shows its page at ${running.url}/page/ (the worked example: ${running.url}/page/#/example/off)\n` +
      `Agents use the base URL ${running.url}/r/ROLLOUT/v1 and any model name. Ctrl-C ends it.\n`,
  );
  await new Promise<void>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => resolve());
  });
  await running.close();
}

export interface Running {
  readonly url: string;
  readonly close: () => Promise<void>;
}

/** Starts all of it and plays the worked example once, unless the ledger has it. Closes what was opened if one fails. */
export async function startAll({ port, ledger: file }: StartOptions, log: Log): Promise<Running> {
  const closing: (() => Promise<unknown>)[] = [];
  const close = async (): Promise<void> => {
    for (const one of closing.splice(0).reverse()) await one();
  };
  try {
    const standIn = await startStandIn({ mode: "counters" });
    closing.push(() => standIn.close());
    const engine = vllmEngine({ url: standIn.url, logprobsMode: "raw" });
    closing.push(() => engine.close());
    const ledger = await openSqliteLedger(file ?? (await temporaryLedger(closing)));
    closing.push(() => ledger.close());
    const gateway = await startGateway({
      engine,
      ledger,
      host: "127.0.0.1",
      port,
      log,
      extend: (routes) => registerPage(routes, { ledger, engine, log }),
    });
    closing.push(() => gateway.close());
    if ((await ledger.rollouts({ limit: 1 })).length === 0) await playExample(gateway.url);
    return { url: gateway.url, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function temporaryLedger(closing: (() => Promise<unknown>)[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "coppice-"));
  closing.push(() => rm(folder, { recursive: true }));
  return join(folder, "ledger.db");
}

const PLAY_WITHIN_MS = 30_000;

async function playExample(gatewayUrl: string): Promise<void> {
  const group = {
    gatewayUrl,
    model: "policy",
    mode: "on",
    signal: AbortSignal.timeout(PLAY_WITHIN_MS),
  } as const;
  await playWholeRollout(group, workedExample("r0", 0));
  await playShortRollout(group, workedExample("r1", 1));
}
