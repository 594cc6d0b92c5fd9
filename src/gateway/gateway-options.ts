// What a gateway is started with, and what it takes where it is not told.
import { CoppiceError } from "../errors.ts";
import type { Engine } from "../engine/engine.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Log } from "./log.ts";
import type { Routes } from "./routes.ts";
import type { TraceExportOptions } from "./trace-export.ts";
import type { Way } from "./token-in-check.ts";

export interface GatewayOptions {
  readonly engine: Engine;
  readonly ledger: Ledger;
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** The engine's name for the policy; the first model that the engine lists where it is not told. */
  readonly model?: string;
  /** Names that mean another of the engine's models; every other name is the policy's. */
  readonly modelNames?: Readonly<Record<string, string>>;
  /**
   * How the engine is asked: `text` (the default) with messages, `token-in` with ids that go on from what was recorded,
   * `auto` token-in wherever engine and call allow it. Each record says which way was taken.
   */
  readonly way?: Way;
  /** Rendering or parsing that takes longer gives way to the text way, in milliseconds; 30 s by default. */
  readonly stepWithinMs?: number;
  /**
   * Regular expressions, `^` and `$` at line ends: what they match in system, developer and user messages is taken out
   * before the engine sees it. None by default.
   */
  readonly blank?: readonly string[];
  /** Refuse calls that name no rollout (true by default); otherwise they pass through uncaptured and are counted. */
  readonly requireRollout?: boolean;
  readonly limits?: Partial<GatewayLimits>;
  /** The one deadline of a call, in milliseconds, from its first byte on; one hour by default. */
  readonly callDeadlineMs?: number;
  /** Silence in a stream before a heartbeat, in milliseconds; 15 s by default. */
  readonly heartbeatMs?: number;
  /** How long closing waits for calls in flight, in milliseconds; 30 s by default. */
  readonly drainMs?: number;
  /** Keys for agents. */
  readonly clientKeys?: readonly string[];
  /** Keys for trainers and people. */
  readonly operatorKeys?: readonly string[];
  /** More keys of both kinds, as hashes in a file that `coppice keys` keeps; see key-file.ts. */
  readonly keyFile?: string;
  /** Names by which browsers may call, beside the loopback ones and `host`; see browser-guard.ts. */
  readonly allowedHosts?: readonly string[];
  /** Origins of other sites' pages that may call; none by default. */
  readonly allowedOrigins?: readonly string[];
  /** Certificate chain and private key, both PEM; without them it speaks plain HTTP. */
  readonly tls?: { readonly cert: string | Buffer; readonly key: string | Buffer };
  readonly capture?: {
    /** Keep tokens, but no messages and no answers. */
    readonly tokensOnly?: boolean;
  };
  /** Adds more routes before the service listens: the page's, say. */
  readonly extend?: (routes: Pick<Routes, "add">) => void;
  /** Where OpenTelemetry spans go; nowhere by default. */
  readonly traces?: Omit<TraceExportOptions, "log">;
  /** JSON lines on stderr by default. */
  readonly log?: Log;
}

export interface GatewayLimits {
  /** Of one request's body, as sent and as unpacked. */
  readonly bodyBytes: number;
  /** Of the bodies of all calls in flight, as sent. */
  readonly bodyBytesInFlight: number;
  readonly callsInFlight: number;
  readonly callsInFlightPerRollout: number;
  /** No limit by default, as for `callsPerMinutePerKey`. */
  readonly callsInFlightPerKey: number;
  readonly callsPerMinutePerKey: number;
}

export const DEFAULT_LIMITS: GatewayLimits = {
  bodyBytes: 64 * 1024 * 1024,
  bodyBytesInFlight: 1024 * 1024 * 1024,
  callsInFlight: 4096,
  callsInFlightPerRollout: 256,
  callsInFlightPerKey: Infinity,
  callsPerMinutePerKey: Infinity,
};

export const DEFAULT_CALL_DEADLINE_MS = 3_600_000;
export const DEFAULT_HEARTBEAT_MS = 15_000;
export const DEFAULT_DRAIN_MS = 30_000;

const LOOPBACK = /^(127(\.\d{1,3}){3}|::1|\[::1\]|localhost)$/;

/** Throws `invalid_request` where the gateway would listen to strangers without a key. */
export function checkListening(options: GatewayOptions): void {
  const keys = (options.clientKeys?.length ?? 0) + (options.operatorKeys?.length ?? 0);
  if (keys > 0 || options.keyFile !== undefined || LOOPBACK.test(options.host)) return;
  throw new CoppiceError(
    "invalid_request",
    `host is ${options.host}, which others can reach: set client and operator keys, or listen on 127.0.0.1`,
    { param: "host" },
  );
}
