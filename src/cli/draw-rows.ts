// Rows as a small table: what each is called, how many tokens it has and how many of them train, its advantage, and
// its tokens one by one with the trained ones marked. Pure: rows in, lines out.
import { paintLine, piece, type Piece, type Style } from "./paint.ts";

/** The part of a row that the table shows; a Row fits. */
export interface TabledRow {
  readonly rowId: string;
  readonly tokenIds: ArrayLike<number>;
  readonly lossMask: ArrayLike<number>;
  readonly advantage: number | null;
}

/** A row of more tokens is shown as a strip of blocks, since its ids would say little. */
const IDS_SHOWN = 32;
const BLOCKS = 48;

export function drawRows(rows: readonly TabledRow[], style: Style): string[] {
  const head = ["row", "tokens", "trained", "advantage"];
  const cells = rows.map((row) => [
    row.rowId,
    String(row.tokenIds.length),
    String(trainedIn(row, 0, row.tokenIds.length)),
    advantageText(row.advantage),
  ]);
  const widths = head.map((title, column) =>
    cells.reduce((width, cell) => Math.max(width, (cell[column] as string).length), title.length),
  );
  const align = (texts: readonly string[]): string[] =>
    texts.map((text, column) =>
      column === 0 ? text.padEnd(widths[column] as number) : text.padStart(widths[column] as number),
    );
  const idsShown = rows.every(({ tokenIds }) => tokenIds.length <= IDS_SHOWN);
  const marks = idsShown ? "token ids, the trained ones in brackets" : "tokens, the trained ones marked";
  return [
    paintLine([piece(`${align(head).join("  ")}  ${marks}`, "dim")], style),
    ...rows.map((row, index) => {
      const [id, ...numbers] = align(cells[index] as string[]);
      const told = [piece(id as string, "bold"), piece(`  ${numbers.join("  ")}  `)];
      return paintLine([...told, ...strip(row, style)], style);
    }),
  ];
}

export function advantageText(advantage: number | null): string {
  if (advantage === null) return "none yet";
  const text = String(Number(advantage.toPrecision(4)));
  return advantage > 0 ? `+${text}` : text;
}

function trainedIn({ lossMask }: TabledRow, from: number, to: number): number {
  let trained = 0;
  for (let index = from; index < to; index++) trained += lossMask[index] as number;
  return trained;
}

function strip(row: TabledRow, style: Style): Piece[] {
  if (row.tokenIds.length > IDS_SHOWN) return blocks(row, style);
  return Array.from(row.tokenIds, (id, index) =>
    row.lossMask[index] === 1 ? piece(`[${id}] `, "kept") : piece(`${id} `, "dim"),
  );
}

/** Each block stands for the same number of tokens; full where most of them train. */
function blocks(row: TabledRow, style: Style): Piece[] {
  const length = row.tokenIds.length;
  const count = Math.min(BLOCKS, length);
  const signs = style.unicode
    ? { trained: "█", some: "▒", context: "·" }
    : { trained: "#", some: "+", context: "." };
  const pieces = Array.from({ length: count }, (_block, index) => {
    const from = Math.floor((index * length) / count);
    const to = Math.floor(((index + 1) * length) / count);
    const trained = trainedIn(row, from, to);
    if (trained === 0) return piece(signs.context, "dim");
    return piece(trained * 2 >= to - from ? signs.trained : signs.some, "kept");
  });
  const each = Math.round((10 * length) / count) / 10;
  return [...pieces, piece(`  ${each} tokens a sign`, "dim")];
}
