// `coppice serve`: the gateway in the foreground. One line with its address when ready; SIGTERM and SIGINT drain.
import { readFileSync } from "node:fs";
import { Command, InvalidArgumentError, Option } from "commander";
import { connectEngine, type EngineKind } from "../engine/connect.ts";
import { jsonLog } from "../gateway/log.ts";
import { startGateway } from "../gateway/server.ts";
import { traceExportFrom } from "../gateway/trace-export.ts";
import type { Way } from "../gateway/token-in-check.ts";
import { openLedger } from "../ledger/open-ledger.ts";
import { engineKindOption } from "./doctor.ts";
import { registerPage } from "../page/register-page.ts";
import { UsageError } from "./usage.ts";

const MIB = 1024 * 1024;

interface ServeOptions {
  readonly engine: string;
  readonly engineKey?: string;
  readonly engineKind?: EngineKind;
  readonly tokenizer?: string;
  readonly way: Way;
  readonly model?: string;
  readonly modelName?: Readonly<Record<string, string>>;
  readonly blank?: readonly string[];
  readonly ledger: string;
  readonly host: string;
  readonly port: number;
  readonly clientKey?: readonly string[];
  readonly operatorKey?: readonly string[];
  readonly keys?: string;
  readonly allowHost?: readonly string[];
  readonly allowOrigin?: readonly string[];
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly callsInFlight: number;
  readonly callsPerRollout: number;
  readonly callsPerKey?: number;
  readonly callsPerMinute?: number;
  readonly bytesInFlight: number;
  readonly allowUncaptured?: boolean;
  readonly tokensOnly?: boolean;
  readonly callDeadline: number;
  readonly drain: number;
  readonly bodyLimit: number;
  readonly logprobsMode?: "raw" | "processed";
}

export function serveCommand(): Command {
  return new Command("serve")
    .description("run the gateway between agents and an engine")
    .addOption(
      new Option("--engine <url>", "the inference engine")
        .env("COPPICE_ENGINE")
        .argParser(httpUrl)
        .makeOptionMandatory(),
    )
    .addOption(
      new Option("--engine-key <key>", "sent to the engine as a bearer token").env("COPPICE_ENGINE_KEY"),
    )
    .addOption(engineKindOption())
    .addOption(
      new Option(
        "--tokenizer <folder>",
        "the model's tokenizer and chat template, to render with where the engine cannot",
      ).env("COPPICE_TOKENIZER"),
    )
    .addOption(
      new Option("--way <way>", "how the engine is asked: with messages, from token ids, or whichever it can")
        .env("COPPICE_WAY")
        .choices(["text", "token-in", "auto"])
        .default("auto"),
    )
    .addOption(
      new Option("--model <name>", "the policy's name at the engine (default: the first it lists)").env(
        "COPPICE_MODEL",
      ),
    )
    .addOption(
      new Option(
        "--model-name <asked=served>",
        "a name that means another of the engine's models; repeatable",
      ).argParser(modelName),
    )
    .addOption(
      new Option(
        "--blank <pattern>",
        "a regular expression: what it matches in a prompt's lines is taken out for all calls; repeatable",
      )
        .env("COPPICE_BLANK")
        .argParser(lines),
    )
    .addOption(
      new Option(
        "--ledger <file>",
        "where calls are kept: a SQLite file, or postgres://USER:PASSWORD@HOST/DATABASE for many gateways",
      )
        .env("COPPICE_LEDGER")
        .default("coppice.db"),
    )
    .addOption(new Option("--host <host>", "address to listen on").env("COPPICE_HOST").default("127.0.0.1"))
    .addOption(
      new Option("--port <port>", "port to listen on; 0 takes a free one")
        .env("COPPICE_PORT")
        .default(8790)
        .argParser(integer(0, 65_535)),
    )
    .addOption(
      new Option("--client-key <key>", "a key that agents must send; repeatable")
        .env("COPPICE_CLIENT_KEY")
        .argParser(lines),
    )
    .addOption(
      new Option("--operator-key <key>", "a key for trainers and people; repeatable")
        .env("COPPICE_OPERATOR_KEY")
        .argParser(lines),
    )
    .addOption(
      new Option("--keys <file>", "more keys, as `coppice keys` keeps them; read anew when it changes").env(
        "COPPICE_KEYS",
      ),
    )
    .addOption(
      new Option("--tls-cert <file>", "certificate chain (PEM); with --tls-key it speaks HTTPS").env(
        "COPPICE_TLS_CERT",
      ),
    )
    .addOption(new Option("--tls-key <file>", "its private key (PEM)").env("COPPICE_TLS_KEY"))
    .addOption(
      new Option("--allow-host <name>", "a name by which browsers may call the gateway; repeatable")
        .env("COPPICE_ALLOW_HOST")
        .argParser(lines),
    )
    .addOption(
      new Option("--allow-origin <origin>", "another site whose pages may call; repeatable")
        .env("COPPICE_ALLOW_ORIGIN")
        .argParser(lines),
    )
    .option("--allow-uncaptured", "pass calls without a rollout through, unrecorded and counted")
    .option("--tokens-only", "keep tokens, but no messages and no answers")
    .addOption(
      new Option("--call-deadline <seconds>", "the one deadline of a call")
        .env("COPPICE_CALL_DEADLINE")
        .default(3600)
        .argParser(integer(1, 1e6)),
    )
    .addOption(
      new Option("--drain <seconds>", "how long stopping waits for calls in flight")
        .env("COPPICE_DRAIN")
        .default(30)
        .argParser(integer(0, 1e6)),
    )
    .addOption(
      new Option("--body-limit <mib>", "largest request body, in MiB")
        .env("COPPICE_BODY_LIMIT")
        .default(64)
        .argParser(integer(1, 4096)),
    )
    .addOption(
      new Option("--bytes-in-flight <mib>", "bodies of all calls in flight, in MiB; past it a 503")
        .env("COPPICE_BYTES_IN_FLIGHT")
        .default(1024)
        .argParser(integer(1, 1e6)),
    )
    .addOption(
      new Option("--calls-in-flight <n>", "calls at once; past it a 503")
        .env("COPPICE_CALLS_IN_FLIGHT")
        .default(4096)
        .argParser(integer(1, 1e6)),
    )
    .addOption(
      new Option("--calls-per-rollout <n>", "calls of one rollout at once; past it a 429")
        .env("COPPICE_CALLS_PER_ROLLOUT")
        .default(256)
        .argParser(integer(1, 1e6)),
    )
    .addOption(
      new Option("--calls-per-key <n>", "calls of one key at once; past it a 429 (default: no limit)")
        .env("COPPICE_CALLS_PER_KEY")
        .argParser(integer(1, 1e6)),
    )
    .addOption(
      new Option("--calls-per-minute <n>", "calls of one key a minute; past it a 429 (default: no limit)")
        .env("COPPICE_CALLS_PER_MINUTE")
        .argParser(integer(1, 1e9)),
    )
    .addOption(
      new Option("--logprobs-mode <mode>", "which log-probs the engine was started to tell").choices([
        "raw",
        "processed",
      ]),
    )
    .addHelpText(
      "after",
      "\nExample:\n  coppice serve --engine http://127.0.0.1:8000 --ledger run.db\n" +
        "  agents then use the base URL http://127.0.0.1:8790/r/ROLLOUT/v1",
    )
    .action(serve);
}

