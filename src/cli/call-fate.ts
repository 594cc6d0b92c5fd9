// What became of each call of a forest, as far as rows and the agent's record tell, and the sign that stands for it.
import type { LaidOut, Placed } from "./forest-layout.ts";
import { paintLine, piece, type Paint, type Style } from "./paint.ts";

/** A row's calls in order, root first; a Row fits. */
export interface DrawnRow {
  readonly rowId: string;
  readonly spans: readonly { readonly callId: string; readonly trained: boolean }[];
}

export interface KeptRecord {
  readonly rows: readonly DrawnRow[];
  /** What the agent's record kept, where it is known without rows; null: what stands in the rows. */
  readonly accepted?: ReadonlySet<string> | null;
}

/**
 * What became of a call. `unwalked`: no walk came into its tree, so it may have been kept and still gives no row;
 * `lost`: it failed or is unknown; `open`: nobody has said yet.
 */
export type Fate = "kept" | "context" | "rejected" | "unwalked" | "aborted" | "lost" | "open";

export const SIGNS: Readonly<
  Record<Fate, { readonly unicode: string; readonly ascii: string; readonly paint: Paint }>
> = {
  kept: { unicode: "●", ascii: "*", paint: "kept" },
  context: { unicode: "◐", ascii: "@", paint: "context" },
  rejected: { unicode: "○", ascii: "o", paint: "rejected" },
  unwalked: { unicode: "○", ascii: "o", paint: "rejected" },
  aborted: { unicode: "◌", ascii: "~", paint: "warning" },
  lost: { unicode: "✗", ascii: "x", paint: "fault" },
  open: { unicode: "•", ascii: "+", paint: "plain" },
};

/** What the signs and numbers mean, for below a drawing. */
export function legendLine(style: Style): string {
  const signs = (["kept", "context", "rejected", "aborted", "lost"] as const).flatMap((fate) => [
    piece(style.unicode ? SIGNS[fate].unicode : SIGNS[fate].ascii, SIGNS[fate].paint),
    piece(` ${fate}   `, "dim"),
  ]);
  return paintLine([...signs, piece("2+1: tokens that the prompt adds + tokens sampled", "dim")], style);
}

export function walkedCalls(rows: readonly DrawnRow[]): ReadonlySet<string> {
  return new Set(rows.flatMap(({ spans }) => spans.map(({ callId }) => callId)));
}

export function fatesOf(
  { rows, accepted }: KeptRecord,
  trees: readonly (readonly LaidOut<Placed>[])[],
): ReadonlyMap<string, Fate> {
  const walked = walkedCalls(rows);
  const trained = new Set(
    rows.flatMap(({ spans }) => spans.filter((span) => span.trained).map(({ callId }) => callId)),
  );
  const decided = rows.length > 0 || (accepted ?? null) !== null;
  const fate = (call: Placed, treeWalked: boolean): Fate => {
    if (trained.has(call.callId) || accepted?.has(call.callId) === true) return "kept";
    if (call.status === "aborted") return "aborted";
    if (call.status !== "committed") return call.status === "admitted" ? "open" : "lost";
    if (walked.has(call.callId)) return "context";
    if (!decided) return "open";
    return treeWalked || rows.length === 0 ? "rejected" : "unwalked";
  };
  return new Map(
    trees.flatMap((tree) => {
      const treeWalked = tree.some(({ call }) => walked.has(call.callId));
      return tree.map(({ call }) => [call.callId, fate(call, treeWalked)] as const);
    }),
  );
}
