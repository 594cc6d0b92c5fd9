// Records to an Arrow record batch, by a shape's columns. Every list of numbers is copied once, out of the rows and into
// the buffer that is written; no number of a list becomes a JavaScript value of its own on the way.
// https://arrow.apache.org/docs/format/Columnar.html
import * as arrow from "apache-arrow";
import { CoppiceError } from "../errors.ts";
import type { Column, ColumnType, NumberArray, NumberKind, ShapedRecord, Value } from "./shapes/shape.ts";

export function arrowSchema(columns: readonly Column[], metadata: ReadonlyMap<string, string>): arrow.Schema {
  return new arrow.Schema(columns.map(arrowField), new Map(metadata));
}

export function recordBatch(
  schema: arrow.Schema,
  columns: readonly Column[],
  records: readonly ShapedRecord[],
): arrow.RecordBatch {
  return new arrow.RecordBatch(schema, structData(new arrow.Struct(schema.fields), columns, records));
}

function arrowField({ name, type, nullable }: Column): arrow.Field {
  return new arrow.Field(name, arrowType(type), nullable);
}

function arrowType(type: ColumnType): arrow.DataType {
  switch (type.kind) {
    case "uint8":
      return new arrow.Uint8();
    case "uint32":
      return new arrow.Uint32();
    case "int32":
      return new arrow.Int32();
    case "int64":
      return new arrow.Int64();
    case "float32":
      return new arrow.Float32();
    case "float64":
      return new arrow.Float64();
    case "string":
      return new arrow.Utf8();
    case "bool":
      return new arrow.Bool();
    case "list":
      return new arrow.List(new arrow.Field("item", arrowType(type.item), false));
    case "struct":
      return new arrow.Struct(type.fields.map(arrowField));
  }
}

function structData(
  type: arrow.Struct,
  columns: readonly Column[],
  records: readonly ShapedRecord[],
): arrow.Data<arrow.Struct> {
  const children = columns.map((column) =>
    columnData(
      column,
      records.map((record) => record[column.name] ?? null),
    ),
  );
  return arrow.makeData({ type, length: records.length, nullCount: 0, children });
}

function columnData({ name, type, nullable }: Column, values: readonly Value[]): arrow.Data {
  const nulls = values.reduce<number>((count, value) => count + (value === null ? 1 : 0), 0);
  if (nulls > 0 && !nullable) throw new Error(`column ${name} has a null where its shape allows none`);
  const nullBitmap = nulls === 0 ? null : packBits(values.length, (index) => values[index] !== null);
  const common = { length: values.length, nullCount: nulls, nullBitmap };
  switch (type.kind) {
    case "string":
      return stringData(values as readonly (string | null)[], common);
    case "bool":
      return arrow.makeData({
        ...common,
        type: new arrow.Bool(),
        data: packBits(values.length, (index) => values[index] === true || values[index] === 1),
      });
    case "struct":
      return structData(arrowType(type) as arrow.Struct, type.fields, values as readonly ShapedRecord[]);
    case "list":
      return listData(name, type, values);
    case "uint8":
    case "uint32":
    case "int32":
    case "int64":
    case "float32":
    case "float64":
      return numberData(
        name,
        type.kind,
        [Float64Array.from(values as readonly number[], (value) => value ?? 0)],
        common,
      );
  }
}

interface Common {
  readonly length: number;
  readonly nullCount: number;
  readonly nullBitmap: Uint8Array | null;
}

function stringData(values: readonly (string | null)[], common: Common): arrow.Data {
  const encoded = values.map((value) => Buffer.from(value ?? "", "utf8"));
  const valueOffsets = offsets(encoded.map(({ length }) => length));
  return arrow.makeData({ ...common, type: new arrow.Utf8(), valueOffsets, data: Buffer.concat(encoded) });
}

function listData(
  name: string,
  type: ColumnType & { readonly kind: "list" },
  values: readonly Value[],
): arrow.Data {
  const lists = values as readonly (NumberArray | readonly Value[])[];
  const valueOffsets = offsets(lists.map(({ length }) => length));
  const child = itemData(name, type.item, lists);
  return arrow.makeData({
    type: arrowType(type) as arrow.List,
    length: lists.length,
    nullCount: 0,
    valueOffsets,
    child,
  });
}

