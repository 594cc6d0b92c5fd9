// The library's public face: what a program needs to make rows of records, and to run a gateway of its own. Everything
// else of the rooms is private. The agent's side is `coppice/agent`.
export { CoppiceError, type ErrorCode } from "./errors.ts";
export type {
  Call,
  CallClass,
  CallId,
  CallStatus,
  CallSummary,
  Message,
  RolloutId,
  RootReason,
  Sampling,
  SequenceAddress,
  Way,
  WeightVersionSpan,
} from "./lineage/call.ts";
export { buildForest, chainOf, leavesOf, rootOf, type Forest } from "./lineage/forest.ts";
export type { Outcome, Reference, Refusal, RefusalReason } from "./selection/outcome.ts";
export { select, type Chain, type Selection } from "./selection/select.ts";
export { checkRecords } from "./rows/check-records.ts";
export { finishGroup, type AdvantageKind, type GroupOptions, type WeightKind } from "./rows/group.ts";
export { rowsOfRollout, type RolloutToBuild } from "./rows/rollout-rows.ts";
export type { CallSpan, Failure, RolloutRows, Row, RowWeightSpan } from "./rows/row.ts";
export {
  exportRows,
  FILE_FORMATS,
  leftOutPath,
  streamRows,
  type ExportOptions,
  type ExportSummary,
  type FileFormat,
} from "./export/export-rows.ts";
export { SHAPES, shapeNamed } from "./export/shapes.ts";
export type { Shape } from "./export/shapes/shape.ts";
export { failureLine, rowLine, rowLines } from "./export/json-lines.ts";
export { buildTraceRows, readTrace, rowsOfTrace, traceLines, type Trace } from "./export/trace.ts";
