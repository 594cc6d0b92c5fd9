// `coppice doctor`: which engine stands behind a URL, what it can do for the gateway, what it cannot, and the flags to
// start it with so that it can. Exit code 1 where no answer of it could train.
import { Command, Option } from "commander";
import { ENGINE_KINDS, type EngineKind } from "../engine/connect.ts";
import { examineEngine, type Examination } from "../engine/examine.ts";

interface DoctorOptions {
  readonly engine: string;
  readonly engineKey?: string;
  readonly engineKind?: EngineKind;
  readonly model?: string;
  readonly json?: boolean;
}

export function doctorCommand(): Command {
  return new Command("doctor")
    .description("find out what an engine can do, and how to start it so that it can more")
    .addOption(
      new Option("--engine <url>", "the inference engine").env("COPPICE_ENGINE").makeOptionMandatory(),
    )
    .addOption(
      new Option("--engine-key <key>", "sent to the engine as a bearer token").env("COPPICE_ENGINE_KEY"),
    )
    .addOption(engineKindOption())
    .option("--model <name>", "the policy's name at the engine (default: the first it lists)")
    .option("--json", "print one JSON object")
    .addHelpText("after", "\nExample:\n  coppice doctor --engine http://127.0.0.1:8000")
    .action(doctor);
}

export function engineKindOption(): Option {
  return new Option("--engine-kind <kind>", "what the engine is (default: found out by asking it)")
    .choices(ENGINE_KINDS)
    .env("COPPICE_ENGINE_KIND");
}

async function doctor(options: DoctorOptions): Promise<void> {
  const examination = await examineEngine({
    url: options.engine,
    ...(options.engineKey === undefined ? {} : { apiKey: options.engineKey }),
    ...(options.engineKind === undefined ? {} : { kind: options.engineKind }),
    ...(options.model === undefined ? {} : { model: options.model }),
  });
  const printed = options.json === true ? `${JSON.stringify(asJson(examination))}\n` : report(examination);
  process.stdout.write(printed);
  if (examination.way === null) process.exitCode = 1;
}

/** For programs: snake_case. */
export function asJson(found: Examination): Readonly<Record<string, unknown>> {
  return {
    url: found.url,
    engine: found.kind,
    version: found.version,
    models: found.models.map(({ id, maxModelLength }) => ({ id, max_model_len: maxModelLength })),
    abilities: Object.fromEntries(found.abilities.map(({ name, able, says }) => [name, { able, says }])),
    way: found.way,
    start_with: found.startWith,
  };
}

/** For people: a line a fact. */
export function report(found: Examination): string {
  if (found.kind === null) return `${found.url}: nothing answers there; is the engine running?\n`;
  const lines = [
    line("engine", `${found.kind}${found.version === null ? "" : ` ${found.version}`} at ${found.url}`),
    ...found.models.map(({ id, maxModelLength }) =>
      line("model", maxModelLength === null ? id : `${id} (${maxModelLength} tokens)`),
    ),
    ...found.abilities.map(({ name, able, says }) =>
      line(able ? "can" : "cannot", `${name.replaceAll("_", "-")}: ${says}`),
    ),
    line(
      "way",
      found.way === null ? "none: no answer of this engine could train" : `--way auto takes ${found.way}`,
    ),
    ...(found.startWith === null ? [] : [line("start with", found.startWith)]),
  ];
  return `${lines.join("\n")}\n`;
}

function line(head: string, text: string): string {
  return `${head.padEnd(12)}${text}`;
}
