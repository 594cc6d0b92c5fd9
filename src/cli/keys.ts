// `coppice keys add|list|revoke`: the key file of `coppice serve --keys`. A key is shown once, when it is made; the file
// has its hash (gateway/key-file.ts). A running gateway takes changes up within a second.
import { Command, InvalidArgumentError, Option } from "commander";
import { addKey, readKeyFile, revokeKey, type FileKey } from "../gateway/key-file.ts";
import { UsageError } from "./usage.ts";

interface KeysOptions {
  readonly keys?: string;
}

interface AddOptions extends KeysOptions {
  readonly operator?: boolean;
  readonly rollout?: string;
  readonly group?: string;
  readonly label?: string;
}

export function keysCommand(): Command {
  return new Command("keys")
    .description("make, list and revoke the keys that a gateway knows by their hashes")
    .addCommand(
      new Command("add")
        .description("make a key and print it, once; a client key unless --operator is given")
        .addOption(fileOption())
        .option("--operator", "for trainers and people: reads, deletes and sets weights too")
        .addOption(new Option("--rollout <id>", "a client key for this rollout alone").argParser(id))
        .addOption(new Option("--group <id>", "a client key for this group's rollouts alone").argParser(id))
        .addOption(new Option("--label <text>", "a word for the list, e.g. whose it is").argParser(label))
        .action(add),
    )
    .addCommand(new Command("list").description("list the keys").addOption(fileOption()).action(list))
    .addCommand(
      new Command("revoke")
        .description("let a key in no more")
        .argument("<id>", "as `coppice keys list` has it")
        .addOption(fileOption())
        .action((keyId: string, options: KeysOptions) => {
          revokeKey(fileOf(options), keyId);
          process.stdout.write(`${keyId} is revoked\n`);
        }),
    );
}

function add(options: AddOptions): void {
  const bound = [options.rollout, options.group].filter((one) => one !== undefined);
  if (bound.length > 1) throw new UsageError("give --rollout or --group, not both");
  if (options.operator === true && bound.length > 0) {
    throw new UsageError("an operator key is bound to nothing: leave --rollout and --group away");
  }
  const { id: keyId, secret } = addKey(fileOf(options), {
    kind: options.operator === true ? "operator" : "client",
    rolloutId: options.rollout ?? null,
    groupId: options.group ?? null,
    label: options.label ?? null,
  });
  // The key alone on standard output, so that a script can take it.
  process.stderr.write(`${keyId} is added; its key is not shown again:\n`);
  process.stdout.write(`${secret}\n`);
}

function list(options: KeysOptions): void {
  for (const key of readKeyFile(fileOf(options))) {
    process.stdout.write(`${[key.id, key.kind, boundTo(key), stateOf(key), key.label ?? ""].join("\t")}\n`);
  }
}

function boundTo({ rolloutId, groupId }: FileKey): string {
  if (rolloutId !== null) return `rollout ${rolloutId}`;
  return groupId === null ? "all" : `group ${groupId}`;
}

function stateOf({ addedAt, revokedAt }: FileKey): string {
  return revokedAt === null ? `added ${addedAt}` : `revoked ${revokedAt}`;
}

function fileOption(): Option {
  return new Option("--keys <file>", "the key file").env("COPPICE_KEYS");
}

function fileOf({ keys }: KeysOptions): string {
  if (keys === undefined) throw new UsageError("give --keys FILE (or COPPICE_KEYS)");
  return keys;
}

function id(text: string): string {
  if (!/^[A-Za-z0-9._:@+-]{1,200}$/.test(text)) {
    throw new InvalidArgumentError("It must be 1 to 200 letters, digits or . _ : @ + -.");
  }
  return text;
}

function label(text: string): string {
  if (text.length > 200) throw new InvalidArgumentError("It must be 200 characters at most.");
  return text;
}
