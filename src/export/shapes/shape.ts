// What a shape is: a trainer's record as named, typed columns, and a pure function from one rollout's rows to its
// records. The types stand once and serve Arrow, Parquet and JSON Lines; no shape knows how it is written down.
import type { Row } from "../../rows/row.ts";

/** Lists of numbers hold typed arrays, which are copied once, into the written buffer. */
export type NumberKind = "uint8" | "uint32" | "int32" | "int64" | "float32" | "float64";

export type ColumnType =
  | { readonly kind: NumberKind | "string" | "bool" }
  | { readonly kind: "list"; readonly item: ColumnType }
  | { readonly kind: "struct"; readonly fields: readonly Column[] };

export interface Column {
  readonly name: string;
  readonly type: ColumnType;
  /** False where the shape guarantees a value. */
  readonly nullable: boolean;
}

export type NumberArray = Uint8Array | Uint32Array | Float32Array | Float64Array;

export type Value = null | string | number | boolean | NumberArray | readonly Value[] | ShapedRecord;

/** A value for each column of the shape, by name. */
export interface ShapedRecord {
  readonly [column: string]: Value;
}

export interface Shape {
  readonly name: string;
  /** Where each value stands: at its own token, or at the position that predicts it. */
  readonly alignment: "own_token" | "predicting_position";
  readonly columns: readonly Column[];
  /**
   * The records of one rollout's rows, which stand together. Throws `invalid_request` that names the row, the field and
   * its value where the trainer could not use the row.
   */
  records(rows: readonly Row[]): readonly ShapedRecord[];
}

export function column(name: string, type: ColumnType): Column {
  return { name, type, nullable: false };
}

export function nullable(name: string, type: ColumnType): Column {
  return { name, type, nullable: true };
}

export function listOf(item: ColumnType): ColumnType {
  return { kind: "list", item };
}

export function structOf(...fields: readonly Column[]): ColumnType {
  return { kind: "struct", fields };
}

export const UINT8: ColumnType = { kind: "uint8" };
export const UINT32: ColumnType = { kind: "uint32" };
export const INT32: ColumnType = { kind: "int32" };
export const INT64: ColumnType = { kind: "int64" };
export const FLOAT32: ColumnType = { kind: "float32" };
export const FLOAT64: ColumnType = { kind: "float64" };
export const STRING: ColumnType = { kind: "string" };
export const BOOL: ColumnType = { kind: "bool" };
