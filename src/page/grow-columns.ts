// Columns of calls joined: the page grows what it has by each piece that it is told, and a saved page holds all of them.
// Pure, and free of everything else here: the page itself imports it.
import type { CallColumns } from "./view.ts";

/** Columns with later ones: a call that is known is told anew, the others follow. */
export function growColumns(known: CallColumns, fresh: CallColumns): CallColumns {
  const places = new Map(known.order.map((order, index) => [order, index]));
  const names = [...known.names];
  const rename = fresh.names.map((name) => {
    const at = names.indexOf(name);
    return at >= 0 ? at : names.push(name) - 1;
  });
  const named = new Set<string>(["finish", "agent", "class"]);
  const grown: Record<string, unknown> = { names, twins: fresh.twins };
  for (const [key, column] of Object.entries(known)) {
    if (key === "names" || key === "twins") continue;
    const added = fresh[key as keyof CallColumns];
    if (!Array.isArray(column)) {
      grown[key] = { ...column, ...(added as object) };
      continue;
    }
    const joined = [...column] as unknown[];
    for (const [index, value] of (added as readonly unknown[]).entries()) {
      const told = named.has(key) && (value as number) >= 0 ? rename[value as number] : value;
      joined[places.get(fresh.order[index] as number) ?? joined.length] = told;
    }
    grown[key] = joined;
  }
  return grown as unknown as CallColumns;
}
