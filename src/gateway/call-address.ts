// Whose call it is: from the path, a header or the key, which must not contradict one another. Also what a client
// tells of the call beside its body: the agent's label, the call's class, a named parent.
import type { IncomingHttpHeaders } from "node:http";
import { CoppiceError } from "../errors.ts";
import { rolloutId, type CallClass, type RolloutId } from "../lineage/call.ts";
import { agentOf, classOf, textHeader } from "./caller-agent.ts";
import type { Caller } from "./keys.ts";

export interface CallAddress {
  /** Null where neither path, header nor key names a rollout. */
  readonly rolloutId: RolloutId | null;
  readonly agent: string | null;
  readonly class: CallClass | null;
  /** The parent as the client named it: a call id or a response id. */
  readonly namedParent: string | null;
  /** Of the client's trace, as it came. */
  readonly traceParent: string | null;
}

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
    traceParent: textHeader(headers, "traceparent"),
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
