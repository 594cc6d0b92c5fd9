// Whose call it is: from the path, a header or the key, which must not contradict one another. Also what a client
// tells of the call beside its body: the agent's label, the call's class, a named parent.
import type { IncomingHttpHeaders } from "node:http";
import { CoppiceError } from "../errors.ts";
import { rolloutId, type CallClass, type RolloutId } from "../lineage/call.ts";
import type { Caller } from "./keys.ts";

export interface CallAddress {
  /** Null where neither path, header nor key names a rollout. */
  readonly rolloutId: RolloutId | null;
  readonly agent: string | null;
  readonly class: CallClass | null;
  /** The parent as the client named it: a call id or a response id. */
  readonly namedParent: string | null;
}

const CLASSES: readonly CallClass[] = ["main", "sub_agent", "compaction", "title", "auxiliary"];

/** Marks that public agents put on the calls of their (sub-)agents, most telling first. */
const AGENT_HEADERS = ["x-claude-code-agent-id", "thread-id", "x-session-id", "session-id"];

/** @param params of the path: `rollout`, `agent` */
export function callAddress(
  params: Readonly<Record<string, string>>,
  headers: IncomingHttpHeaders,
  caller: Caller,
): CallAddress {
  return {
    rolloutId: rolloutOf(params["rollout"], headers, caller),
    agent: agentOf(params["agent"], headers),
    class: classOf(headers),
    namedParent: textHeader(headers, "x-coppice-parent"),
  };
}

function rolloutOf(path: string | undefined, headers: IncomingHttpHeaders, caller: Caller): RolloutId | null {
  const header = textHeader(headers, "x-coppice-rollout");
  const named = path ?? header;
  const rollout =
    named === null ? null : rolloutId(named, path === undefined ? "x-coppice-rollout" : "rollout");
  if (path !== undefined && header !== null && header !== path) {
    throw new CoppiceError("invalid_request", `the path names rollout ${path}, x-coppice-rollout ${header}`, {
      param: "x-coppice-rollout",
    });
  }
  if (caller.kind !== "bound") return rollout;
  if (rollout !== null && rollout !== caller.rolloutId) {
    throw new CoppiceError("forbidden", `this key is bound to rollout ${caller.rolloutId}, not ${rollout}`);
  }
  return caller.rolloutId;
}

function agentOf(path: string | undefined, headers: IncomingHttpHeaders): string | null {
  const own = path ?? textHeader(headers, "x-coppice-agent");
  if (own !== null) {
    if (own === "" || own.length > 200) {
      throw new CoppiceError(
        "invalid_request",
        `the agent's label has ${own.length} characters, not 1 to 200`,
        {
          param: "agent",
        },
      );
    }
    return own;
  }
  for (const name of AGENT_HEADERS) {
    const value = textHeader(headers, name);
    if (value !== null && value.length <= 200) return value;
  }
  return null;
}

function classOf(headers: IncomingHttpHeaders): CallClass | null {
  const own = textHeader(headers, "x-coppice-class");
  if (own !== null) {
    const known = CLASSES.find((one) => one === own);
    if (known !== undefined) return known;
    throw new CoppiceError(
      "invalid_request",
      `x-coppice-class is "${own}"; it must be one of ${CLASSES.join(", ")}`,
      { param: "x-coppice-class" },
    );
  }
  // A hint in another program's words: what it does not say in ours is left out, never refused.
  const hint = textHeader(headers, "x-claude-code-request-class");
  return hint === "subagent" ? "sub_agent" : (CLASSES.find((one) => one === hint) ?? null);
}

function textHeader(headers: IncomingHttpHeaders, name: string): string | null {
  const value = headers[name];
  return typeof value === "string" && value !== "" ? value : null;
}
