// The shapes that trainers load, by name. A new one is a file in shapes/ and a line here.
import { CoppiceError } from "../errors.ts";
import { artShape } from "./shapes/art.ts";
import { nemoRlShape } from "./shapes/nemo-rl.ts";
import { primeRlShape } from "./shapes/prime-rl.ts";
import { rowsShape } from "./shapes/rows.ts";
import type { Shape } from "./shapes/shape.ts";
import { skyrlShape } from "./shapes/skyrl.ts";
import { slimeShape } from "./shapes/slime.ts";
import { tinkerShape } from "./shapes/tinker.ts";
import { trlShape } from "./shapes/trl.ts";
import { verlShape } from "./shapes/verl.ts";

export const SHAPES: readonly Shape[] = [
  rowsShape,
  nemoRlShape,
  verlShape,
  trlShape,
  skyrlShape,
  primeRlShape,
  tinkerShape,
  slimeShape,
  artShape,
];

export const SHAPE_NAMES: readonly string[] = SHAPES.map(({ name }) => name);

/** Throws `invalid_request` that lists what there is. */
export function shapeNamed(name: string): Shape {
  const shape = SHAPES.find((one) => one.name === name);
  if (shape !== undefined) return shape;
  throw new CoppiceError(
    "invalid_request",
    `shape is "${name}"; it must be one of ${SHAPE_NAMES.join(", ")}`,
    {
      param: "shape",
    },
  );
}
