// How lines look: pieces of text with a meaning, painted in colour on a terminal, cut to its width, and plain ASCII in
// a pipe, so that what is piped can be searched and compared. NO_COLOR and FORCE_COLOR are obeyed (no-color.org).

export type Paint = "plain" | "bold" | "dim" | "kept" | "context" | "rejected" | "warning" | "fault" | "walk";

export interface Piece {
  readonly text: string;
  readonly paint: Paint;
}

export interface Style {
  readonly color: boolean;
  /** Lines and signs beyond ASCII. */
  readonly unicode: boolean;
  /** Columns after which a line is cut; null: never. */
  readonly width: number | null;
}

/** Plain and whole: what a pipe gets. */
export const PLAIN: Style = { color: false, unicode: false, width: null };

export function styleFor(
  stream: { readonly isTTY?: boolean; readonly columns?: number },
  environment: Readonly<Record<string, string | undefined>>,
): Style {
  const forced = environment["FORCE_COLOR"];
  const terminal = stream.isTTY === true && environment["TERM"] !== "dumb";
  const refused = (environment["NO_COLOR"] ?? "") !== "" || forced === "0" || forced === "false";
  const wanted = forced !== undefined && forced !== "" && !refused;
  return {
    color: !refused && (terminal || wanted),
    unicode: terminal || wanted,
    width: terminal ? (stream.columns ?? null) : null,
  };
}

const SEQUENCES: Readonly<Record<Exclude<Paint, "plain">, string>> = {
  bold: "1",
  dim: "2",
  kept: "32",
  context: "36",
  rejected: "2",
  warning: "33",
  fault: "31",
  walk: "36",
};

export function piece(text: string, paint: Paint = "plain"): Piece {
  return { text, paint };
}

/** Number of columns of the pieces; signs used here are one column each. */
export function widthOf(pieces: readonly Piece[]): number {
  return pieces.reduce((width, { text }) => width + text.length, 0);
}

/** The line, without blanks at its end. */
export function paintLine(pieces: readonly Piece[], style: Style): string {
  const shown = cut(pieces, style);
  if (!style.color) {
    return shown
      .map(({ text }) => text)
      .join("")
      .trimEnd();
  }
  return shown
    .map(({ text, paint }) =>
      paint === "plain" || text.trim() === "" ? text : `\u001B[${SEQUENCES[paint]}m${text}\u001B[0m`,
    )
    .join("")
    .trimEnd();
}

function cut(pieces: readonly Piece[], style: Style): readonly Piece[] {
  if (style.width === null || widthOf(pieces) <= style.width) return pieces;
  const shown: Piece[] = [];
  const sign = style.unicode ? "…" : "...";
  let left = Math.max(style.width - sign.length, 0);
  for (const { text, paint } of pieces) {
    shown.push(piece(text.slice(0, left), paint));
    left -= Math.min(text.length, left);
    if (left === 0) break;
  }
  return [...shown, piece(sign, "dim")];
}
