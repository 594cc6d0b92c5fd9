// A shape's records as JSON Lines, by the same columns as Arrow and Parquet: floats always have a point or an exponent,
// float32 the shortest decimal that reads back to the same. What JSON cannot hold (NaN) is null.
import { formatDouble, formatFloat32, formatFloat32s } from "./json-lines.ts";
import type { Column, ColumnType, NumberArray, ShapedRecord, Value } from "./shapes/shape.ts";

export function shapeLine(columns: readonly Column[], record: ShapedRecord): string {
  const fields = columns.map(
    ({ name, type }) => `${JSON.stringify(name)}:${format(type, record[name] ?? null)}`,
  );
  return `{${fields.join(",")}}`;
}

function format(type: ColumnType, value: Value): string {
  if (value === null) return "null";
  switch (type.kind) {
    case "string":
      return JSON.stringify(value);
    case "bool":
      return value === true || value === 1 ? "true" : "false";
    case "float32":
      return formatFloat32(value as number);
    case "float64":
      return Number.isFinite(value) ? formatDouble(value as number) : "null";
    case "struct":
      return shapeLine(type.fields, value as ShapedRecord);
    case "list":
      return formatList(type.item, value as NumberArray | readonly Value[]);
    case "uint8":
    case "uint32":
    case "int32":
    case "int64":
      return JSON.stringify(value);
  }
}

const INTEGERS: ReadonlySet<string> = new Set(["uint8", "uint32", "int32", "int64"]);

function formatList(item: ColumnType, values: NumberArray | readonly Value[]): string {
  if (INTEGERS.has(item.kind)) return `[${(values as NumberArray).join(",")}]`;
  if (item.kind === "float32" && values instanceof Float32Array) return formatFloat32s(values);
  return `[${Array.from(values as Iterable<Value>, (value) => format(item, value)).join(",")}]`;
}
