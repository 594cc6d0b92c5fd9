// Why a call is a root, in words. A drift shows the few letters around the place where the tokens part.
import type { RootReason } from "../lineage/call.ts";
import { piece, type Piece } from "./paint.ts";

/** @param labels what each call is called in the drawing, by id */
export function rootNote(reason: RootReason | null, labels: ReadonlyMap<string, string>): Piece[] {
  const label = (id: string): string => labels.get(id) ?? id;
  switch (reason?.kind) {
    case undefined:
      return [piece("root")];
    case "rewrite":
      return [piece("root: rewrite")];
    case "asked_again":
      return [piece(`root: asked again, as ${label(reason.rootCallId)}`)];
    case "other_agent":
      return [piece("root: other agent")];
    case "unknown":
      return [piece("root: "), piece("no messages to tell why", "dim")];
    case "drift": {
      const from = partingOf(reason.expectedText, reason.actualText) - LETTERS_BEFORE;
      const expected = tokenText(reason.expectedId, reason.expectedText, from);
      const actual = tokenText(reason.actualId, reason.actualText, from);
      const where = ` from ${label(reason.followedCallId)} at token ${reason.index}`;
      return [
        piece("root: "),
        piece("drift", "warning"),
        piece(`${where}: recorded ${expected}, sent ${actual}`),
      ];
    }
  }
}

const LETTERS_BEFORE = 6;
const LETTERS_SHOWN = 20;

/** Index of the first letter in which two texts differ. */
function partingOf(one: string | null, other: string | null): number {
  if (one === null || other === null) return 0;
  let index = 0;
  while (index < one.length && one[index] === other[index]) index += 1;
  return index;
}

function tokenText(id: number | null, text: string | null, from: number): string {
  if (id === null) return "the end";
  if (text === null) return String(id);
  const start = Math.max(0, Math.min(from, text.length - LETTERS_SHOWN));
  const end = start + LETTERS_SHOWN;
  const shown = `${start > 0 ? "..." : ""}${text.slice(start, end)}${end < text.length ? "..." : ""}`;
  return `${id} ${JSON.stringify(shown)}`;
}
