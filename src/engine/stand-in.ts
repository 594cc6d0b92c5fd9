// The stand-in: a deterministic engine behind the same HTTP shapes as vLLM's, for the worked example, the demo and
// tests. It is a real server on a real port; nothing about it knows that it is asked by a gateway. Its tokenizer and
// model are made up (stand-in/tokenizer.ts, stand-in/model.ts), its answers the same in every run, and it can be told
// to fail in the ways that engines fail in (stand-in/faults.ts).
import { StandInEngine } from "./stand-in/engine.ts";
import type { StandInOptions } from "./stand-in/options.ts";
import { serve, type StandInRequest } from "./stand-in/server.ts";

export type { ScriptedAnswer, ScriptedToolCall } from "./stand-in/answer.ts";
export type { Fault } from "./stand-in/faults.ts";
export type { StandInOptions } from "./stand-in/options.ts";
export type { StandInRequest } from "./stand-in/server.ts";

export interface StandIn {
  readonly url: string;
  /** The newest requests, oldest first. */
  readonly requests: readonly StandInRequest[];
  /** As `/update_weight_version` set it; `default` before that. */
  readonly weightVersion: string;
  close(): Promise<void>;
}

/** Starts a stand-in and resolves when it listens. */
export async function startStandIn(options: StandInOptions = {}): Promise<StandIn> {
  const engine = new StandInEngine(options);
  const server = await serve(engine.routes(), {
    host: options.host ?? "127.0.0.1",
    port: options.port ?? 0,
    apiKey: options.apiKey ?? null,
    keepRequests: options.keepRequests ?? 1_000,
  });
  return {
    url: server.url,
    requests: server.requests,
    get weightVersion() {
      return engine.weightVersion;
    },
    close: () => server.close(),
  };
}