async function serve(options: ServeOptions): Promise<void> {
  const tls = readTls(options);
  const engine = await connectEngine({
    url: options.engine,
    ...(options.engineKind === undefined ? {} : { kind: options.engineKind }),
    ...(options.logprobsMode === undefined ? {} : { logprobsMode: options.logprobsMode }),
    ...(options.tokenizer === undefined ? {} : { tokenizer: options.tokenizer }),
    ...(options.engineKey === undefined ? {} : { apiKey: options.engineKey }),
  });
  const ledger = await openLedger(options.ledger);
  const log = jsonLog();
  const traces = traceExportFrom(process.env);
  try {
    const gateway = await startGateway({
      engine,
      ledger,
      way: options.way,
      host: options.host,
      port: options.port,
      requireRollout: options.allowUncaptured !== true,
      limits: {
        bodyBytes: options.bodyLimit * MIB,
        bodyBytesInFlight: options.bytesInFlight * MIB,
        callsInFlight: options.callsInFlight,
        callsInFlightPerRollout: options.callsPerRollout,
        callsInFlightPerKey: options.callsPerKey ?? Infinity,
        callsPerMinutePerKey: options.callsPerMinute ?? Infinity,
      },
      callDeadlineMs: options.callDeadline * 1000,
      drainMs: options.drain * 1000,
      log,
      extend: (routes) => registerPage(routes, { ledger, engine, log }),
      capture: { tokensOnly: options.tokensOnly === true },
      clientKeys: options.clientKey ?? [],
      operatorKeys: options.operatorKey ?? [],
      ...(options.keys === undefined ? {} : { keyFile: options.keys }),
      ...(tls === null ? {} : { tls }),
      ...(traces === null ? {} : { traces }),
      allowedHosts: options.allowHost ?? [],
      allowedOrigins: options.allowOrigin ?? [],
      modelNames: options.modelName ?? {},
      blank: options.blank ?? [],
      ...(options.model === undefined ? {} : { model: options.model }),
    });
    process.stdout.write(`coppice listens on ${gateway.url} for ${engine.url}, ledger ${ledger.location}\n`);
    await stopSignal();
    await gateway.close();
  } finally {
    await ledger.close();
    await engine.close();
  }
}

/** Resolves at the first SIGTERM or SIGINT; a second one ends the process at once. */
function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => resolve());
  });
}

function httpUrl(text: string): string {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new InvalidArgumentError("It must be a URL such as http://127.0.0.1:8000.");
  }
  return text;
}

function integer(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < min || value > max) {
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    }
    return value;
  };
}

/** Throws where only one of the two is given, and what reading them throws. */
function readTls({ tlsCert, tlsKey }: ServeOptions): { readonly cert: Buffer; readonly key: Buffer } | null {
  if (tlsCert === undefined && tlsKey === undefined) return null;
  if (tlsCert === undefined || tlsKey === undefined) {
    throw new UsageError("give --tls-cert and --tls-key together, or neither");
  }
  return { cert: readFileSync(tlsCert), key: readFileSync(tlsKey) };
}

/** In the environment, where an option stands once, each line is one. */
function lines(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), ...value.split("\n").filter((line) => line !== "")];
}

function modelName(
  value: string,
  before: Readonly<Record<string, string>> | undefined,
): Readonly<Record<string, string>> {
  const [asked, served] = value.split("=", 2);
  if (asked === undefined || asked === "" || served === undefined || served === "") {
    throw new InvalidArgumentError("It must be ASKED=SERVED.");
  }
  return { ...before, [asked]: served };
}
