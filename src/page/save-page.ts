// One rollout as one file: the page's own script, style and type, and the views that its server would have sent, as
// JSON text that cannot end its own element. It is opened from a disk, and asks nothing of anybody.
import { createHash } from "node:crypto";
import { CoppiceError } from "../errors.ts";
import type { PageSource } from "./page-source.ts";
import { PageModel } from "./page-model.ts";
import { readSite, type SiteFile } from "./site-files.ts";
import { MOST_TEXTS, type TokenTexts } from "./token-texts.ts";
import { growColumns } from "./grow-columns.ts";
import type { CallView, RolloutView, RowTokensView, SavedView } from "./view.ts";

export interface SaveOptions {
  readonly source: PageSource;
  readonly texts: TokenTexts;
  /** Milliseconds since the epoch. */
  readonly savedAt: number;
  /** Name and version, e.g. `coppice 0.1.0`. */
  readonly product: string;
}

/** The file's text. Throws `not_found` for a rollout that is not there, `unavailable` where the page was not built. */
export async function savePage(rollout: string, options: SaveOptions): Promise<string> {
  return pageWith(await savedView(rollout, options), readSite());
}

/** Everything that the page would ask for about one rollout. */
export async function savedView(
  rollout: string,
  { source, texts, savedAt, product }: SaveOptions,
): Promise<SavedView> {
  const model = new PageModel(source, () => undefined);
  const view = await wholeRollout(model, rollout);
  const kept = await model.kept(rollout, true);
  const rows: RowTokensView[] = [];
  if (kept.kind === "rows") {
    for (const { segment_index: index } of kept.rows) rows.push(await model.rowTokens(rollout, index));
  }
  const calls: CallView[] = [];
  for (const id of view.calls.call_id) calls.push(await model.call(rollout, id));
  return { saved_at: savedAt, product, rollout: view, kept, rows, calls, texts: await textsOf(calls, texts) };
}

/** All pieces of a long rollout as one view. */
async function wholeRollout(model: PageModel, rollout: string): Promise<RolloutView> {
  let view = await model.rollout(rollout, 0);
  while (view.more) {
    const next = await model.rollout(rollout, view.until);
    view = { ...next, calls: growColumns(view.calls, next.calls) };
  }
  return view;
}

async function textsOf(
  calls: readonly CallView[],
  texts: TokenTexts,
): Promise<Record<string, string | null>> {
  const ids = new Set(
    calls.flatMap(({ carried, generated, parting }) => [
      ...carried,
      ...generated,
      ...(parting === null ? [] : [...parting.shared, ...parting.recorded, ...parting.sent]),
    ]),
  );
  const all = [...ids];
  const told: Record<string, string | null> = {};
  for (let from = 0; from < all.length; from += MOST_TEXTS) {
    Object.assign(told, await texts.texts(all.slice(from, from + MOST_TEXTS)));
  }
  return told;
}

function pageWith(saved: SavedView, site: ReadonlyMap<string, SiteFile>): string {
  const script = scriptText(onlyFile(site, ".js").bytes.toString("utf8"));
  const style = withFonts(onlyFile(site, ".css").bytes.toString("utf8"), site);
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    "font-src data:",
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="content-security-policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>Coppice</title>
<style>${style}</style>
</head>
<body>
<div id="page"></div>
<script type="application/json" id="saved">${jsonText(saved)}</script>
<script type="module">${script}</script>
</body>
</html>`;
}

/** JSON that holds no character that HTML could read: it stays one text whatever is in it. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value).replaceAll(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The script with what would end or open its element spelled another way; it stands in strings only. */
function scriptText(script: string): string {
  return script.replaceAll(/<(?=\/script|!--|script)/gi, "\\x3c");
}

function hashOf(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

function onlyFile(site: ReadonlyMap<string, SiteFile>, ending: string): SiteFile {
  const found = [...site].filter(([name]) => name.endsWith(ending));
  const file = found[0]?.[1];
  if (file === undefined || found.length > 1) {
    throw new CoppiceError("unavailable", `the page was built into ${found.length} ${ending} files, not one`);
  }
  return file;
}

function withFonts(style: string, site: ReadonlyMap<string, SiteFile>): string {
  return style.replaceAll(/url\(["']?(?:\.\/)?([\w.-]+\.woff2)["']?\)/g, (_whole, name: string) => {
    const font = site.get(`assets/${name}`);
    if (font === undefined) throw new CoppiceError("unavailable", `the page's font ${name} is missing`);
    return `url(data:font/woff2;base64,${font.bytes.toString("base64")})`;
  });
}
