// From what was generated to what is told of it: normally a chunk a token with its id and log-prob, and, where a fault
// is asked for, fewer, more, later or none of them.
import type { Generated, GeneratedToken } from "./answer.ts";
import { findFault, type BadLogprob, type Fault } from "./faults.ts";
import type { LogprobEntry, ToldChoice, ToldPiece } from "./told.ts";

/** Stands for a log-prob that JSON cannot say, until the text is written; no model tells such a one. */
const PLACEHOLDERS: Readonly<Record<BadLogprob, number>> = {
  NaN: 1234567.0625,
  Infinity: 1234567.125,
  "-Infinity": 1234567.25,
  null: 1234567.5,
  "-9999": -9999,
};

/** Puts bare NaN, Infinity and null where their placeholders stand. */
export function writeBadLogprobs(json: string, faults: readonly Fault[]): string {
  const fault = findFault(faults, "logprob");
  if (fault === undefined || fault.told === "-9999") return json;
  return json.replaceAll(String(PLACEHOLDERS[fault.told]), fault.told);
}

export function tellChoice(generated: Generated, faults: readonly Fault[]): ToldChoice {
  const bad = findFault(faults, "logprob");
  const entries: LogprobEntry[] = generated.tokens.map((token, place) => ({
    token,
    logprob: bad !== undefined && bad.at === place ? PLACEHOLDERS[bad.told] : token.logprob,
  }));
  let pieces: ToldPiece[] = generated.tokens.map((token, place) => ({
    delta: token.delta,
    ids: [token.id],
    entries: entries.slice(place, place + 1),
  }));
  const counts = findFault(faults, "counts");
  if (counts !== undefined) pieces = miscount(pieces, counts);
  if (findFault(faults, "spread") !== undefined) pieces = spread(pieces);
  const finish = findFault(faults, "finish");
  return {
    generated: finish === undefined ? generated : { ...generated, finishReason: finish.reason },
    pieces,
  };
}

/** Takes ids or log-probs out of the last pieces, or repeats the last ones. */
function miscount(pieces: readonly ToldPiece[], counts: Extract<Fault, { kind: "counts" }>): ToldPiece[] {
  const length = pieces.length;
  const { ids = 0, logprobs = 0 } = counts;
  return pieces.map((piece, place) => ({
    delta: piece.delta,
    ids: recount(piece.ids ?? [], place, { by: ids, length }),
    entries: recount(piece.entries ?? [], place, { by: logprobs, length }),
  }));
}

function recount<T>(
  told: readonly T[],
  place: number,
  { by, length }: { readonly by: number; readonly length: number },
): readonly T[] {
  if (by < 0) return place >= length + by ? [] : told;
  if (place !== length - 1 || told.length === 0) return told;
  return [...told, ...Array.from({ length: by }, () => told[0] as T)];
}

/** Log-probs two tokens at a time, in chunks without ids behind the chunks of their tokens. */
function spread(pieces: readonly ToldPiece[]): ToldPiece[] {
  const late: ToldPiece[] = [];
  let waiting: LogprobEntry[] = [];
  pieces.forEach((piece, place) => {
    late.push({ ...piece, entries: null });
    waiting.push(...(piece.entries ?? []));
    if (waiting.length < 2 && place < pieces.length - 1) return;
    late.push({ delta: {}, ids: [], entries: waiting });
    waiting = [];
  });
  return late;
}

export function tokensOf(choices: readonly ToldChoice[]): readonly GeneratedToken[] {
  return choices.flatMap((choice) => choice.generated.tokens);
}
