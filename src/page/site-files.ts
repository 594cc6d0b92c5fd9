// The page's own files as Vite built them (`dist/page/site`), read into memory once: a handful, under a megabyte.
import { readdirSync, readFileSync, existsSync } from "node:fs";
import { extname } from "node:path";
import { gzipSync } from "node:zlib";
import { CoppiceError } from "../errors.ts";

const SITE = new URL("../../dist/page/site/", import.meta.url);

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
  ".txt": "text/plain; charset=utf-8",
};

export interface SiteFile {
  readonly bytes: Buffer;
  /** Null where compressing gains nothing. */
  readonly gzipped: Buffer | null;
  readonly type: string;
}

/** By path within the site, such as `index.html`. Throws `unavailable` where the page was not built. */
export function readSite(): ReadonlyMap<string, SiteFile> {
  if (!existsSync(new URL("index.html", SITE))) {
    throw new CoppiceError("unavailable", "the page was not built: run `npm run build`");
  }
  const files = new Map<string, SiteFile>();
  for (const entry of readdirSync(SITE, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const folder = entry.parentPath.slice(SITE.pathname.length - 1).replace(/^\//, "");
    const name = folder === "" ? entry.name : `${folder}/${entry.name}`;
    const bytes = readFileSync(new URL(name, SITE));
    const type = TYPES[extname(name)] ?? "application/octet-stream";
    files.set(name, { bytes, type, gzipped: type.startsWith("font/") ? null : gzipSync(bytes) });
  }
  return files;
}
