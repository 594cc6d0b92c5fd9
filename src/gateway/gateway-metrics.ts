// What the gateway counts. One set a gateway, so that several in one process (tests) do not add up.
import { Counter, Gauge, Histogram, metricsText } from "./metrics.ts";

const STARTED_AT = Math.round(performance.timeOrigin) / 1000;

/** Seconds; a commit is one fsync, so from a quarter of a millisecond up to where a disk is in trouble. */
const COMMIT_BOUNDS = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5];

/** Seconds; from a title's few tokens to an answer of an hour. */
const CALL_BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800];

/** Seconds; consumers follow along or come once a training step. */
const WAIT_BOUNDS = [0.1, 1, 5, 15, 60, 300, 900, 3600, 14_400];

export interface GatewayMetrics {
  readonly calls: Counter<"way" | "status">;
  readonly roots: Counter<"reason">;
  readonly refusals: Counter<"reason">;
  readonly commitSeconds: Histogram;
  readonly callSeconds: Histogram;
  readonly tokens: Counter<"kind">;
  readonly refusedRequests: Counter<"code">;
  readonly claims: Counter<"event">;
  readonly publishWaitSeconds: Histogram;
  readonly uncapturedCalls: Counter;
  readonly engineErrors: Counter<"code">;
  readonly lateCalls: Counter;
  readonly recordFailures: Counter;
  readonly untrainableCalls: Counter;
  text(): string;
}

/** @param gauges read when the metrics are */
export function gatewayMetrics(gauges: {
  readonly callsInFlight: () => number;
  readonly unmarkedRecords: () => number;
  readonly bodyBytesInFlight: () => number;
}): GatewayMetrics {
  const set = {
    calls: new Counter(
      "coppice_calls_total",
      "Settled calls by the way the engine was asked and by status.",
      ["way", "status"],
    ),
    roots: new Counter("coppice_roots_total", "Roots after the first of their rollout, by reason.", [
      "reason",
    ]),
    refusals: new Counter("coppice_refusals_total", "Outcomes that give no rows, by reason.", ["reason"]),
    commitSeconds: new Histogram(
      "coppice_commit_seconds",
      "From the end of the engine's answer until the call is durable.",
      COMMIT_BOUNDS,
    ),
    callSeconds: new Histogram(
      "coppice_call_seconds",
      "From a call's admission until its record is durable.",
      CALL_BOUNDS,
    ),
    tokens: new Counter("coppice_tokens_total", "Tokens recorded: carried and generated.", ["kind"]),
    claims: new Counter("coppice_claims_total", "Groups that were claimed and acknowledged.", ["event"]),
    publishWaitSeconds: new Histogram(
      "coppice_publish_wait_seconds",
      "From a group's last outcome until it is claimed.",
      WAIT_BOUNDS,
    ),
    refusedRequests: new Counter("coppice_refused_requests_total", "Requests refused, by code.", ["code"]),
    uncapturedCalls: new Counter(
      "coppice_uncaptured_calls_total",
      "Calls without a rollout, passed through.",
    ),
    engineErrors: new Counter("coppice_engine_errors_total", "Calls that the engine failed, by code.", [
      "code",
    ]),
    lateCalls: new Counter("coppice_late_calls_total", "Calls recorded in the late bin."),
    recordFailures: new Counter(
      "coppice_record_failures_total",
      "Answers that could not be recorded and are marked unknown.",
    ),
    untrainableCalls: new Counter("coppice_untrainable_calls_total", "Committed calls that must not train."),
  };
  const series = [
    ...Object.values(set),
    new Gauge("coppice_calls_in_flight", "Calls that have not been answered yet.", gauges.callsInFlight),
    new Gauge(
      "coppice_unmarked_records",
      "Answers that could not be recorded and whose mark is not on disk yet.",
      gauges.unmarkedRecords,
    ),
    new Gauge(
      "coppice_body_bytes_in_flight",
      "Bytes of the bodies of calls in flight; past the limit calls are refused.",
      gauges.bodyBytesInFlight,
    ),
    new Gauge("process_resident_memory_bytes", "Resident memory.", () => process.memoryUsage.rss()),
    new Gauge("process_start_time_seconds", "When the process began.", () => STARTED_AT),
  ];
  return { ...set, text: () => metricsText(series) };
}
