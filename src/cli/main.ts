#!/usr/bin/env node
// The `coppice` program: finds the command, runs it, turns what it throws into one line and an exit code.
// Exit codes: 0 done, 1 it did not work (one line on stderr says why), 2 wrong usage. Each command is a file here.
import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { CoppiceError, messageOf } from "../errors.ts";
import { demoCommand } from "./demo.ts";
import { doctorCommand } from "./doctor.ts";
import { exportCommand } from "./export.ts";
import { importCommand } from "./import.ts";
import { keysCommand } from "./keys.ts";
import { rowsCommand } from "./rows.ts";
import { runCommand } from "./run.ts";
import { serveCommand } from "./serve.ts";
import { showCommand } from "./show.ts";
import { startCommand } from "./start.ts";
import { sweepCommand } from "./sweep.ts";
import { UsageError } from "./usage.ts";
import { verifyCommand } from "./verify.ts";
import { viewCommand } from "./view.ts";

function version(): string {
  const file = new URL("../../package.json", import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}

function program(): Command {
  const coppice = new Command("coppice")
    .description(
      "Records every model call of an agent's rollout with the token ids and log-probs that were really sampled, " +
        "and hands the trainer exact rows.",
    )
    .version(version(), "-v, --version")
    .showHelpAfterError("(see coppice --help)")
    .configureHelp({ showGlobalOptions: true });
  for (const command of [
    serveCommand(),
    runCommand(),
    demoCommand(),
    startCommand(),
    showCommand(),
    viewCommand(),
    rowsCommand(),
    exportCommand(),
    importCommand(),
    verifyCommand(),
    sweepCommand(),
    doctorCommand(),
    keysCommand(),
  ]) {
    coppice.addCommand(command);
  }
  // Subcommands inherit none of this: without it commander ends the process itself, with code 1 for wrong usage.
  const nested = coppice.commands.flatMap(({ commands }) => commands);
  for (const command of [coppice, ...coppice.commands, ...nested]) command.exitOverride();
  return coppice;
}

/** Runs the program and gives the exit code. */
async function run(argv: readonly string[]): Promise<number> {
  try {
    await program().parseAsync(argv);
    return process.exitCode === undefined ? 0 : Number(process.exitCode);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (error instanceof UsageError) {
      process.stderr.write(`coppice: ${error.message}\n`);
      return 2;
    }
    const known = error instanceof CoppiceError || (error instanceof Error && "code" in error);
    process.stderr.write(`coppice: ${known || !(error instanceof Error) ? messageOf(error) : error.stack}\n`);
    return 1;
  }
}

// A reader that has seen enough (`coppice rows ... | head`) is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  process.stderr.write(`coppice: can't write to standard output: ${messageOf(error)}\n`);
  process.exit(1);
});

process.exitCode = await run(process.argv);
