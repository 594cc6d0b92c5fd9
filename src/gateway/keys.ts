// Who is calling. Client keys let agents call, open their rollouts and post outcomes; operator keys let trainers read,
// delete and set weights too. A key bound to one rollout is derived from a client key, so that any gateway that has
// the client key knows it; keys of a key file (key-file.ts) say themselves what they are bound to. Keys are compared in
// constant time and never logged; a caller's `key` is a name for limits that tells nothing of the key's text.
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { CoppiceError } from "../errors.ts";
import { rolloutId, type RolloutId } from "../lineage/call.ts";
import type { FileKey, KeyFile } from "./key-file.ts";

export type Caller =
  /** No keys are set: everybody on this machine may do everything, whatever key they send. */
  | { readonly kind: "anyone"; readonly key: null }
  | { readonly kind: "client"; readonly key: string }
  | { readonly kind: "bound"; readonly rolloutId: RolloutId; readonly key: string }
  /** May do for the rollouts of one group what a client may; group-keys.ts asks the ledger which those are. */
  | { readonly kind: "group"; readonly groupId: string; readonly key: string }
  | { readonly kind: "operator"; readonly key: string };

const ANYONE: Caller = { kind: "anyone", key: null };

const BOUND = "cpk.";
const FILED = "filed ";

export class Keyring {
  readonly #clientKeys: readonly string[];
  readonly #clientDigests: readonly Buffer[];
  readonly #operatorDigests: readonly Buffer[];
  readonly #file: Pick<KeyFile, "find"> | null;

  constructor(keys: {
    readonly clientKeys: readonly string[];
    readonly operatorKeys: readonly string[];
    readonly file?: Pick<KeyFile, "find"> | null;
  }) {
    for (const key of [...keys.clientKeys, ...keys.operatorKeys]) {
      if (key.length < 8) {
        throw new CoppiceError(
          "invalid_request",
          `a key of ${key.length} characters is too short; it must have 8`,
        );
      }
    }
    this.#clientKeys = keys.clientKeys;
    this.#clientDigests = keys.clientKeys.map(digest);
    this.#operatorDigests = keys.operatorKeys.map(digest);
    this.#file = keys.file ?? null;
  }

  /** True where no key was set, so that nobody needs one. A key file without keys lets nobody in. */
  get open(): boolean {
    return this.#file === null && this.#clientDigests.length === 0 && this.#operatorDigests.length === 0;
  }

  /** Throws `unauthorized` for no key or one that nobody has. */
  identify(headers: IncomingHttpHeaders): Caller {
    if (this.open) return ANYONE;
    const key = keyOf(headers);
    if (key === null) {
      throw new CoppiceError(
        "unauthorized",
        "no key: send it as `authorization: Bearer KEY` or in `x-api-key`",
      );
    }
    const given = digest(key);
    // Both lists are compared to their ends, whichever entry matches.
    const operator = matching(this.#operatorDigests, given);
    const client = matching(this.#clientDigests, given);
    if (operator !== null) return { kind: "operator", key: `operator ${operator}` };
    if (client !== null) return { kind: "client", key: `client ${client}` };
    const bound = this.#boundRollout(key);
    if (bound !== null) return { kind: "bound", rolloutId: bound, key: `rollout ${bound}` };
    // Looked up by hash: how long that takes tells of hashes, which lead back to no key.
    const filed = this.#file?.find(given.toString("hex")) ?? null;
    if (filed !== null) return callerOf(filed);
    throw new CoppiceError("unauthorized", "this key is not known");
  }

  /** The key that may call for this rollout alone; null where there is no client key to make it of. */
  rolloutKey(rollout: RolloutId): string | null {
    const key = this.#clientKeys[0];
    return key === undefined ? null : boundKey(key, rollout);
  }

  #boundRollout(key: string): RolloutId | null {
    const end = key.lastIndexOf(".");
    if (!key.startsWith(BOUND) || end <= BOUND.length) return null;
    const given = digest(key);
    const rollout = key.slice(BOUND.length, end);
    const expected = this.#clientKeys.map((clientKey) => digest(boundKey(clientKey, rollout)));
    return matching(expected, given) === null ? null : rolloutId(rollout);
  }
}

/** True for an agent's key that can be revoked: a key derived for a rollout would outlive it. */
export function isRevocable(caller: Caller): boolean {
  return caller.kind !== "operator" && caller.key !== null && caller.key.startsWith(FILED);
}

function callerOf({ id, kind, rolloutId: rollout, groupId }: FileKey): Caller {
  const key = FILED + id;
  if (kind === "operator") return { kind: "operator", key };
  if (rollout !== null) return { kind: "bound", rolloutId: rolloutId(rollout), key };
  if (groupId !== null) return { kind: "group", groupId, key };
  return { kind: "client", key };
}

function boundKey(clientKey: string, rollout: string): string {
  return `${BOUND}${rollout}.${createHmac("sha256", clientKey).update(rollout).digest("hex").slice(0, 40)}`;
}

function keyOf(headers: IncomingHttpHeaders): string | null {
  const { authorization } = headers;
  if (authorization !== undefined && /^bearer /i.test(authorization)) return authorization.slice(7).trim();
  const key = headers["x-api-key"];
  return typeof key === "string" && key !== "" ? key : null;
}

/** Digests have one length, so the comparison's time tells nothing of the keys. */
function digest(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}

/** The index of the digest that is the given one, compared to the list's end; null where none is. */
function matching(digests: readonly Buffer[], given: Buffer): number | null {
  let found: number | null = null;
  for (const [index, one] of digests.entries()) if (timingSafeEqual(one, given)) found = index;
  return found;
}

/** What a route asks of its caller. */
export type Permission =
  /** Model calls: any key. */
  | "call"
  /** Opening a rollout, reading it, posting its outcome: client keys, and a bound key for its own rollout. */
  | "rollout"
  | "operate";

/** Throws `forbidden` where this caller may not. `rollout` is the one that the request is about, if it is about one. */
export function allow(caller: Caller, permission: Permission, rollout: string | null): void {
  if (caller.kind === "anyone" || caller.kind === "operator") return;
  if (permission === "operate") throw new CoppiceError("forbidden", "this needs an operator key");
  if (caller.kind === "bound" && rollout !== null && rollout !== caller.rolloutId) {
    throw new CoppiceError("forbidden", `this key is bound to rollout ${caller.rolloutId}, not ${rollout}`);
  }
}
