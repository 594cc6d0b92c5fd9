// `coppice view ROLLOUT --export FILE`: one rollout's page as one file that opens without a server.
import { readFileSync } from "node:fs";
import { Command, Option } from "commander";
import { vllmEngine } from "../engine/vllm.ts";
import type { Engine } from "../engine/engine.ts";
import { ledgerSource } from "../page/page-source.ts";
import { savePage } from "../page/save-page.ts";
import { TokenTexts } from "../page/token-texts.ts";
import { ledgerOption, openForReading } from "./open-ledger.ts";
import { startProgress } from "./progress.ts";
import { writeLines } from "./write-lines.ts";

interface ViewOptions {
  readonly ledger?: string;
  readonly export: string;
  readonly engine?: string;
}

export function viewCommand(): Command {
  return new Command("view")
    .description(
      "save a rollout's page as one HTML file: its forest, calls and rows, to be opened without a server",
    )
    .argument("<rollout>", "the rollout's id")
    .addOption(ledgerOption())
    .requiredOption("--export <file>", "write here (complete or absent)")
    .addOption(
      new Option("--engine <url>", "tells the texts of tokens; without it they have their ids").env(
        "COPPICE_ENGINE",
      ),
    )
    .action(saveRollout);
}

async function saveRollout(rollout: string, options: ViewOptions): Promise<void> {
  const ledger = await openForReading(options.ledger);
  const engine: Engine | null =
    options.engine === undefined ? null : vllmEngine({ url: options.engine, logprobsMode: "raw" });
  const progress = startProgress();
  try {
    progress.update(`reading ${rollout}`);
    const page = await savePage(rollout, {
      source: ledgerSource(ledger),
      texts: new TokenTexts(engine),
      savedAt: Date.now(),
      product: product(),
    });
    await writeLines([page], options.export);
  } finally {
    progress.done();
    await engine?.close();
    await ledger.close();
  }
}

function product(): string {
  const file = new URL("../../package.json", import.meta.url);
  const { name, version } = JSON.parse(readFileSync(file, "utf8")) as { name: string; version: string };
  return `${name} ${version}`;
}