function itemData(
  name: string,
  type: ColumnType,
  lists: readonly (NumberArray | readonly Value[])[],
): arrow.Data {
  const length = lists.reduce((sum, list) => sum + list.length, 0);
  const common = { length, nullCount: 0, nullBitmap: null };
  switch (type.kind) {
    case "list":
    case "struct":
    case "string":
      return columnData({ name, type, nullable: false }, (lists as readonly (readonly Value[])[]).flat());
    case "bool":
      return arrow.makeData({
        ...common,
        type: new arrow.Bool(),
        data: packLists(length, lists as readonly NumberArray[]),
      });
    case "uint8":
    case "uint32":
    case "int32":
    case "int64":
    case "float32":
    case "float64":
      return numberData(name, type.kind, lists as readonly NumberArray[], common);
  }
}

function numberData(
  name: string,
  kind: NumberKind,
  lists: readonly NumberArray[],
  common: Common,
): arrow.Data {
  const type = arrowType({ kind });
  const total = lists.reduce((sum, list) => sum + list.length, 0);
  return arrow.makeData({
    ...common,
    type: type as arrow.Int32,
    data: joined(name, kind, lists, total) as Int32Array,
  });
}

/** One copy. Throws where a value would wrap round: it would be another token. */
function joined(name: string, kind: NumberKind, lists: readonly NumberArray[], total: number): TypedArray {
  switch (kind) {
    case "uint8":
      return fill(new Uint8Array(total), lists);
    case "uint32":
      return fill(new Uint32Array(total), lists);
    case "float32":
      return fill(new Float32Array(total), lists);
    case "float64":
      return fill(new Float64Array(total), lists);
    case "int32":
      return checked32(name, fill(new Int32Array(total), lists), lists);
    case "int64":
      return int64s(lists, total);
  }
}

function fill<T extends FilledArray>(into: T, lists: readonly NumberArray[]): T {
  let at = 0;
  for (const list of lists) {
    into.set(list, at);
    at += list.length;
  }
  return into;
}

type FilledArray = NumberArray | Int32Array;
type TypedArray = FilledArray | BigInt64Array;

function checked32(name: string, values: Int32Array, lists: readonly NumberArray[]): Int32Array {
  if (values.every((value) => value >= 0)) return values;
  const wrong = lists.flatMap((list) => [...list]).find((value) => value > 0x7fff_ffff);
  if (wrong === undefined) return values;
  throw new CoppiceError(
    "invalid_request",
    `${name} has ${wrong}, which a signed 32-bit integer cannot hold`,
    {
      param: name,
    },
  );
}

/** Written as pairs of 32-bit halves, little-endian as Arrow is: no BigInt a value. Values are integers, 0 to 2^53. */
function int64s(lists: readonly NumberArray[], total: number): BigInt64Array {
  const values = new BigInt64Array(total);
  const halves = new Uint32Array(values.buffer);
  let at = 0;
  for (const list of lists) {
    const wide = list instanceof Float64Array;
    for (const value of list) {
      halves[at] = value;
      if (wide) halves[at + 1] = Math.floor(value / 0x1_0000_0000);
      at += 2;
    }
  }
  return values;
}

function offsets(lengths: readonly number[]): Int32Array {
  const starts = new Int32Array(lengths.length + 1);
  for (const [index, length] of lengths.entries()) starts[index + 1] = (starts[index] as number) + length;
  return starts;
}

function packBits(length: number, isSet: (index: number) => boolean): Uint8Array {
  // Arrow wants a whole number of bytes; a record batch is written from the buffer's own length.
  const bits = new Uint8Array(Math.ceil(length / 64) * 8);
  for (let index = 0; index < length; index++) {
    if (isSet(index)) bits[index >> 3] = (bits[index >> 3] as number) | (1 << (index & 7));
  }
  return bits;
}

function packLists(length: number, lists: readonly NumberArray[]): Uint8Array {
  const joinedBits = fill(new Uint8Array(length), lists);
  return packBits(length, (index) => joinedBits[index] === 1);
}
