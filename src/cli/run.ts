// `coppice run -- CMD...`: one rollout of an agent that knows nothing of Coppice. Opens the rollout, runs the command
// with the variables that agents read their base URL from, and posts the outcome: the reward from its exit code, a file or
// a flag; what was kept from the agent's own word, its transcript, or inferred strictly.
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Command, InvalidArgumentError, Option } from "commander";
import { AgentError, openRollout, postOutcome, readTranscriptText, type Reference } from "../agent/index.ts";
import { CoppiceError, messageOf } from "../errors.ts";
import { agentVariables, startFolder, type AgentFolder, type KnownAgent } from "./agent-folder.ts";
import { runChild, type Ended } from "./run-child.ts";
import { UsageError } from "./usage.ts";

interface RunOptions {
  readonly gateway: string;
  readonly key?: string;
  readonly rollout?: string;
  readonly group?: string;
  readonly groupSize?: number;
  readonly generationIndex?: number;
  readonly model: string;
  readonly agent?: KnownAgent;
  readonly reward?: number;
  readonly rewardFile?: string;
  readonly accepted?: string;
  readonly transcript?: string;
  readonly infer: boolean;
  readonly timeout?: number;
}

/** What an agent may write to the file that COPPICE_OUTCOME names. */
interface Told {
  readonly reward?: number;
  readonly accepted?: readonly Reference[];
  readonly final?: Reference;
  readonly failed?: string;
}

export function runCommand(): Command {
  return new Command("run")
    .description("run an agent as one rollout: open it, set the variables that agents read, post the outcome")
    .argument("<command...>", "the agent and its arguments, behind --")
    .addOption(
      new Option("--gateway <url>", "the gateway's address")
        .env("COPPICE_GATEWAY")
        .default("http://127.0.0.1:8790"),
    )
    .addOption(new Option("--key <key>", "a key for the gateway, where it needs one").env("COPPICE_KEY"))
    .option("--rollout <id>", "the rollout's id (default: a new one)")
    .option("--group <id>", "the group whose rewards are compared")
    .option("--group-size <n>", "rollouts in the group", whole(1))
    .option("--generation-index <n>", "the rollout's place in its group", whole(0))
    .option("--model <name>", "the name that agents are told; any name is the policy", "policy")
    .addOption(
      new Option("--agent <name>", "write this agent's configuration and read its transcript").choices([
        "pi",
        "codex",
      ]),
    )
    .option("--reward <number>", "the reward (default: 1 where the command ends with 0, else 0)", number)
    .option("--reward-file <file>", "the command writes its reward there, a number")
    .option("--accepted <file>", "the command writes the accepted ids there, one a line or as a JSON list")
    .option("--transcript <file>", "the command leaves its messages or items there, as JSON or JSON Lines")
    .option("--no-infer", "where nothing says what was kept, leave the rollout open and end with 1")
    .option("--timeout <seconds>", "end the command after so long; the rollout has failed then", whole(1))
    .addHelpText(
      "after",
      "\nThe command may also write its outcome as JSON to the file that COPPICE_OUTCOME names.\n" +
        "\nExample:\n  coppice run --group task7 --generation-index 0 -- python my_agent.py",
    )
    .action(run);
}

async function run(command: readonly string[], options: RunOptions): Promise<void> {
  const sources = [options.reward, options.rewardFile].filter((one) => one !== undefined);
  if (sources.length > 1) throw new UsageError("give --reward or --reward-file, not both");
  if (options.accepted !== undefined && options.transcript !== undefined) {
    throw new UsageError("give --accepted or --transcript, not both");
  }
  const id = options.rollout ?? `run-${randomUUID()}`;
  const gateway = {
    gatewayUrl: options.gateway,
    ...(options.key === undefined ? {} : { apiKey: options.key }),
  };
  const opened = await openRollout(id, fieldsOf(options), gateway);
  const key = typeof opened["client_key"] === "string" ? opened["client_key"] : (options.key ?? "coppice");
  const place = { gatewayUrl: options.gateway, rolloutId: id, key, model: options.model };
  const folder = await startFolder(options.agent ?? null, place);
  try {
    const env = { ...process.env, ...agentVariables(place, folder) };
    const ended = await runChild(command, env, options.timeout ?? null);
    const outcome = await outcomeOf(ended, options, folder);
    if (outcome === null) {
      throw new CoppiceError(
        "unprocessable",
        `nothing says what ${id} kept, and --no-infer was given: it stays open`,
      );
    }
    const sealed = await postOutcome(id, outcome, gateway);
    report(id, sealed, outcome, ended);
  } finally {
    await folder.remove();
  }
}

