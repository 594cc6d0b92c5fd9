// Lets Node 20 load the TypeScript sources as they stand, in threads and child processes that tests start:
// `node --import ./test/typescript/register.mjs file.ts`. Vitest's own modules do not come through here.
import { register } from "node:module";

register(new URL("./load.mjs", import.meta.url));
