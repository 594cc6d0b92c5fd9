// Ids of responses and of their items. An item's id holds its response's, so that whoever meets it again finds the
// answer that it came from in the ledger, without keeping anything else.

export const RESPONSE_PREFIX = "resp_";

export type ItemKind = "reasoning" | "message" | "function_call";

const ITEM_PREFIX: Readonly<Record<ItemKind, string>> = {
  reasoning: "rs_",
  message: "msg_",
  function_call: "fc_",
};

/** @param place how many items of the kind stand before it in the answer */
export function itemId(responseId: string, kind: ItemKind, place: number): string {
  return `${ITEM_PREFIX[kind]}${uniqueOf(responseId)}_${place}`;
}

export interface ItemReference {
  readonly responseId: string;
  readonly kind: ItemKind;
  readonly place: number;
}

/** Null for an id that was not made here. */
export function readItemId(id: unknown): ItemReference | null {
  if (typeof id !== "string") return null;
  const found = /^(rs|msg|fc)_([0-9a-f]{32})_(\d{1,6})$/.exec(id);
  if (found === null) return null;
  const kind = found[1] === "rs" ? "reasoning" : found[1] === "msg" ? "message" : "function_call";
  return { responseId: `${RESPONSE_PREFIX}${found[2] as string}`, kind, place: Number(found[3]) };
}

function uniqueOf(responseId: string): string {
  return responseId.startsWith(RESPONSE_PREFIX) ? responseId.slice(RESPONSE_PREFIX.length) : responseId;
}