function fieldsOf({ group, groupSize, generationIndex }: RunOptions): Parameters<typeof openRollout>[1] {
  return {
    ...(group === undefined ? {} : { groupId: group }),
    ...(groupSize === undefined ? {} : { groupSize }),
    ...(generationIndex === undefined ? {} : { generationIndex }),
  };
}

type Outcome = Parameters<typeof postOutcome>[1];

/** Null: nothing says what was kept, and it is not to be inferred. */
async function outcomeOf(ended: Ended, options: RunOptions, folder: AgentFolder): Promise<Outcome | null> {
  if (ended.kind === "killed") return { failed: ended.why };
  const told = await toldIn(folder.outcomeFile);
  if (told.failed !== undefined) return { failed: told.failed };
  const fromExit =
    told.reward === undefined && options.reward === undefined && options.rewardFile === undefined;
  if (!fromExit && ended.code !== 0 && told.reward === undefined) {
    return { failed: `the command ended with ${ended.code}` };
  }
  const reward =
    told.reward ?? options.reward ?? (await rewardIn(options.rewardFile)) ?? (ended.code === 0 ? 1 : 0);
  if (told.accepted !== undefined || told.final !== undefined) {
    return {
      reward,
      ...(told.accepted === undefined ? {} : { accepted: told.accepted }),
      ...(told.final === undefined ? {} : { final: told.final }),
    };
  }
  const accepted = await acceptedIn(options, folder);
  if (accepted !== null) return { reward, accepted };
  return options.infer ? { reward, infer: true } : null;
}

async function acceptedIn(
  { accepted, transcript }: RunOptions,
  folder: AgentFolder,
): Promise<readonly Reference[] | null> {
  if (accepted !== undefined) return idsIn(await fileText(accepted), accepted);
  const file = transcript ?? (await folder.transcript());
  if (file === null) return null;
  try {
    return readTranscriptText(await fileText(file)).accepted;
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    throw new CoppiceError("unprocessable", `${file}: ${error.message}`, { cause: error });
  }
}

function idsIn(text: string, file: string): readonly string[] {
  if (!text.trimStart().startsWith("[")) return text.split(/\s+/).filter((id) => id !== "");
  const list = parseJson(text, file);
  if (Array.isArray(list) && list.every((id) => typeof id === "string")) return list;
  throw new CoppiceError("unprocessable", `${file} is no JSON list of ids`);
}

async function toldIn(file: string): Promise<Told> {
  const text = await readFile(file, "utf8");
  if (text.trim() === "") return {};
  const told = parseJson(text, "COPPICE_OUTCOME");
  if (typeof told === "object" && told !== null && !Array.isArray(told)) return told;
  throw new CoppiceError("unprocessable", "the file that COPPICE_OUTCOME names is no JSON object");
}

async function rewardIn(file: string | undefined): Promise<number | undefined> {
  if (file === undefined) return undefined;
  const text = (await fileText(file)).trim();
  const reward = Number(text);
  if (text !== "" && Number.isFinite(reward)) return reward;
  throw new CoppiceError("unprocessable", `${file} has "${text.slice(0, 80)}"; it must be a number`);
}

async function fileText(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    const why = `the command left no ${file}, and the rollout stays open: ${messageOf(cause)}`;
    throw new CoppiceError("unprocessable", why, { cause });
  }
}

function parseJson(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CoppiceError("unprocessable", `${file} is no JSON: ${messageOf(cause)}`, { cause });
  }
}

function report(id: string, sealed: Readonly<Record<string, unknown>>, outcome: Outcome, ended: Ended): void {
  const refusal = sealed["refusal"] as { readonly reason: string; readonly detail: string } | null;
  const how =
    outcome.accepted === undefined
      ? outcome.infer === true
        ? "inferred"
        : "as told"
      : `${outcome.accepted.length} accepted`;
  const worth =
    refusal === null ? `reward ${outcome.reward}, ${how}` : `refused: ${refusal.reason}: ${refusal.detail}`;
  process.stderr.write(`coppice: rollout ${id} is sealed; ${worth}\n`);
  if (ended.kind === "exited" && ended.code !== 0) process.exitCode = ended.code;
  else if (refusal !== null) process.exitCode = 1;
}

function whole(min: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (Number.isSafeInteger(value) && value >= min) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${min} up.`);
  };
}

function number(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && Number.isFinite(value)) return value;
  throw new InvalidArgumentError("It must be a number.");
}
