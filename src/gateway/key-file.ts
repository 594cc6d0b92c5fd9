// Keys kept in a file: JSON Lines, appended to and never rewritten, each key as the SHA-256 of its text. A key is 192
// random bits, so a plain hash of it can't be searched for. What revokes a key is a line too, so that adding and
// revoking need no lock and the file tells its own history. A running gateway reads it anew once it has changed.
import { createHash, randomBytes } from "node:crypto";
import { appendFileSync, closeSync, fsyncSync, openSync, readFileSync, statSync } from "node:fs";
import { z } from "zod";
import { CoppiceError, messageOf } from "../errors.ts";
import type { Log } from "./log.ts";

export interface FileKey {
  /** Names the key in lists and logs; tells nothing of its text. */
  readonly id: string;
  readonly kind: "client" | "operator";
  /** The one rollout that it may call; null where it is not bound to one. */
  readonly rolloutId: string | null;
  readonly groupId: string | null;
  /** SHA-256 of the key, in hex. */
  readonly sha256: string;
  readonly label: string | null;
  readonly addedAt: string;
  readonly revokedAt: string | null;
}

export type KeyToAdd = Pick<FileKey, "kind" | "rolloutId" | "groupId" | "label">;

const idText = z.string().regex(/^[A-Za-z0-9._:@+-]{1,200}$/);
const keyLine = z.strictObject({
  type: z.literal("key"),
  id: idText,
  kind: z.enum(["client", "operator"]),
  rollout_id: idText.nullable(),
  group_id: idText.nullable(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  label: z.string().max(200).nullable(),
  added_at: z.string(),
});
const revokedLine = z.strictObject({ type: z.literal("revoked"), id: idText, revoked_at: z.string() });
const line = z.discriminatedUnion("type", [keyLine, revokedLine]);

/** All keys of the file, the revoked ones too, as they were added. Throws `invalid_request` naming the bad line. */
export function readKeyFile(path: string): readonly FileKey[] {
  const keys = new Map<string, FileKey>();
  for (const [index, text] of readText(path).split("\n").entries()) {
    if (text.trim() === "") continue;
    const parsed = line.safeParse(jsonOf(text));
    // The text of the line stays out of the message: somebody may have written a key into it.
    if (!parsed.success) throw badLine(path, index, "it is no key and no revocation");
    const entry = parsed.data;
    if (entry.type === "revoked") {
      const key = keys.get(entry.id);
      if (key === undefined) throw badLine(path, index, `it revokes ${entry.id}, which is not above it`);
      keys.set(entry.id, { ...key, revokedAt: key.revokedAt ?? entry.revoked_at });
      continue;
    }
    if (keys.has(entry.id)) throw badLine(path, index, `there is a key ${entry.id} already`);
    keys.set(entry.id, {
      id: entry.id,
      kind: entry.kind,
      rolloutId: entry.rollout_id,
      groupId: entry.group_id,
      sha256: entry.sha256,
      label: entry.label,
      addedAt: entry.added_at,
      revokedAt: null,
    });
  }
  return [...keys.values()];
}

/** Makes a key and gives its text, which is kept nowhere. The file comes into being readable by its owner alone. */
export function addKey(path: string, key: KeyToAdd): { readonly id: string; readonly secret: string } {
  const id = `key-${randomBytes(5).toString("hex")}`;
  const secret = `cpk-${randomBytes(24).toString("base64url")}`;
  appendLine(path, {
    type: "key",
    id,
    kind: key.kind,
    rollout_id: key.rolloutId,
    group_id: key.groupId,
    sha256: createHash("sha256").update(secret).digest("hex"),
    label: key.label,
    added_at: new Date().toISOString(),
  });
  return { id, secret };
}

/** Throws `not_found` for an id that the file does not have; a key that is revoked already stays so. */
export function revokeKey(path: string, id: string): void {
  const key = readKeyFile(path).find((one) => one.id === id);
  if (key === undefined) throw new CoppiceError("not_found", `${path} has no key ${id}`, { param: "id" });
  if (key.revokedAt !== null) return;
  appendLine(path, { type: "revoked", id, revoked_at: new Date().toISOString() });
}

/** How long a change of the file may go unseen, in milliseconds. */
const LOOK_EVERY_MS = 1000;

/** The file's keys that are not revoked, by hash, as they stand within the last second. */
export class KeyFile {
  readonly #path: string;
  readonly #log: Log;
  #keys: ReadonlyMap<string, FileKey>;
  #seen: string;
  #lookedAt: number;

  /** Throws `invalid_request` where the file cannot be read: a gateway must not start with keys it does not know. */
  constructor(path: string, log: Log) {
    this.#path = path;
    this.#log = log;
    this.#seen = stateOf(path);
    this.#keys = validKeys(path);
    this.#lookedAt = performance.now();
  }

  find(sha256: string): FileKey | null {
    this.#look();
    return this.#keys.get(sha256) ?? null;
  }

  /** A file that went bad changes nothing: half of an edit must not lock all agents out. It is logged. */
  #look(): void {
    const now = performance.now();
    if (now - this.#lookedAt < LOOK_EVERY_MS) return;
    this.#lookedAt = now;
    const seen = stateOf(this.#path);
    if (seen === this.#seen) return;
    this.#seen = seen;
    try {
      this.#keys = validKeys(this.#path);
      this.#log("keys_read", { file: this.#path, keys: this.#keys.size });
    } catch (error) {
      this.#log("keys_not_read", { file: this.#path, reason: messageOf(error) });
    }
  }
}

function validKeys(path: string): ReadonlyMap<string, FileKey> {
  const valid = readKeyFile(path).filter(({ revokedAt }) => revokedAt === null);
  return new Map(valid.map((key) => [key.sha256, key]));
}

function stateOf(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? "absent" : `${stat.ino} ${stat.size} ${stat.mtimeMs}`;
}

function appendLine(path: string, entry: object): void {
  const file = openSync(path, "a", 0o600);
  try {
    appendFileSync(file, `${JSON.stringify(entry)}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new CoppiceError("invalid_request", `the key file ${path} can't be read: ${messageOf(error)}`, {
      cause: error,
      param: "keys",
    });
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function badLine(path: string, index: number, what: string): CoppiceError {
  return new CoppiceError("invalid_request", `${path}, line ${index + 1}: ${what}`, { param: "keys" });
}
